"""How a served gateway ends: what is under way goes on, what is new is refused, nothing is cut in silence."""

import http.client
import json
import signal
import urllib.error
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal

from bascule.testing import Gate, ModelServer, Reply, Text
from tests.process import LIMIT, Running, gateway


@contextmanager
def _draining(
    home: Path, model: ModelServer, seconds: int = 20
) -> Generator[tuple[Running, BlockingPortal]]:
    env = {"BASCULE__SERVER__DRAIN_SECONDS": str(seconds)}
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(model),
        gateway(home, "--upstream", model.url, env=env) as served,
    ):
        yield served, portal


def _ask(url: str, **fields: Any) -> http.client.HTTPResponse:
    body = json.dumps({"model": "m", "input": "x", **fields}).encode()
    answer: http.client.HTTPResponse = urllib.request.urlopen(
        urllib.request.Request(f"{url}/v1/responses", body), timeout=LIMIT
    )
    return answer


def _refusal(url: str, path: str, data: bytes | None = None) -> urllib.error.HTTPError:
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(urllib.request.Request(url + path, data), timeout=LIMIT)
    return refused.value


def _until_draining(served: Running) -> dict[str, Any]:
    """Ask until the signal has arrived; the number of tries is the bound."""
    for _ in range(2000):
        try:
            with urllib.request.urlopen(f"{served.url}/ready", timeout=LIMIT):
                continue
        except urllib.error.HTTPError as refused:
            found: dict[str, Any] = json.load(refused)
            return {"code": refused.code, **found}
    raise AssertionError("the gateway does not say that it drains")


@pytest.mark.requirement("operation:drain")
def test_old_turns_go_on_and_new_ones_are_refused(tmp_path: Path) -> None:
    model = ModelServer(Reply(Text("One two", chunks=2), Gate("go")))
    with _draining(tmp_path, model) as (served, portal):
        with _ask(served.url, stream=True) as answer:
            portal.call(model.reached, "go")
            served.process.send_signal(signal.SIGTERM)
            ready = _until_draining(served)
            assert (ready["code"], ready["status"]) == (503, "draining")
            with urllib.request.urlopen(f"{served.url}/health", timeout=LIMIT) as health:
                assert health.status == 200
            refused = _refusal(served.url, "/v1/responses", b'{"model":"m","input":"x"}')
            assert refused.code == 503
            assert refused.headers["retry-after"] == "1"
            assert refused.headers["connection"] == "close"
            assert "shutting down" in json.load(refused)["error"]["message"]
            portal.call(model.open, "go")
            assert b"event: response.completed" in answer.read()
        assert served.wait() == 0
        assert len(model.chats) == 1


@pytest.mark.requirement("operation:drain:late")
def test_a_stream_that_does_not_end_in_time_fails_and_says_so(tmp_path: Path) -> None:
    model = ModelServer(Reply(Text("One"), Gate("never")))
    with _draining(tmp_path, model, 1) as (served, portal):
        with _ask(served.url, stream=True) as answer:
            portal.call(model.reached, "never")
            served.process.send_signal(signal.SIGTERM)
            assert served.wait() == 0
            body = answer.read().decode()
        portal.call(model.wait_disconnected)
    events = [json.loads(line[6:]) for line in body.splitlines() if line.startswith("data: ")]
    assert [event["type"] for event in events[-2:]] == ["error", "response.failed"]
    response = events[-1]["response"]
    assert response["status"] == "failed"
    assert "shutting down" in response["error"]["message"]
    assert response["output"][0]["content"][0]["text"] == "One"
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(model),
        gateway(tmp_path, "--upstream", model.url) as again,
        urllib.request.urlopen(f"{again.url}/v1/responses/{response['id']}") as stored,
    ):
        assert json.load(stored)["status"] == "failed"


@pytest.mark.requirement("operation:drain:late")
def test_a_whole_answer_that_does_not_come_in_time_is_a_503(tmp_path: Path) -> None:
    model = ModelServer(Reply(Gate("never"), Text("One")))
    with _draining(tmp_path, model, 1) as (served, portal):
        connection = http.client.HTTPConnection(served.url.removeprefix("http://"), timeout=LIMIT)
        connection.request("POST", "/v1/responses", b'{"model":"m","input":"x"}')
        portal.call(model.reached, "never")
        served.process.send_signal(signal.SIGTERM)
        answer = connection.getresponse()
        assert answer.status == 503
        assert "shutting down" in json.load(answer)["error"]["message"]
        connection.close()
        assert served.wait() == 0


def test_a_second_signal_ends_the_patience(tmp_path: Path) -> None:
    model = ModelServer(Reply(Text("One"), Gate("never")))
    with (
        _draining(tmp_path, model, 600) as (served, portal),
        _ask(served.url, stream=True) as answer,
    ):
        portal.call(model.reached, "never")
        served.process.send_signal(signal.SIGINT)
        _until_draining(served)
        served.process.send_signal(signal.SIGINT)
        assert served.wait() == 0
        assert b"event: response.failed" in answer.read()
    assert "Traceback" not in served.stderr
