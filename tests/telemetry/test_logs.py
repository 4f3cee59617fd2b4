"""What a served gateway writes to stderr: a line a request, its id in each, never a secret or content."""

import io
import json
import logging
import os
import sqlite3
import urllib.error
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import structlog
from anyio.from_thread import start_blocking_portal

from bascule.state.store import StoreError
from bascule.telemetry.logs import bind_request, configure_logging, lines
from bascule.testing import Call, Cut, ModelServer, Reply, StreamError, Text, http_error
from bascule.testing.script import Script
from tests.process import LIMIT, Running, bascule, running

SECRETS = {
    "key": "sk-client-secret-1",
    "upstream": "sk-upstream-secret-2",
    "prompt": "the-prompt-secret-3",
    "instructions": "the-instructions-secret-4",
    "arguments": "the-arguments-secret-5",
    "metadata": "the-metadata-secret-6",
    "answer": "the-answer-secret-7",
    "query": "the-query-secret-8",
    "tool": "the-description-secret-9",
}
TOOL = {
    "type": "function",
    "name": "look",
    "description": SECRETS["tool"],
    "parameters": {"type": "object", "properties": {}},
}


@contextmanager
def _served(home: Path, script: Script, form: str = "json", **env: str) -> Generator[Running]:
    model = ModelServer(script)
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(model):
        (home / "bascule.toml").write_text(
            f'[server]\nport = 0\napi_keys = ["env:KEY"]\n[telemetry]\nlog = "{form}"\n'
            f'[state]\nurl = "sqlite:///{home / "state.db"}"\n'
            f'[[upstreams]]\nname = "mine"\nbase_url = "{model.url}"\napi_key = "env:UP"\n'
        )
        keys = {"KEY": SECRETS["key"], "UP": SECRETS["upstream"], **env}
        with running(home, *bascule("serve"), env=keys) as served:
            yield served


def _send(served: Running, path: str, body: bytes | None, request_id: str, **headers: str) -> int:
    request = urllib.request.Request(served.url + path, body)
    request.add_header("authorization", f"Bearer {SECRETS['key']}")
    request.add_header("x-request-id", request_id)
    for name, value in headers.items():
        request.add_header(name, value)
    try:
        with urllib.request.urlopen(request, timeout=LIMIT) as answer:
            answer.read()
            return int(answer.status)
    except urllib.error.HTTPError as refused:
        refused.read()
        return refused.code


def _create(served: Running, request_id: str, **fields: Any) -> int:
    body = {
        "model": "m",
        "input": SECRETS["prompt"],
        "instructions": SECRETS["instructions"],
        "metadata": {"note": SECRETS["metadata"]},
        "tools": [TOOL],
        **fields,
    }
    return _send(served, "/v1/responses", json.dumps(body).encode(), request_id)


def _lines(served: Running) -> list[dict[str, Any]]:
    return [json.loads(line) for line in served.stderr.splitlines()]


def _assert_clean(served: Running) -> None:
    text = served.stderr + "".join(served.lines)
    for name, secret in SECRETS.items():
        assert secret not in text, name


GOOD: list[Reply] = [
    Reply(Text(SECRETS["answer"])),
    Reply(Call("look", {"x": SECRETS["arguments"]})),
]


@pytest.mark.requirement("operation:log:line", "operation:log:clean")
def test_a_line_for_each_request(tmp_path: Path) -> None:
    with _served(tmp_path, GOOD) as served:
        assert _create(served, "req-1", stream=True) == 200
        assert _create(served, "req-2") == 200
        assert _send(served, f"/v1/responses/resp_x?key={SECRETS['query']}", None, "req-3") == 404
        assert _send(served, "/health", None, "req-4") == 200
        served.stop()
    lines = {line["request_id"]: line for line in _lines(served) if "request_id" in line}
    assert list(lines) == ["req-1", "req-2", "req-3"]
    turn = lines["req-1"]
    assert turn["event"] == "turn"
    assert (turn["method"], turn["path"], turn["status"]) == ("POST", "/v1/responses", 200)
    assert (turn["upstream"], turn["model"], turn["turn"]) == ("mine", "m", "completed")
    assert turn["response_id"].startswith("resp_")
    assert turn["rounds"] == 1
    assert turn["seconds"] >= 0
    assert turn["input_tokens"] > 0
    assert lines["req-2"]["turn"] == "completed"
    other = lines["req-3"]
    assert (other["event"], other["method"], other["status"]) == ("request", "GET", 404)
    assert other["path"] == "/v1/responses/resp_x"
    assert all(line["level"] and line["timestamp"] for line in lines.values())
    _assert_clean(served)


FAULTS: list[Any] = [
    http_error(401, f"Incorrect API key provided: {SECRETS['upstream']}"),
    http_error(500, SECRETS["answer"]),
    Reply(Text(SECRETS["answer"]), StreamError(SECRETS["prompt"])),
    Reply(Text(SECRETS["answer"]), Cut()),
    Reply(Call("look", SECRETS["arguments"] + "{"), Cut(mid_chunk=True)),
]


@pytest.mark.requirement("operation:log:clean")
@pytest.mark.parametrize("form", ["json", "text"])
def test_nothing_is_told_on_failures(tmp_path: Path, form: str) -> None:
    with _served(tmp_path, FAULTS, form) as served:
        for number in range(len(FAULTS)):
            _create(served, f"req-{number}", stream=True)
        wrong = json.dumps({"model": "m", "input": {"no": SECRETS["prompt"]}}).encode()
        assert _send(served, "/v1/responses", wrong, "req-bad") == 400
        assert _send(served, "/v1/responses", SECRETS["prompt"].encode(), "req-worse") == 400
        bad_key = f"Bearer {SECRETS['query']}"
        assert _send(served, "/v1/responses", wrong, "req-key", authorization=bad_key) == 401
        served.stop()
    _assert_clean(served)
    for number in range(len(FAULTS)):
        assert f"req-{number}" in served.stderr
    if form == "json":
        turns = [line for line in _lines(served) if line["event"] == "turn"]
        assert [turn["turn"] for turn in turns] == [
            "refused",
            "refused",
            "failed",
            "failed",
            "failed",
        ]
        assert all(turn["error"] for turn in turns)


@pytest.mark.requirement("operation:log:clean")
def test_a_store_that_breaks_tells_why_but_not_what(tmp_path: Path) -> None:
    with _served(tmp_path, Reply(Text(SECRETS["answer"]))) as served:
        connection = sqlite3.connect(tmp_path / "state.db")
        connection.execute("DROP TABLE responses")
        connection.commit()
        connection.close()
        assert _create(served, "req-1") == 500
        served.stop()
    _assert_clean(served)
    stored = next(line for line in _lines(served) if line["event"].startswith("a turn could not"))
    assert stored["request_id"] == "req-1"
    assert "no such table" in stored["error"]
    assert "exception" not in stored


def _captured(form: Any = "json") -> io.StringIO:
    out = io.StringIO()
    configure_logging(form, stream=out)
    return out


@pytest.fixture(autouse=True)
def _as_before() -> Generator[None]:
    before = structlog.get_config()
    handlers, level = logging.root.handlers, logging.root.level
    yield
    structlog.configure(**before)
    logging.root.handlers, logging.root.level = handlers, level


def test_lines_of_libraries_have_the_same_form() -> None:
    out = _captured()
    bind_request("req-7")
    logging.getLogger("uvicorn.error").warning("Invalid HTTP request received.")
    logging.getLogger("anything").info("not of interest")
    (line,) = [json.loads(line) for line in out.getvalue().splitlines()]
    assert line["event"] == "Invalid HTTP request received."
    assert (line["level"], line["request_id"]) == ("warning", "req-7")
    assert "timestamp" in line


def test_the_next_request_of_a_task_forgets_the_last() -> None:
    out = _captured()
    bind_request("one")
    bind_request("two")
    structlog.get_logger().info("here")
    line = json.loads(out.getvalue())
    assert line["request_id"] == "two"


@pytest.mark.requirement("operation:log:clean")
@pytest.mark.parametrize("form", ["json", "text"])
def test_messages_of_exceptions_stay_out(form: Any) -> None:
    out = _captured(form)
    log = structlog.get_logger()
    try:
        try:
            raise KeyError(SECRETS["prompt"])
        except KeyError as inner:
            raise ValueError(SECRETS["arguments"]) from inner
    except ValueError as error:
        log.exception("failed", exc_info=error)
        logging.getLogger("uvicorn.error").exception("Exception in ASGI", exc_info=error)
        group = ExceptionGroup(SECRETS["answer"], [error])
        log.exception("several", exc_info=group)
    told = out.getvalue()
    assert told.count("ValueError") == 3
    assert told.count("KeyError") == 2
    assert told.count("in test_messages_of_exceptions_stay_out") == 4
    for secret in SECRETS.values():
        assert secret not in told


def test_harmless_messages_are_shown() -> None:
    out = _captured()
    log = structlog.get_logger()
    log.error("a", exc_info=StoreError("the database is locked"))
    log.error("b", exc_info=FileNotFoundError(2, "No such file", "/x"))
    log.error("c", exc_info=sqlite3.OperationalError("disk is full"))
    lines = [json.loads(line)["exception"] for line in out.getvalue().splitlines()]
    assert lines == [
        "StoreError: the database is locked",
        "FileNotFoundError: No such file",
        "OperationalError: disk is full",
    ]


def test_what_asyncio_shows_of_a_task_is_left_out() -> None:
    out = _captured()
    text = f"Task exception was never retrieved\nfuture: <Task exception={SECRETS['prompt']!r}>"
    logging.getLogger("asyncio").error(text)
    assert json.loads(out.getvalue())["event"] == "Task exception was never retrieved"
    assert os.linesep not in json.loads(out.getvalue())["event"]


@pytest.mark.parametrize(("level", "shown"), [("debug", 4), ("warning", 2), ("error", 1)])
def test_the_level(level: Any, shown: int) -> None:
    out = io.StringIO()
    configure_logging("json", level, out)
    log = structlog.get_logger()
    for name in ("debug", "info", "warning", "error"):
        getattr(log, name)("x")
    assert len(out.getvalue().splitlines()) == shown


def test_the_fast_way_quotes_what_could_be_taken_for_more() -> None:
    out = _captured("text")
    bind_request("req-9")
    for model in ("plain", "my model=x", "two\nlines", "it's", "back\\slash", "ümlaut"):
        lines.info("turn", {"model": model, "status": 200, "error": None})
    told = [line.split(" ", 1)[1] for line in out.getvalue().splitlines()]
    rest = " status=200 error=None request_id=req-9"
    assert told == [
        f"[info     ] turn model={shown}{rest}"
        for shown in (
            "plain",
            "'my model=x'",
            "'two\\nlines'",
            '"it\'s"',
            "'back\\\\slash'",
            "'ümlaut'",
        )
    ]
