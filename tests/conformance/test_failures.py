"""Failures: before the first byte an HTTP status, later an error event and response.failed."""

from typing import Any

import pytest

from bascule.testing import (
    BadJson,
    Call,
    Cut,
    Eof,
    Finish,
    HalfLine,
    HttpAnswer,
    Reasoning,
    Reply,
    StreamError,
    Text,
    Wire,
    empty,
    html,
    http_error,
)
from tests.conformance.asking import RUN, WEATHER, gateway
from tests.conformance.stream import check_stream
from tests.serving import Answer, serving

pytestmark = pytest.mark.anyio

Json = dict[str, Any]

BROKEN = {
    "error in the stream": [StreamError("It broke", code=None)],
    "end without a finish": [Eof()],
    "connection closed": [Cut()],
    "connection reset": [Cut(reset=True)],
    "cut within a chunk": [Cut(mid_chunk=True)],
    "half a line": [HalfLine(), Eof()],
    "half a line, closed": [HalfLine(), Cut()],
    "no json": [BadJson()],
    "finish_reason error": [Finish("error")],
}


async def failed(*steps: Any, **fields: Any) -> Answer:
    async with gateway(Reply(*steps, omit=["done", "usage"])) as (api, _):
        answer = await api.create(stream=True, **fields)
    check_stream(answer, fails=True)
    return answer


@pytest.mark.requirement(
    "stream:failure:order", "stream:failure:nested-error", "stream:failure:never-completed"
)
@pytest.mark.parametrize("ends", BROKEN.values(), ids=BROKEN)
@pytest.mark.parametrize(
    "step",
    [
        Text("Once", chunks=2),
        Reasoning("Hm", chunks=2),
        Call("get_weather", '{"ci', split=2),
        Call("run", '{"input":"pri', split=3),
    ],
    ids=["text", "reasoning", "function", "custom"],
)
async def test_a_failure_within_a_stream(step: Any, ends: list[Any]) -> None:
    answer = await failed(step, *ends, tools=[WEATHER, RUN])
    assert answer.types[-2:] == ["error", "failed"]
    assert "completed" not in answer.types
    error = answer.events[-2]
    assert error.keys() == {"type", "sequence_number", "error"}
    assert error["error"].keys() == {"type", "code", "message", "param"}
    response = answer.response
    assert response["status"] == "failed"
    assert response["error"].keys() == {"code", "message"}
    assert response["error"]["message"] == error["error"]["message"]
    assert isinstance(response["error"]["code"], str)


@pytest.mark.requirement("response:failed:error")
async def test_a_failed_response_has_code_and_message() -> None:
    answer = await failed("Once", StreamError("Too many", code="rate_limit_exceeded"))
    assert answer.response["error"] == {"code": "rate_limit_exceeded", "message": "Too many"}


@pytest.mark.requirement("stream:failure:never-completed")
@pytest.mark.parametrize("ends", BROKEN.values(), ids=BROKEN)
async def test_a_whole_answer_that_broke_is_an_http_error(ends: list[Any]) -> None:
    def script(request: Any) -> Any:
        reply = Reply("Once", *ends, omit=["done", "usage"])
        return reply if request.stream else _as_stream(reply)

    async with gateway(script) as (api, _):
        answer = await api.create()
    assert answer.status >= 500
    assert answer.error.keys() == {"message", "type", "param", "code"}


def _as_stream(reply: Reply) -> Reply:
    """The same reply as a stream that nobody asked for, so that every end means something."""
    return Reply(*reply.steps, omit=reply.omit, wire=Wire(answer="sse"))


@pytest.mark.requirement("error:body:shape")
async def test_an_error_has_four_members() -> None:
    async with gateway() as (api, _):
        answer = await api.create(temperature=3)
    assert answer.json.keys() == {"error"}
    assert answer.error.keys() == {"message", "type", "param", "code"}
    assert answer.headers["content-type"] == "application/json"


@pytest.mark.requirement("error:type:by-status", "error:stream:plain-status")
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("status", "type_"),
    [
        (400, "invalid_request_error"),
        (401, "authentication_error"),
        (403, "permission_error"),
        (404, "not_found_error"),
        (429, "rate_limit_error"),
        (500, "server_error"),
    ],
)
async def test_the_type_follows_the_status(status: int, type_: str, stream: bool) -> None:
    refusal = HttpAnswer(status, b'{"error":{"message":"No.","code":%d}}' % status)
    async with gateway(refusal) as (api, _):
        answer = await api.create(stream=stream)
    assert answer.status == status
    assert answer.headers["content-type"] == "application/json"
    assert (answer.error["type"], answer.error["message"]) == (type_, "No.")


@pytest.mark.requirement("error:retry-after", "error:stream:plain-status")
@pytest.mark.parametrize("stream", [False, True])
async def test_a_429_keeps_its_retry_after(stream: bool) -> None:
    refusal = http_error(429, "Slow down", kind="rate_limit_error", retry_after=7)
    async with gateway(refusal) as (api, _):
        answer = await api.create(stream=stream)
    assert answer.status == 429
    assert answer.headers["retry-after"] == "7"
    assert answer.error["code"] == "rate_limit_exceeded"


@pytest.mark.requirement("error:context-length")
@pytest.mark.parametrize("stream", [False, True])
async def test_input_that_is_too_long_fails(stream: bool) -> None:
    message = "This model's maximum context length is 4096 tokens."
    async with gateway(http_error(400, message)) as (api, _):
        answer = await api.create(stream=stream, truncation="disabled")
    assert answer.status == 400
    assert (answer.error["code"], answer.error["param"]) == ("context_length_exceeded", "input")


@pytest.mark.requirement("error:upstream:no-api")
@pytest.mark.parametrize("answer_of_upstream", [html(), html(403), empty(200), empty(500)])
async def test_an_upstream_that_does_not_speak_the_protocol(answer_of_upstream: HttpAnswer) -> None:
    async with gateway(answer_of_upstream) as (api, _):
        whole = await api.create()
        streamed = await api.create(stream=True)
    expected = answer_of_upstream.status if answer_of_upstream.status != 200 else 502
    for answer in (whole, streamed):
        assert answer.status == expected
        assert answer.error["message"]
        assert b"<html" not in answer.body


@pytest.mark.requirement("error:upstream:no-api")
async def test_an_upstream_that_is_not_there() -> None:
    async with serving("http://127.0.0.1:9/v1") as api:
        answer = await api.create(stream=True)
    assert answer.status == 502
    assert answer.error["type"] == "server_error"
