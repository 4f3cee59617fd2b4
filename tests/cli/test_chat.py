"""`bascule chat` in a real terminal."""

import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from bascule.testing import ModelServer
from tests.agent.world import custom, function, patch, said, scripted
from tests.process import call, environment
from tests.terminal import Terminal, terminal

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]


@asynccontextmanager
async def chatting(
    home: Path, script: Any, *args: str, **env: str
) -> AsyncGenerator[tuple[Terminal, ModelServer]]:
    work = home / "work"
    work.mkdir(exist_ok=True)
    async with ModelServer(script) as model:
        command = [
            sys.executable,
            "-m",
            "bascule.cli",
            "chat",
            "--base-url",
            model.url,
            "--model",
            "m",
        ]
        variables = environment(home, LANG="C.UTF-8", **env)
        async with terminal([*command, *args], cwd=work, env=variables) as it:
            yield it, model


@pytest.mark.requirement("chat:turn")
async def test_a_conversation(tmp_path: Path) -> None:
    steps = [{"step": "look", "status": "completed"}, {"step": "write", "status": "in_progress"}]
    calls = [
        function("update_plan", {"plan": steps}, "call_1"),
        function("exec_command", {"cmd": r"printf 'one\ntwo \033[31mred\n'"}, "call_2"),
        custom("apply_patch", patch("*** Add File: a.txt", "+hello"), "call_3"),
    ]
    script = scripted(calls, [said("It is \x1b[2Jdone.")], [said("Again.")])
    async with chatting(tmp_path, script, "--approval", "on-request") as (it, model):
        await it.until("›")
        it.type("please")
        it.key("Enter")
        shown = await it.until("It is done.")
        assert "m in " in shown
        assert "sandbox workspace-write, approvals on-request" in shown
        assert "☑ look" in shown
        assert "▶ write" in shown
        assert "• exec_command: printf" in shown
        assert "  one\n  two red\n" in shown
        assert "• apply_patch" in shown
        assert "+hello" in shown
        assert (tmp_path / "work" / "a.txt").read_text() == "hello\n"
        assert "\x1b[32m+hello" in it.screen(colours=True)
        it.type("/status")
        it.key("Enter")
        assert "without network" in await it.until("tokens    24 in, 14 out")
        it.type("/diff")
        it.key("Enter")
        await it.until(lambda screen: screen.count("+hello") == 2)
        it.type("/nonsense")
        it.key("Enter")
        await it.until("There is no /nonsense; /help lists")
        it.type("/model other")
        it.key("Enter")
        it.type("more")
        it.key("Enter")
        await it.until("Again.")
        assert model.requests[2].json["model"] == "other"
        it.type("/new")
        it.key("Enter")
        await it.until(lambda screen: screen.count("sandbox workspace-write") == 2)
        it.key("C-d")
        await it.until("[ended 0]")


@pytest.mark.requirement("chat:approval")
async def test_the_person_is_asked(tmp_path: Path) -> None:
    def escalated(cmd: str, call_id: str) -> Any:
        arguments = {
            "cmd": cmd,
            "sandbox_permissions": "require_escalated",
            "justification": "May I look?",
            "prefix_rule": ["touch"],
        }
        return function("exec_command", arguments, call_id)

    script = scripted(
        [escalated("touch yes", "call_1")], [escalated("touch no", "call_2")],
        [escalated("touch more", "call_3")], [said("done")],
    )  # fmt: skip
    async with chatting(tmp_path, script) as (it, model):
        await it.until("›")
        it.type("go")
        it.key("Enter")
        shown = await it.until("[y/s/a/n/q]")
        assert "? May I look?" in shown
        assert "$ touch yes" in shown
        assert "always for commands that begin so: touch …" in shown
        it.type("x")  # no choice: asked again
        it.key("Enter")
        await it.until(lambda screen: screen.count("[y/s/a/n/q]") == 2)
        it.type("y")
        it.key("Enter")
        await it.until(lambda screen: screen.count("[y/s/a/n/q]") == 3)
        it.type("n not that one")
        it.key("Enter")
        await it.until(lambda screen: screen.count("[y/s/a/n/q]") == 4)
        it.type("a")
        it.key("Enter")
        await it.until("done")
        work = tmp_path / "work"
        assert {path.name for path in work.iterdir()} == {"yes", "more"}
        outputs = [
            i["output"]
            for i in model.requests[2].json["input"]
            if i["type"] == "function_call_output"
        ]
        assert outputs[1] == "The user did not approve this call. not that one"
        rules = tmp_path / ".local" / "share" / "bascule" / "agent" / "rules.toml"
        assert 'prefix = ["touch"]' in rules.read_text()


@pytest.mark.requirement("chat:interrupt")
async def test_ctrl_c_interrupts_the_turn_and_not_the_program(tmp_path: Path) -> None:
    script = scripted(
        [function("exec_command", {"cmd": "echo begun; sleep 60"})], [said("I am here.")]
    )
    async with chatting(tmp_path, script, "go") as (it, model):
        await it.until("  begun")
        it.key("C-c")
        await it.until("! interrupted: interrupted by the user")
        it.type("are you there?")
        it.key("Enter")
        await it.until("I am here.")
        outputs = [i["output"] for i in model.requests[1].json["input"] if "output" in i]
        assert outputs[0].startswith("aborted by user after ")
        it.key("C-c")
        await it.until("Ctrl-D or /quit leaves.")
        it.type("/quit")
        it.key("Enter")
        await it.until("[ended 0]")


@pytest.mark.requirement("chat:question")
async def test_the_model_asks_and_a_session_goes_on(tmp_path: Path) -> None:
    options = [{"label": "red", "description": "warm"}, {"label": "blue", "description": "cold"}]
    question = {"id": "c", "header": "Colour", "question": "Which colour?", "options": options}
    script = scripted(
        [function("request_user_input", {"questions": [question]})],
        [said("Blue it is.")],
        [said("Still blue.")],
    )
    async with chatting(tmp_path, script) as (it, model):
        await it.until("›")
        it.type("paint")
        it.key("Enter")
        await it.until("[2] blue: cold")
        it.type("2")
        it.key("Enter")
        await it.until("Blue it is.")
        assert '{"c":{"answers":["blue"]}}' in str(model.requests[1].json["input"][-1]["output"])
        it.key("C-d")
        await it.until("[ended 0]")
        async with chatting(
            tmp_path, scripted([said("Still blue.")]), "--resume", "last", "and now?"
        ) as (again, other):
            await again.until("Still blue.")
            assert len(other.requests[0].json["input"]) == len(model.requests[1].json["input"]) + 2


@pytest.mark.requirement("chat:no_sandbox")
async def test_without_a_sandbox_the_person_is_asked(tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "sh").symlink_to("/bin/sh")
    script = scripted([function("exec_command", {"cmd": "echo x > made"})], [said("done")])
    for answer in ("n", "y"):
        async with chatting(tmp_path, script, PATH=str(programs)) as (it, _):
            await it.until("Go on without a sandbox? [y/N]")
            it.type(answer)
            it.key("Enter")
            if answer == "n":
                await it.until("[ended 0]")
                continue
            await it.until("sandbox none")
            it.type("go")
            it.key("Enter")
            await it.until("? There is no sandbox to run it in.")
            assert not (tmp_path / "work" / "made").exists()
            it.type("y")
            it.key("Enter")
            await it.until("done")
            assert (tmp_path / "work" / "made").exists()


def test_it_needs_a_terminal(tmp_path: Path) -> None:
    done = call(tmp_path, "chat", "--model", "m")
    assert (done.returncode, done.stderr) == (
        2, "bascule: chat needs a terminal; use `bascule exec` without one\n",
    )  # fmt: skip
