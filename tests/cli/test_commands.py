"""The commands that end by themselves, and `mock`."""

import json
import signal
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from anyio.from_thread import start_blocking_portal

from bascule import __version__
from bascule.cli import main
from bascule.testing import ModelServer
from tests.process import bascule, call, running

Command = Callable[..., tuple[int, str, str]]
"""Runs a command in this process: its exit status, stdout and stderr."""


@pytest.fixture
def command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Command:
    """In a folder of its own, where nothing of the machine's is read."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["bascule", *arguments])
        status: Any = 0
        try:
            main()
        except SystemExit as e:
            status = e.code or 0
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return run


UPSTREAM = '[[upstreams]]\nname = "a"\nbase_url = "http://127.0.0.1:9"\n'


def test_version_and_help(tmp_path: Path) -> None:
    assert call(tmp_path, "--version").stdout.strip() == __version__
    shown = call(tmp_path, "--help")
    assert shown.returncode == 0
    for name in ("serve", "check-config", "models", "mock"):
        assert name in shown.stdout


def test_an_unknown_command_or_option_is_not_success(tmp_path: Path) -> None:
    assert call(tmp_path, "sevre").returncode != 0
    assert call(tmp_path, "serve", "--prot", "1").returncode != 0


def test_check_config_without_a_file(command: Command) -> None:
    assert command("check-config") == (0, "defaults: ok\n", "")


def test_check_config_with_a_file(command: Command) -> None:
    path = Path("other.toml")
    path.write_text(f"[server]\nport = 1\n{UPSTREAM}")
    assert command("check-config", "--config", str(path)) == (0, f"{path}: ok\n", "")


def test_the_file_in_this_folder_and_the_one_in_the_config_folder(tmp_path: Path) -> None:
    folder = tmp_path / ".config" / "bascule"
    folder.mkdir(parents=True)
    (folder / "bascule.toml").write_text("[server]\nport = 1\n")
    assert call(tmp_path, "check-config").stdout == f"{folder / 'bascule.toml'}: ok\n"
    (tmp_path / "bascule.toml").write_text("[server]\nport = 2\n")
    assert call(tmp_path, "check-config").stdout == "bascule.toml: ok\n"


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("[server\n", "not valid TOML"),
        ("[sever]\n", "sever: unknown key"),
        ("[server]\nprot = 1\n", "server.prot: unknown key"),
        ('[server]\nport = "x"\n', "server.port"),
        ("[server]\nport = 65536\n", "server.port"),
        ('[server]\napi_keys = ["env:NO_SUCH_KEY"]\n', "server.api_keys"),
        ('[security]\nkeys = ["short"]\n', "security.keys[0]"),
        ("[limits]\nmax_items = 0\n", "limits.max_items"),
        ('[telemetry]\nlog = "xml"\n', "telemetry.log"),
        (f"{UPSTREAM}{UPSTREAM}", "upstreams[1].name"),
        (f'{UPSTREAM}profile = "no"\n', "upstreams[0].profile"),
        (f"{UPSTREAM}flags = {{ no = true }}\n", "upstreams[0].flags"),
        (f"{UPSTREAM}flags = {{ strict_tools = 1 }}\n", "upstreams[0].flags"),
        (f"{UPSTREAM}timeout = -1\n", "upstreams[0].timeout"),
        ('[[upstreams]]\nname = "a"\nbase_url = "127.0.0.1:9"\n', "upstreams[0].base_url"),
        ('[[upstreams]]\nname = "a"\nbase_url = "http://u:pw@h"\n', "upstreams[0].base_url"),
        ('[[upstreams]]\nname = "a/b"\nbase_url = "http://h"\n', "upstreams[0].name"),
        (f'{UPSTREAM}[[models]]\nname = "m"\nupstream = "b"\n', "models[0].upstream"),
        (
            f'{UPSTREAM}[[models]]\nname = "m"\nupstream = "a"\nflags = {{ no = 1 }}\n',
            "models[0].flags",
        ),
        ("[tools.no_such_type]\n", "tools.no_such_type"),
        ("[tools.function]\nx = 1\n", "tools.function.x"),
        ("[tools]\nmax_rounds = 0\n", "tools.max_rounds"),
        ("[tools]\nmax_ronds = 3\n", "tools.max_ronds: unknown key"),
    ],
)
def test_check_config_names_the_fault(command: Command, text: str, place: str) -> None:
    Path("bascule.toml").write_text(text)
    status, out, err = command("check-config")
    assert status == 2
    assert out == ""
    assert place in err
    assert err.startswith("bascule: ")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    "text",
    [
        '[server]\napi_keys = "sk-top-secret"\n',
        '[security]\nkeys = ["env:SEAL"]\n',
        '[[upstreams]]\nname="a"\nbase_url="http://u:top-secret@h"\n',
    ],
)
def test_a_fault_does_not_show_a_secret(
    command: Command, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setenv("SEAL", "top-secret")
    Path("bascule.toml").write_text(text)
    status, out, err = command("check-config")
    assert (status, out) == (2, "")
    assert "top-secret" not in err


def test_models_of_a_server(tmp_path: Path) -> None:
    model = ModelServer(models=["small", "large"])
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(model):
        done = call(tmp_path, "models", "--upstream", model.origin)
        assert done.returncode == 0
        assert [line.split("\t")[0] for line in done.stdout.splitlines()] == ["small", "large"]
        (tmp_path / "bascule.toml").write_text(
            f'[[upstreams]]\nname = "here"\nbase_url = "{model.url}"\nmodels = ["sm*"]\n'
            '[[models]]\nname = "mine"\nupstream = "here"\nmodel = "small"\naliases = ["me"]\n'
        )
        done = call(tmp_path, "models")
    assert done.stdout.splitlines()[:2] == ["mine\there", "me\there"]
    assert [line.split("\t")[0] for line in done.stdout.splitlines()] == ["mine", "me", "small"]


@pytest.mark.parametrize("name", ["HTTP_PROXY", "http_proxy", "ALL_PROXY"])
def test_a_server_on_this_machine_is_not_asked_through_a_proxy(tmp_path: Path, name: str) -> None:
    env = {name: "http://127.0.0.1:9", "NO_PROXY": "example.org"}
    model = ModelServer(models=["small"])
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(model):
        done = call(tmp_path, "models", "--upstream", model.origin, env=env)
    assert (done.returncode, done.stdout.split("\t")[0]) == (0, "small")


def test_models_of_a_server_that_is_not_there(tmp_path: Path) -> None:
    done = call(tmp_path, "models", "--upstream", "http://127.0.0.1:9")
    assert (done.returncode, done.stdout) == (1, "")
    assert "127.0.0.1:9" in done.stderr
    assert "Traceback" not in done.stderr


def _chat(url: str) -> Any:
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": "Hi"}]}).encode()
    with urllib.request.urlopen(f"{url}/v1/chat/completions", body, timeout=10) as answer:
        return json.load(answer)["choices"][0]["message"]["content"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("script.json", '["From JSON."]'),
        ("script.py", 'def script(request):\n    return f"To {request.model}."\n'),
    ],
)
def test_mock_plays_a_script(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    with running(tmp_path, *bascule("mock", "--script", name)) as mock:
        assert _chat(mock.url) in ("From JSON.", "To m.")
        mock.stop(signal.SIGTERM)
    assert "Traceback" not in mock.stderr


def test_mock_without_a_script_is_the_demo_model(tmp_path: Path) -> None:
    with running(tmp_path, *bascule("mock")) as mock:
        assert "demo" in _chat(mock.url)
        assert mock.stop(signal.SIGINT) in (0, 130)
    assert "Traceback" not in mock.stderr


def test_a_faulty_script_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "script.json").write_text('[{"steps": 3}]')
    done = call(tmp_path, "mock", "--script", "script.json")
    assert done.returncode == 2
    assert "script.json" in done.stderr
    assert done.stderr.count("\n") == 1
