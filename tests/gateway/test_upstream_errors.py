"""A model server that refuses or cannot be reached: the client gets the true HTTP status."""

from typing import Any

import pytest

from bascule.testing import Answer as Scripted
from bascule.testing import (
    ModelServer,
    Reply,
    StreamError,
    Verbatim,
    empty,
    head_only,
    html,
    http_error,
    http_json,
    silence,
    weak,
)
from tests.gateway.leaks import commits_of, nothing_left
from tests.serving import Answer, serving

pytestmark = pytest.mark.anyio

BOTH = pytest.mark.parametrize("stream", [True, False])
OVERFLOW = "This model's maximum context length is 4096 tokens, you asked for 5000"


async def refused(
    script: Scripted | list[Scripted], stream: bool, *, tries: int | None = 1, timeout: float = 20
) -> Answer:
    """A turn that fails before its answer begins; nothing of it is stored or left."""
    kept: list[Any] = []
    async with (
        ModelServer(script) as model,
        serving(
            model.url,
            upstream_options={"timeout": timeout},
            adjust=lambda gateway: kept.append(commits_of(gateway)),
        ) as api,
    ):
        answer = await api.create(stream=stream)
        if tries is not None:
            assert len(model.chats) == tries
        await nothing_left(api)
    assert kept == [[]]
    assert answer.headers["content-type"] == "application/json"
    assert set(answer.error) == {"message", "type", "param", "code"}
    assert answer.error["message"]
    assert "Traceback" not in answer.error["message"]
    return answer


@BOTH
async def test_a_429_is_relayed_at_once_with_its_retry_after(stream: bool) -> None:
    kind, code = "rate_limit_error", "rate_limit_exceeded"
    error = http_error(429, "Slow down", kind=kind, code=code, retry_after=7)
    answer = await refused(error, stream)
    assert (answer.status, answer.headers["retry-after"]) == (429, "7")
    assert answer.error == {
        "message": "Slow down",
        "type": "rate_limit_error",
        "param": None,
        "code": "rate_limit_exceeded",
    }


@BOTH
async def test_a_retry_after_may_be_a_date(stream: bool) -> None:
    date = "Wed, 21 Oct 2026 07:28:00 GMT"
    answer = await refused(http_error(429, "Slow down", retry_after=date), stream)
    assert answer.headers["retry-after"] == date


@BOTH
async def test_a_503_that_asks_for_a_long_wait_is_relayed_at_once(stream: bool) -> None:
    answer = await refused(http_error(503, "Loading", retry_after=120), stream)
    assert (answer.status, answer.headers["retry-after"]) == (503, "120")


@BOTH
@pytest.mark.parametrize("status", [502, 503, 504])
async def test_a_gateway_error_is_retried_twice(status: int, stream: bool) -> None:
    answer = await refused([http_error(status, f"no {n}") for n in range(3)], stream, tries=3)
    assert (answer.status, answer.error["message"]) == (status, "no 2")


@BOTH
async def test_a_retry_that_succeeds_is_not_seen(stream: bool) -> None:
    async with ModelServer([http_error(503), "Hello"]) as model, serving(model.url) as api:
        answer = await api.create(stream=stream)
    assert answer.response["status"] == "completed"


@BOTH
@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 422, 500, 501])
async def test_other_errors_are_relayed_as_they_are(status: int, stream: bool) -> None:
    answer = await refused(http_error(status, "Because.", code="some_code"), stream)
    assert answer.status == status
    assert (answer.error["message"], answer.error["code"]) == ("Because.", "some_code")


@BOTH
@pytest.mark.parametrize("status", [400, 413, 500])
async def test_a_context_overflow_is_named(status: int, stream: bool) -> None:
    answer = await refused(http_error(status, OVERFLOW, code=status), stream)
    assert answer.status == 400
    assert answer.error["code"] == "context_length_exceeded"
    assert answer.error["message"] == OVERFLOW


@BOTH
@pytest.mark.parametrize(
    ("script", "status"),
    [
        (html(200), 502),
        (html(500), 500),
        (empty(200), 502),
        (empty(500), 500),
        (empty(204), 502),
        (http_json(301, {}, {"location": "http://x/"}), 502),
        (http_json(200, []), 502),
        (http_json(200, {}), 502),
        (http_json(200, {"choices": []}), 502),
        (http_json(200, {"choices": "x"}), 502),
        (http_json(200, {"error": {"message": "no", "code": 503}}), 503),
        (http_json(200, {"error": "no"}), 502),
        (http_json(400, {"detail": "no"}), 400),
        (http_json(400, {"detail": [{"msg": "no"}]}), 400),
        (http_json(400, "no"), 400),
        (http_json(400, {"error": {"message": 5, "type": [], "code": {}, "param": 1}}), 400),
        (http_json(599, {}), 599),
        (http_json(999, {}), 502),
        (weak.parallel_calls_fail(), 500),
        (weak.integer_code(), 400),
    ],
    ids=repr,
)
async def test_answers_that_are_none(script: Any, status: int, stream: bool) -> None:
    assert (await refused(script, stream)).status == status


@BOTH
@pytest.mark.parametrize(
    "data",
    [
        b"HTTP/1.1 abc\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"x: " + b"y" * 100_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{",
        b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\nhello",
    ],
    ids=lambda data: repr(data[:40]),
)
async def test_malformed_http(data: bytes, stream: bool) -> None:
    assert (await refused(Verbatim(data), stream)).status == 502


@BOTH
async def test_a_connection_that_is_closed_without_an_answer(stream: bool) -> None:
    assert (await refused(Verbatim(b""), stream, tries=3)).status == 502


@BOTH
async def test_a_server_that_does_not_answer_in_time(stream: bool) -> None:
    assert (await refused(silence(), stream, timeout=0.2)).status == 504


async def test_a_whole_answer_that_stalls() -> None:
    assert (await refused(head_only(), False, timeout=0.2)).status == 504


@BOTH
async def test_a_server_that_is_not_there(stream: bool) -> None:
    async with ModelServer("Hi") as model:
        url = model.url
    async with serving(url) as api:
        answer = await api.create(stream=stream)
        await nothing_left(api)
    assert answer.status == 502
    assert set(answer.error) == {"message", "type", "param", "code"}


async def test_an_unknown_model_is_a_404_of_the_server_or_of_the_gateway() -> None:
    async with (
        ModelServer("Hi", unknown_model="refused") as model,
        serving(model.url, upstream_options={"models": ["mock-*"]}) as api,
    ):
        for name, code in (("mock-none", None), ("other", "model_not_found")):
            answer = await api.create(model=name)
            assert answer.status == 404
            assert answer.error["code"] == code


@BOTH
async def test_an_upstreams_error_does_not_show_the_key_it_was_given(stream: bool) -> None:
    key = "sk-upstream-secret"
    options = {"api_key": key}
    replies = [
        http_error(401, f"Incorrect API key provided: {key}"),
        Reply("Hm", StreamError(f"bad key {key}")),
    ]
    async with (
        ModelServer(replies) as model,
        serving(model.url, upstream_options=options) as api,
    ):
        refused = await api.create(stream=stream)
        failed = await api.create(stream=True)
        assert model.chats[0].headers["authorization"] == f"Bearer {key}"
    assert refused.status == 401
    assert refused.error["message"] == "Incorrect API key provided: ***"
    assert failed.response["error"]["message"] == "bad key ***"
    assert key.encode() not in refused.body + failed.body
