"""`bascule record`: what passes, what is written, and that `bascule mock` plays it."""

import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal

from bascule.testing import Call, Cut, Gate, ModelServer, Reply, Text, Usage, http_error
from bascule.testing.script import Script
from tests.process import LIMIT, Running, bascule, call, running

KEY = "sk-very-secret-key-1"


@contextmanager
def _recording(
    home: Path, script: Script
) -> Generator[tuple[Running, ModelServer, BlockingPortal]]:
    model = ModelServer(script)
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(model):
        out = str(home / "out.json")
        command = bascule("record", "--upstream", model.origin, "--out", out)
        with running(home, *command) as served:
            yield served, model, portal


def _post(url: str, **fields: Any) -> tuple[int, bytes, str]:
    body = {"model": "m", "messages": [{"role": "user", "content": f"My key is {KEY}"}], **fields}
    request = urllib.request.Request(f"{url}/v1/chat/completions", json.dumps(body).encode())
    request.add_header("content-type", "application/json")
    request.add_header("authorization", f"Bearer {KEY}")
    try:
        with urllib.request.urlopen(request, timeout=LIMIT) as answer:
            return answer.status, answer.read(), answer.headers["content-type"]
    except urllib.error.HTTPError as refused:
        return refused.code, refused.read(), refused.headers["content-type"]


SCRIPT: Any = [
    Reply(Text("Hello there", chunks="words"), Usage(prompt=5, completion=2)),
    Reply(Call("look", {"city": "Paris"})),
    http_error(429, f"Slow down, {KEY}", code=429),
]
ASKED: list[dict[str, Any]] = [{"stream": True}, {}, {"stream": True}]


@pytest.mark.requirement("record:replay")
def test_what_was_recorded_is_played_back(tmp_path: Path) -> None:
    with _recording(tmp_path, SCRIPT) as (served, model, _):
        live = [_post(served.url, **fields) for fields in ASKED]
        sent = [request.headers["authorization"] for request in model.chats]
        with urllib.request.urlopen(f"{served.url}/v1/models", timeout=LIMIT) as answer:
            assert json.load(answer)["object"] == "list"
        assert served.stop() == 0
    assert sent == [f"Bearer {KEY}"] * 3  # the key goes upstream, and only there
    assert KEY not in (tmp_path / "out.json").read_text()
    assert KEY not in served.stderr
    assert "not recorded: GET /models" in served.stderr
    script = str(tmp_path / "out.json")
    with running(tmp_path, *bascule("mock", "--script", script)) as mock:
        again = [_post(mock.url, **fields) for fields in ASKED]
    for (status, body, kind), (status_2, body_2, kind_2) in zip(live, again, strict=True):
        assert (status, kind.partition(";")[0]) == (status_2, kind_2.partition(";")[0])
        masked = body.replace(KEY.encode(), b"***")
        if "event-stream" in kind:
            assert masked == body_2
        else:
            assert json.loads(masked) == json.loads(body_2)


@pytest.mark.requirement("record:transparent")
def test_a_stream_passes_at_once(tmp_path: Path) -> None:
    script = [Reply(Text("One"), Gate("go"), Text("Two"))]
    with _recording(tmp_path, script) as (served, model, portal):
        connection = http.client.HTTPConnection(served.url.removeprefix("http://"), timeout=LIMIT)
        body = json.dumps({"model": "m", "messages": [], "stream": True})
        connection.request("POST", "/v1/chat/completions?x=1", body)
        answer = connection.getresponse()
        seen = b""
        while b"One" not in seen:
            seen += answer.read1()
        portal.call(model.reached, "go")
        assert b"Two" not in seen
        portal.call(model.open, "go")
        assert b"Two" in answer.read()
        connection.close()
        assert served.stop() == 0


@pytest.mark.requirement("record:transparent")
def test_a_stream_that_is_cut_is_cut_here_and_in_the_replay(tmp_path: Path) -> None:
    def ask(url: str) -> bytes:
        with pytest.raises(http.client.IncompleteRead) as cut:
            _post(url, stream=True)
        return cut.value.partial

    with _recording(tmp_path, Reply(Text("Half an ans"), Cut())) as (served, _, _):
        live = ask(served.url)
        assert served.stop() == 0
    script = str(tmp_path / "out.json")
    with running(tmp_path, *bascule("mock", "--script", script)) as mock:
        assert ask(mock.url) == live
    assert b"Half an ans" in live


def test_a_server_that_is_not_there(tmp_path: Path) -> None:
    out = tmp_path / "o.json"
    command = bascule("record", "--upstream", "http://127.0.0.1:9", "--out", str(out))
    with running(tmp_path, *command) as served:
        status, body, _ = _post(served.url)
        assert served.stop() == 0
    assert status == 502
    assert "failed" in json.loads(body)["error"]["message"]
    assert json.loads(out.read_text()) == {"replies": []}


@pytest.mark.parametrize(
    ("arguments", "status", "says"),
    [
        (["--upstream", "ftp://x", "--out", "new.json"], 2, "--upstream"),
        (["--upstream", "http://127.0.0.1:9", "--out", "there.json"], 1, "there already"),
        (["--upstream", "http://127.0.0.1:9", "--out", "no/folder.json"], 1, "folder"),
    ],
)
def test_what_is_wrong_is_one_line(
    tmp_path: Path, arguments: list[str], status: int, says: str
) -> None:
    (tmp_path / "there.json").write_text("mine")
    ended = call(tmp_path, "record", *arguments)
    assert ended.returncode == status
    assert says in ended.stderr
    assert "Traceback" not in ended.stderr
    assert (tmp_path / "there.json").read_text() == "mine"
