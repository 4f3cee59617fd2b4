"""`scripts/run`: a turn with a tool that a person can follow, and lines that work as printed."""

import re
import signal
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import pytest
from anyio.from_thread import start_blocking_portal

from bascule.testing import Call, ModelServer, Reply
from bascule.testing.demo import demo_server
from tests.process import ROOT, environment, finished, running

FREE = {"BASCULE__SERVER__PORT": "0"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A project with what the question asks for."""
    for name in ("docs/a.md", "docs/b.md", "scripts/go"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("")
    (tmp_path / ".venv").symlink_to(Path(sys.executable).parents[1])
    return tmp_path


@pytest.fixture(scope="module")
def demo() -> Generator[str]:
    server = demo_server()
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(server):
        yield server.url


def _command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "bascule.cli.run", *arguments]


def test_the_script_itself(tmp_path: Path, demo: str) -> None:
    done = finished(tmp_path, [str(ROOT / "scripts/run"), "--once", "--upstream", demo], env=FREE)
    assert done.returncode == 0, done.stderr
    assert "testing.md" in done.stdout


def test_a_turn_is_told_in_order(folder: Path, demo: str) -> None:
    done = finished(folder, _command("--once", "--upstream", demo), env=FREE)
    assert done.returncode == 0, done.stderr
    told = [
        "The gateway listens on http://127.0.0.1:",
        "the model is bascule-demo",
        "user     List the files",
        'call     list_files {"folder":"docs"}',
        'call     list_files {"folder":"scripts"}',
        "response resp_",
        "output   a.md, b.md",
        "output   go",
        "answer   I am a demo model",
        "response resp_",
        "tokens in",
        "The turn took 2 requests",
    ]
    at = 0
    for text in told:
        at = done.stdout.find(text, at)
        assert at >= 0, (text, done.stdout)
    assert "goes on serving" not in done.stdout
    assert (folder / ".run" / "state.db").is_file()


def test_it_goes_on_serving_and_what_it_prints_works(folder: Path, demo: str) -> None:
    with running(folder, *_command("--upstream", demo), env=FREE) as show:
        lines = [show.first]
        while lines[-1] and lines[-1] != "END\n":
            lines.append(show.readline())
        text = "".join(lines)
        commands = re.findall(r"^curl .*$", text, re.MULTILINE)
        commands += re.findall(r"^\.venv/bin/python.*?^END$", text, re.MULTILINE | re.DOTALL)
        assert len(commands) == 3
        for command in commands:
            done = subprocess.run(
                ["bash", "-ec", command],
                cwd=folder,
                env=environment(folder),
                capture_output=True,
                text=True,
                timeout=20,
                check=False,
            )
            assert done.returncode == 0, done.stderr
            assert "demo model" in done.stdout
        assert show.stop(signal.SIGINT) == 0
    assert "Traceback" not in show.stderr


def test_a_signal_ends_the_gateway_too(folder: Path, demo: str) -> None:
    with running(folder, *_command("--upstream", demo), env=FREE) as show:
        url = re.findall(r"http://[\d.:]+", show.first)[0]
        while show.readline() not in ("END\n", ""):
            pass
        assert show.stop(signal.SIGTERM) == 0
    done = finished(folder, ["curl", "-s", f"{url}/health"])
    assert done.returncode == 7  # nobody listens


def test_a_gateway_with_keys(folder: Path, demo: str) -> None:
    env = {**FREE, "BASCULE__SERVER__API_KEYS__0": "sk-top-secret"}
    done = finished(folder, _command("--once", "--upstream", demo), env=env)
    assert done.returncode == 0, done.stderr
    assert "top-secret" not in done.stdout + done.stderr


def _with(model: ModelServer, folder: Path) -> "subprocess.CompletedProcess[str]":
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(model):
        return finished(folder, _command("--once", "--upstream", model.url), env=FREE)


def test_a_model_that_calls_no_tool(folder: Path) -> None:
    done = _with(ModelServer("No."), folder)
    assert done.returncode == 1
    assert "without calling the tool" in done.stderr


def test_a_model_that_never_stops_calling(folder: Path) -> None:
    reply = Reply(Call("list_files", {"folder": "docs"}))
    done = _with(ModelServer(reply), folder)
    assert done.returncode == 1
    assert "still calls the tool" in done.stderr


def test_a_call_cannot_leave_the_project(folder: Path) -> None:
    replies = [Reply(Call("list_files", {"folder": "../.."})), Reply("Sorry.")]
    done = _with(ModelServer(replies), folder)
    assert done.returncode == 0
    assert "error: ../.. is not in this project" in done.stdout


def test_a_server_that_is_not_there(folder: Path) -> None:
    done = finished(folder, _command("--once", "--upstream", "http://127.0.0.1:9"), env=FREE)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr


def test_a_faulty_configuration(folder: Path) -> None:
    (folder / "bascule.toml").write_text("[sever]\n")
    done = finished(folder, _command("--once"))
    assert done.returncode == 1
    assert "sever" in done.stderr
    assert "Traceback" not in done.stderr
