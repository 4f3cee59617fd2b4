"""`bascule exec` as a process of its own: against the gateway, and against a scripted endpoint."""

import asyncio
import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from bascule.testing import Call, ModelServer, Reply, Request, Text, Usage, http_error, responded
from tests.agent.world import custom, function, patch, said, scripted
from tests.process import ROOT, environment
from tests.serving import serving

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]

Json = dict[str, Any]


@dataclass
class Ran:
    status: int
    out: str
    err: str

    @property
    def lines(self) -> list[Json]:
        return [json.loads(line) for line in self.out.splitlines()]

    def items(self, type_: str) -> list[Json]:
        """Completed items of a type."""
        done = [line["item"] for line in self.lines if line["type"] == "item.completed"]
        return [item for item in done if item["type"] == type_]


async def start(
    home: Path, *args: str, cwd: Path | None = None, stdin: bool = False, **env: str
) -> asyncio.subprocess.Process:
    work = cwd or home / "work"
    work.mkdir(exist_ok=True)
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bascule.cli", "exec", *args),
        cwd=work,
        env=environment(home, **env),
        stdin=asyncio.subprocess.PIPE if stdin else asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


async def run(home: Path, *args: str, stdin: str | None = None, **more: Any) -> Ran:
    process = await start(home, *args, stdin=stdin is not None, **more)
    async with asyncio.timeout(60):
        out, err = await process.communicate(None if stdin is None else stdin.encode())
    return Ran(process.returncode or 0, out.decode(), err.decode())


# --- ten steps of a task, through the gateway, with a model that speaks Chat

BROKEN = "def mean(values):\n    return sum(values) / len(values) + 1\n\n\ndef median(values):\n    return sorted(values)[len(values) // 2]\n"
TESTS = """
import unittest
from stats import mean, median
class Stats(unittest.TestCase):
    def test_mean(self): self.assertEqual(mean([1, 2, 3]), 2)
    def test_median(self): self.assertEqual(median([4, 1, 2, 3]), 2.5)
"""


def plan(*statuses: str) -> Json:
    steps = ["find the fault", "repair mean", "repair median"]
    return {"plan": [{"step": s, "status": t} for s, t in zip(steps, statuses, strict=True)]}


def chat(*steps: Any) -> Reply:
    return Reply(*steps, Usage(prompt=100, completion=10))


MEAN = patch(
    "*** Update File: stats.py",
    "@@ def mean(values):",
    "-    return sum(values) / len(values) + 1",
    "+    return sum(values) / len(values)",
)
MEDIAN_WRONG = patch(
    "*** Update File: stats.py",
    "@@ def median(values):",
    "-    return values[len(values) // 2]",
    "+    pass",
)
MEDIAN = patch(
    "*** Update File: stats.py", "@@ def median(values):", "-    return sorted(values)[len(values) // 2]",
    "+    ordered = sorted(values)", "+    half = len(ordered) // 2", "+    if len(ordered) % 2:", "+        return ordered[half]",
    "+    return mean(ordered[half - 1 : half + 1])",
)  # fmt: skip
TEST_RUN = {"cmd": "python3 -m unittest -q 2>&1 | tail -20"}
TASK = [
    chat(Call("exec_command", {"cmd": "ls; grep -n 'def ' *.py"})),
    chat(Call("exec_command", {"cmd": "cat stats.py"}), Call("update_plan", plan("in_progress", "pending", "pending"))),
    chat(Call("exec_command", TEST_RUN)),
    chat(Call("apply_patch", {"input": MEAN}), Call("exec_command", TEST_RUN)),
    chat(Call("update_plan", plan("completed", "completed", "in_progress"))),
    chat(Call("apply_patch", {"input": MEDIAN_WRONG})),
    chat(Call("exec_command", {"cmd": "sed -n 5,10p stats.py"})),
    chat(Call("apply_patch", {"input": MEDIAN})),
    chat(Call("exec_command", TEST_RUN), Call("update_plan", plan("completed", "completed", "completed"))),
    chat(Text("Both functions are repaired; the tests pass.")),
]  # fmt: skip


@pytest.mark.requirement("exec_cli:task")
async def test_a_coding_task_of_ten_steps(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "stats.py").write_text(BROKEN)
    (work / "test_stats.py").write_text(TESTS)
    async with (
        ModelServer(TASK) as model,
        serving(model.url, upstream_options={"profile": "custom"}) as api,
    ):
        ran = await run(
            tmp_path,
            "--json",
            "--base-url",
            f"{api.url}/v1",
            "--model",
            "mock-model",
            "repair the functions",
            cwd=work,
        )
        assert ran.status == 0, ran.err
        tests = [c for c in ran.items("command_execution") if "unittest" in c["command"]]
        assert ["FAILED" in run["aggregated_output"] for run in tests] == [True, True, False]
        assert "OK" in tests[-1]["aggregated_output"]
        changes = ran.items("file_change")
        assert [c["status"] for c in changes] == ["completed", "completed"]
        assert changes[0]["changes"] == [{"path": "stats.py", "kind": "update"}]
        # The patch that did not fit told the model so, and nothing was changed by it.
        told = [m for r in model.requests if r.number for m in r.messages if m["role"] == "tool"]
        assert any("apply_patch verification failed" in str(m["content"]) for m in told)
        lists = [line for line in ran.lines if line.get("item", {}).get("type") == "todo_list"]
        assert [line["type"] for line in lists] == ["item.started", "item.updated", "item.updated"]
        assert all(step["completed"] for step in lists[-1]["item"]["items"])
        assert ran.items("agent_message")[-1]["text"].startswith("Both functions are repaired")
        end = ran.lines[-1]
        assert end["type"] == "turn.completed"
        assert (end["usage"]["input_tokens"], end["usage"]["output_tokens"]) == (1000, 100)
        assert [line["type"] for line in ran.lines[:2]] == ["thread.started", "turn.started"]
        diff = [line for line in ran.lines if line["type"] == "turn.diff"][-1]["diff"]
    (work / "stats.py").write_text(BROKEN)
    subprocess.run(["git", "apply", "--check", "-"], input=diff, text=True, cwd=work, check=True)


# --- the command's own manners


async def test_the_answer_is_on_stdout_and_all_else_on_stderr(tmp_path: Path) -> None:
    script = scripted(
        [function("exec_command", {"cmd": "echo \x1b[31mred"})], [said("done \x1b]0;x\x07it")]
    )
    async with ModelServer(script) as model:
        out = tmp_path / "answer.txt"
        ran = await run(
            tmp_path,
            "--base-url",
            model.url,
            "--model",
            "m",
            "--output-last-message",
            str(out),
            "go",
        )
        assert (ran.status, ran.out) == (0, "done it\n")
        assert "* exec_command: echo" in ran.err
        assert "  red" in ran.err
        assert "\x1b" not in ran.err
        assert out.read_text().startswith("done")


@pytest.mark.requirement("exec_cli:schema")
async def test_an_answer_of_a_wanted_form_and_a_prompt_on_stdin(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    (tmp_path / "schema.json").write_text(json.dumps(schema))
    async with ModelServer(scripted([said('{"n": 1}')])) as model:
        args = (
            "--base-url",
            model.url,
            "--model",
            "m",
            "--output-schema",
            str(tmp_path / "schema.json"),
            "-",
        )
        ran = await run(tmp_path, *args, stdin="count\n")
        assert json.loads(ran.out) == {"n": 1}
        sent = model.requests[0].json
        assert sent["text"]["format"]["schema"] == schema
        assert sent["input"][-1]["content"][0]["text"] == "count\n"


@pytest.mark.requirement("exec_cli:resume")
async def test_a_session_is_gone_on_with(tmp_path: Path) -> None:
    async with ModelServer(scripted([said("one")], [said("two")], [said("three")])) as model:
        args = ("--base-url", model.url, "--model", "m", "--json")
        first = await run(tmp_path, *args, "remember 7")
        id_ = first.lines[0]["thread_id"]
        second = await run(tmp_path, "resume", *args, "which?")
        third = await run(tmp_path, "resume", *args, "--session", id_[:12], "again?")
        assert {r.lines[0]["thread_id"] for r in (first, second, third)} == {id_}
        texts = [
            part["text"]
            for item in model.requests[2].json["input"]
            for part in item["content"]
            if item["role"] in ("user", "assistant") and not part["text"].startswith("<env")
        ]
        assert texts == ["remember 7", "one", "which?", "two", "again?"]
        lost = await run(tmp_path, "resume", *args, "--session", "nope", "x")
        assert (lost.status, lost.err) == (2, "bascule: there is no session 'nope'\n")


@pytest.mark.requirement("exec_cli:no_sandbox")
async def test_without_a_sandbox_it_refuses(tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("sh", "bash", "echo", "env"):
        (programs / name).symlink_to(str(shutil.which(name)))
    script = scripted(
        [function("exec_command", {"cmd": "echo $0; echo made > made"})], [said("done")]
    )
    async with ModelServer(script) as model:
        args = ("--base-url", model.url, "--model", "m")
        ran = await run(tmp_path, *args, "go", PATH=str(programs))
        assert ran.status == 2
        assert "bubblewrap is not installed" in ran.err
        assert "--sandbox danger-full-access" in ran.err
        assert model.requests == []
        ran = await run(
            tmp_path, *args, "--sandbox", "danger-full-access", "go", PATH=str(programs)
        )
        assert ran.status == 0, ran.err
        assert (tmp_path / "work" / "made").exists()


async def test_it_is_kept_in_its_sandbox(tmp_path: Path) -> None:
    calls = [
        function(
            "exec_command",
            {"cmd": "touch inside; touch /var/tmp/bascule-outside; echo $?"},
            "call_1",
        ),
        function(
            "exec_command", {"cmd": "touch x", "sandbox_permissions": "require_escalated"}, "call_2"
        ),
        custom("apply_patch", patch("*** Add File: ../outside.txt", "+x"), "call_3"),
    ]
    async with ModelServer(scripted(calls, [said("done")])) as model:
        args = ("--base-url", model.url, "--model", "m", "--json", "--approval", "on-request")
        ran = await run(tmp_path, *args, "go")
        assert ran.status == 0
        assert (tmp_path / "work" / "inside").exists()
        assert not Path("/var/tmp/bascule-outside").exists()
        assert not (tmp_path / "outside.txt").exists()
        outputs = [i["output"] for i in model.requests[1].json["input"] if "output" in i]
        assert "Read-only file system" in outputs[0]
        assert (
            outputs[1:] == ["This needs the user's approval, and nobody is there to be asked."] * 2
        )


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["--base-url", "ftp://x", "go"], "--base-url: it must begin with http"),
        (["--model", "m", "--cd", "/no/such", "go"], "--cd: /no/such is no folder"),
        (["--model", "m", "--output-schema", "/no/such", "go"], "--output-schema: cannot read"),
        (["--model", "m", "--image", "/etc/passwd", "go"], "--image: /etc/passwd is no image"),
        (
            ["--base-url", "http://127.0.0.1:9/v1", "go"],
            "no model is named, and http://127.0.0.1:9/v1/models",
        ),
        (["--config", "/no/such.toml", "go"], "cannot read /no/such.toml"),
    ],
)
async def test_what_is_wrong_is_one_line(tmp_path: Path, args: Sequence[str], told: str) -> None:
    ran = await run(tmp_path, *args)
    assert ran.status == 2
    assert told in ran.err
    assert ran.err.count("\n") == 1


async def test_a_turn_that_fails_is_told(tmp_path: Path) -> None:
    async with ModelServer(http_error(401, "no key")) as model:
        args = ("--base-url", model.url, "--model", "m")
        ran = await run(tmp_path, *args, "--json", "go")
        assert ran.status == 1
        assert ran.lines[-1]["type"] == "turn.failed"
        assert ran.lines[-1]["error"] == {"message": "HTTP 401: no key"}
        plain = await run(tmp_path, *args, "go")
        assert (plain.status, plain.out) == (1, "")
        assert "! failed: HTTP 401: no key" in plain.err


@pytest.mark.requirement("exec_cli:interrupted")
async def test_a_signal_ends_the_turn_and_what_runs(tmp_path: Path) -> None:
    script = scripted([function("exec_command", {"cmd": "echo up > up; sleep 91.5"})], [said("x")])
    async with ModelServer(script) as model:
        process = await start(tmp_path, "--base-url", model.url, "--model", "m", "--json", "go")
        async with asyncio.timeout(30):
            while not (tmp_path / "work" / "up").exists():
                await asyncio.sleep(0.02)
            process.send_signal(signal.SIGINT)
            out, _ = await process.communicate()
        assert process.returncode == 130
        end = json.loads(out.splitlines()[-1])
        assert (end["type"], end["status"]) == ("turn.failed", "interrupted")
        assert len(model.requests) == 1
    assert subprocess.run(["pgrep", "-f", "sleep 91[.]5"], check=False).returncode == 1


async def test_the_configuration_is_the_users_not_the_projects(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "bascule.toml").write_text(
        '[agent]\nsandbox = "danger-full-access"\nmodel = "theirs"\n'
    )
    folder = tmp_path / ".config" / "bascule"
    folder.mkdir(parents=True)

    def answer(request: Request) -> Any:
        return responded(said("done"))(request)

    async with ModelServer(answer, models=["first"]) as model:
        (folder / "bascule.toml").write_text(
            f'[agent]\nbase_url = "{model.origin}"\napi_key = "k3y"\n[agent.tools]\nplan = false\n'
        )
        ran = await run(tmp_path, "--json", "go")
        assert ran.status == 0, ran.err
        sent = model.requests[-1]
        assert sent.json["model"] == "first"
        assert sent.headers["authorization"] == "Bearer k3y"
        assert "update_plan" not in str(sent.json["tools"])
        assert "workspace-write" in str(sent.json["input"][1])
        wrong = await run(tmp_path, "go", BASCULE__AGENT__TOOLS="{plans = true}")
        assert wrong.status == 2
        assert "agent.tools" in wrong.err


def test_the_commands_are_documented() -> None:
    shown = subprocess.run(
        [sys.executable, "-m", "bascule.cli", "exec", "--help"],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    ).stdout
    for option in (
        "--json",
        "--output-schema",
        "--sandbox",
        "--approval",
        "--model",
        "--base-url",
        "resume",
    ):
        assert option in shown
