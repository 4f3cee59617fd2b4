"""`bascule serve` as a process: what it says first, whom it lets in, how it ends."""

import json
import signal
import socket
import urllib.error
import urllib.request
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from anyio.from_thread import start_blocking_portal

from bascule.testing.demo import demo_server
from tests.process import LIMIT, bascule, call, gateway, running


@pytest.fixture(scope="module")
def demo() -> Generator[str]:
    """The base URL of a demo model."""
    server = demo_server()
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(server):
        yield server.url


def _post(url: str, **fields: Any) -> Any:
    body = json.dumps({"model": "bascule-demo", "input": "Hello", **fields}).encode()
    request = urllib.request.Request(f"{url}/v1/responses", body)
    with urllib.request.urlopen(request, timeout=LIMIT) as answer:
        return json.load(answer)


def test_the_first_line_says_where_it_listens(tmp_path: Path, demo: str) -> None:
    with gateway(tmp_path, "--upstream", demo) as served:
        assert served.first.startswith("listening on http://127.0.0.1:")
        assert _post(served.url)["status"] == "completed"
        assert served.stop() == 0
    assert len(served.lines) == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_cleanly(tmp_path: Path, demo: str, number: signal.Signals) -> None:
    with gateway(tmp_path, "--upstream", demo) as served:
        assert served.stop(number) == 0
    assert "Traceback" not in served.stderr


def test_an_address_that_others_reach_needs_keys(tmp_path: Path, demo: str) -> None:
    refused = call(tmp_path, "serve", "--host", "0.0.0.0", "--port", "0", "--upstream", demo)
    assert refused.returncode == 2
    assert refused.stdout == ""
    assert "server.host" in refused.stderr
    assert "--no-auth" in refused.stderr
    with gateway(tmp_path, "--upstream", demo, "--host", "0.0.0.0", "--no-auth") as served:
        assert served.first.startswith("listening on http://0.0.0.0:")
    keys = {"BASCULE__SERVER__API_KEYS__0": "sk-1"}
    with gateway(tmp_path, "--upstream", demo, "--host", "0.0.0.0", env=keys) as served:
        assert served.first.startswith("listening on http://0.0.0.0:")


def test_a_port_that_is_taken(tmp_path: Path, demo: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        ended = call(tmp_path, "serve", "--port", port, "--upstream", demo, "--state", "sqlite://")
    assert ended.returncode == 1
    assert ended.stdout == ""
    assert port in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--state", "mysql://x"], "state.url"),
        (["--profile", "nonsense"], "nonsense"),
        (["--config", "missing.toml"], "missing.toml"),
        (["--upstream", "ftp://x"], "http"),
        (["--port", "70000"], "port"),
    ],
)
def test_what_is_wrong_is_one_line(
    tmp_path: Path, demo: str, arguments: list[str], says: str
) -> None:
    more = [] if "--upstream" in arguments else ["--upstream", demo]
    port = [] if "--port" in arguments else ["--port", "0"]
    ended = call(tmp_path, "serve", *port, *more, *arguments)
    assert ended.returncode == 2, ended.stderr
    assert says in ended.stderr
    assert "Traceback" not in ended.stderr
    assert ended.stdout == ""


def test_state_survives_a_restart_and_its_file_is_private(tmp_path: Path, demo: str) -> None:
    with gateway(tmp_path, "--upstream", demo) as served:
        made = _post(served.url)
        assert served.stop() == 0
    assert (tmp_path / "state.db").stat().st_mode & 0o077 == 0
    assert (tmp_path / "sealing.key").stat().st_mode & 0o077 == 0
    with gateway(tmp_path, "--upstream", demo) as served:
        with urllib.request.urlopen(f"{served.url}/v1/responses/{made['id']}", timeout=5) as answer:
            assert json.load(answer) == made
        again = _post(served.url, previous_response_id=made["id"], input="And?")
        assert again["previous_response_id"] == made["id"]


def test_the_default_state_is_in_the_data_folder(tmp_path: Path, demo: str) -> None:
    with running(tmp_path, *bascule("serve", "--port", "0", "--upstream", demo)) as served:
        _post(served.url)
    assert (tmp_path / ".local/share/bascule/state.db").is_file()


def test_a_configured_upstream_wins_over_what_is_on_this_machine(tmp_path: Path, demo: str) -> None:
    (tmp_path / "bascule.toml").write_text(
        f'[server]\nport = 0\n[[upstreams]]\nname = "mine"\nbase_url = "{demo}"\n'
    )
    with running(tmp_path, *bascule("serve", "--state", "sqlite://")) as served:
        assert _post(served.url, model="mine/bascule-demo")["model"] == "mine/bascule-demo"
        with urllib.request.urlopen(f"{served.url}/ready", timeout=5) as answer:
            assert answer.status == 200


SECRETS = {"KEY": "sk-top-secret-value", "UP": "up-top-secret-value"}


def test_secrets_are_never_shown(tmp_path: Path, demo: str) -> None:
    (tmp_path / "bascule.toml").write_text(
        '[server]\nport = 0\napi_keys = ["env:KEY"]\n'
        f'[[upstreams]]\nname = "mine"\nbase_url = "{demo}"\napi_key = "env:UP"\n'
    )
    with running(tmp_path, *bascule("serve", "--state", "sqlite://"), env=SECRETS) as served:
        request = urllib.request.Request(f"{served.url}/v1/models")
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(request, timeout=5)
        shown = refused.value.read().decode()
        request.add_header("authorization", f"Bearer {SECRETS['KEY']}")
        with urllib.request.urlopen(request, timeout=5) as answer:
            shown += answer.read().decode()
        served.stop()
    shown += "".join(served.lines) + served.stderr
    assert "top-secret" not in shown
