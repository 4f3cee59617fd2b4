"""`exec_command` and `write_stdin`, through dispatch."""

import asyncio
import re
import time
from pathlib import Path

import pytest

from bascule.agent.events import ToolBegan, ToolEnded, ToolPrinted
from tests.agent.world import function, patch, world

pytestmark = pytest.mark.anyio

HEAD = re.compile(
    r"Chunk ID: [0-9a-f]{6}\nWall time: \d+\.\d{4} seconds\n"
    r"Process (?:exited with code (?P<code>\d+)|running with session ID (?P<session>\d+))\n"
    r"Original token count: (?P<tokens>\d+)\nOutput:\n(?P<body>.*)\Z",
    re.DOTALL,
)


def parts(output: str) -> dict[str, str | None]:
    found = HEAD.fullmatch(output)
    assert found is not None, output
    return found.groupdict()


@pytest.mark.requirement("exec:form")
async def test_a_command_to_its_end(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        read = parts(await it.sh("echo out; echo err >&2; exit 3"))
        assert read == {"code": "3", "session": None, "tokens": "2", "body": "out\nerr\n"}
        [began], [ended] = it.of(ToolBegan), it.of(ToolEnded)
        assert (began.tool, ended.outcome, ended.exit_code) == ("exec_command", "completed", 3)
        assert "".join(event.text for event in it.of(ToolPrinted)) == "out\nerr\n"


async def test_where_and_with_what_it_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "s3cret")
    monkeypatch.setenv("PLAIN", "plain")
    async with world(tmp_path, env={"EXTRA": "extra"}) as it:
        (it.folder / "sub").mkdir()
        said = await it.sh("pwd; env", workdir="sub")
        assert parts(said)["body"].startswith(f"{it.folder / 'sub'}\n")  # type: ignore[union-attr]
        assert "s3cret" not in said
        assert "PLAIN=plain" in said
        assert "EXTRA=extra" in said
        assert "NO_COLOR=1" in said
        assert await it.sh("pwd", workdir="none") == "the folder 'none' does not exist"
        assert "sh\n" in await it.sh("echo $0", shell="/bin/sh")
        assert "login_shell" in await it.sh("shopt login_shell | grep on$", login=True)


@pytest.mark.requirement("exec:sessions")
async def test_one_that_goes_on_is_polled_to_its_end(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        first = parts(await it.sh("echo one; sleep 0.6; echo two; exit 4", yield_time_ms=250))
        assert (first["body"], first["code"]) == ("one\n", None)
        poll = {"session_id": int(first["session"] or 0), "yield_time_ms": 5000}
        began = time.monotonic()
        second = parts(await it.run("write_stdin", poll))
        assert (second["body"], second["code"]) == ("two\n", "4")
        assert time.monotonic() - began < 3
        assert await it.run("write_stdin", poll) == (
            f"write_stdin failed: session {first['session']}: it has ended with code 4"
        )
        assert await it.run("write_stdin", {"session_id": 99}) == (
            "write_stdin failed: session 99: there is none of this number"
        )


async def test_one_with_a_terminal_is_written_to(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        first = parts(await it.sh("read x; echo got $x; read y", tty=True, yield_time_ms=250))
        session = int(first["session"] or 0)
        second = parts(await it.run("write_stdin", {"session_id": session, "chars": "hello\n"}))
        assert second["body"] == "hello\ngot hello\n"
        third = parts(await it.run("write_stdin", {"session_id": session, "chars": "\x03"}))
        assert third["code"] == "130"


async def test_a_terminal_in_a_sandbox(tmp_path: Path) -> None:
    async with world(tmp_path, mode="workspace-write") as it:
        script = "test -t 1 && echo terminal; read x; echo got $x > made; cat"
        first = parts(await it.sh(script, tty=True, yield_time_ms=600))
        assert first["body"] == "terminal\n"
        session = int(first["session"] or 0)
        await it.run("write_stdin", {"session_id": session, "chars": "hello\n"})
        assert (it.folder / "made").read_text() == "got hello\n"
        ended = parts(
            await it.run(
                "write_stdin", {"session_id": session, "chars": "\x03", "yield_time_ms": 5000}
            )
        )
        assert ended["code"] == "130"


@pytest.mark.requirement("exec:closed_stdin")
async def test_one_without_a_terminal_cannot_be_written_to_but_interrupted(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        first = parts(
            await it.sh("trap 'exit 7' INT; while :; do sleep 0.05; done", yield_time_ms=250)
        )
        session = int(first["session"] or 0)
        told = await it.run("write_stdin", {"session_id": session, "chars": "x"})
        assert told.startswith("write_stdin failed: stdin is closed for this session; start")
        ended = parts(
            await it.run(
                "write_stdin", {"session_id": session, "chars": "\x03", "yield_time_ms": 3000}
            )
        )
        assert ended["code"] == "7"


async def test_one_that_closes_its_terminal_is_told_of(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        first = parts(
            await it.sh("exec </dev/null >/dev/null 2>&1; sleep 5", tty=True, yield_time_ms=400)
        )
        session = int(first["session"] or 0)
        told = await it.run("write_stdin", {"session_id": session, "chars": "x\n"})
        assert "does not read its input" in told or parts(told)["body"] in ("", "x\n")


@pytest.mark.requirement("exec:patience")
async def test_many_empty_polls_are_told_to_wait_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bascule.agent.tools.write_stdin._POLL_SHORTEST", 0.001)
    async with world(tmp_path) as it:
        first = parts(await it.sh("sleep 30", yield_time_ms=250))
        poll = {"session_id": int(first["session"] or 0)}
        bodies = [parts(await it.run("write_stdin", poll))["body"] or "" for _ in range(50)]
        assert bodies[:9] == [""] * 9
        assert all("Wait longer at a time" in body for body in bodies[9:])
        assert "for 50 polls" in bodies[49]


@pytest.mark.requirement("exec:limit")
async def test_long_output_is_cut_to_what_was_asked_for(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        read = parts(await it.sh("seq 1 10000", max_output_tokens=100))
        assert read["tokens"] == "12224"
        body = read["body"] or ""
        assert body.startswith(
            "Warning: truncated output (original token count: 12224)\nTotal output lines: 10000\n\n1\n2\n"
        )
        assert body.endswith("\n9999\n10000\n")
        assert len(body) < 600
        most = parts(await it.sh("seq 1 100000", max_output_tokens=10**9))["body"] or ""
        assert len(most) < 41_000


@pytest.mark.requirement("exec:strange_output")
async def test_what_is_no_text_is_shown_as_text(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        said = await it.sh(r"printf 'a\xff\033[31mred\033]0;title\007\r\nb'")
        assert parts(said)["body"] == "a\ufffdred\nb"
        assert "".join(e.text for e in it.of(ToolPrinted)) == "a\ufffdred\nb"


@pytest.mark.requirement("exec:parallel")
async def test_commands_run_side_by_side_and_answer_in_order(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        began = time.monotonic()
        calls = [
            function("exec_command", {"cmd": f"sleep {1 - n / 10}; echo {n}"}, f"call_{n}")
            for n in range(3)
        ]
        outputs = await it.call(*calls)
        assert time.monotonic() - began < 2.2
        assert [parts(o["output"])["body"] for o in outputs] == ["0\n", "1\n", "2\n"]
        assert [o["call_id"] for o in outputs] == ["call_0", "call_1", "call_2"]


@pytest.mark.requirement("exec:patch")
@pytest.mark.parametrize("how", ["{patch}", "cd sub && {patch}"])
async def test_a_patch_in_a_command_is_a_patch(tmp_path: Path, how: str) -> None:
    async with world(tmp_path) as it:
        (it.folder / "sub").mkdir()
        heredoc = "apply_patch <<'EOF'\n" + patch("*** Add File: a.txt", "+new") + "\nEOF"
        calls = [
            function("exec_command", {"cmd": how.format(patch=heredoc)}, "call_0"),
            function("exec_command", {"cmd": "cat a.txt sub/a.txt 2>/dev/null"}, "call_1"),
        ]
        first, second = await it.call(*calls)
        read = parts(first["output"])
        assert (read["code"], read["body"]) == (
            "0",
            "Success. Updated the following files:\nA a.txt",
        )
        assert parts(second["output"])["body"] == "new\n"  # it waited for the patch


async def test_a_patch_in_a_command_that_does_not_fit(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        text = patch("*** Update File: a.txt", "-old", "+new")
        told = await it.sh(f"apply_patch <<EOF\n{text}\nEOF")
        assert told.startswith("apply_patch verification failed: 'a.txt' cannot be updated")


@pytest.mark.requirement("exec:nothing_left")
async def test_nothing_runs_on_when_the_session_ends(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        parts(await it.sh("sleep 81.5", yield_time_ms=250))
        parts(await it.sh("trap '' TERM; sleep 82.5; true", yield_time_ms=250, tty=True))
        parts(await it.sh("setsid sleep 83.5 & echo", yield_time_ms=500))
    commands = await asyncio.to_thread(_commands)
    assert not [c for c in commands if re.search(r"sleep 8[123]\.5", c)]


def _commands() -> list[str]:
    found: list[str] = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(path.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:
            continue
    return found


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ("{", "failed to parse function arguments: Input data was truncated"),
        ("[]", "failed to parse function arguments: Expected `object`, got `array`"),
        ({}, "failed to parse function arguments: Object missing required field `cmd`"),
        ({"cmd": 3}, "failed to parse function arguments: Expected `str`, got `int` - at `$.cmd`"),
        ({"cmd": " "}, "failed to parse function arguments: `cmd` is empty"),
        ({"cmd": "ls", "tty": "yes"}, "failed to parse function arguments: Expected `bool`, got `str` - at `$.tty`"),
        ({"cmd": "ls", "yield_time_ms": -1}, "failed to parse function arguments: Expected `float` >= 0.0 - at `$.yield_time_ms`"),
        ({"cmd": "ls", "other": 1}, "failed to parse function arguments: Object contains unknown field `other`"),
        ("[" * 100000, "failed to parse function arguments: "),
    ],
)  # fmt: skip
@pytest.mark.requirement("agent:arguments")
async def test_arguments_that_make_no_sense(tmp_path: Path, arguments: object, told: str) -> None:
    async with world(tmp_path) as it:
        assert (await it.run("exec_command", arguments)).startswith(told)


async def test_a_program_that_is_not_there(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        assert "could not be started" in await it.sh("true", shell="/no/such/shell")
