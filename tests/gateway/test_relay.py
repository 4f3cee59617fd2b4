"""Where client and server speak the same protocol and nothing is the gateway's business, bytes are
relayed; where something is, they are not."""

from typing import Any

import msgspec
import pytest

from bascule.testing import (
    Cut,
    Data,
    Eof,
    Gate,
    HalfLine,
    ModelServer,
    Raw,
    Reply,
    Script,
    Stall,
    Verbatim,
    Wire,
    http_error,
    responded,
    responses_events,
)
from tests.serving import Answer, serving
from tests.stream_rules import check_stream

pytestmark = pytest.mark.anyio

Json = dict[str, Any]

RESPONSES = {"protocol": "responses", "profile": "openai", "api_key": "sk-upstream-secret"}
SAID = {
    "id": "msg_up",
    "type": "message",
    "status": "completed",
    "role": "assistant",
    "content": [{"type": "output_text", "text": "Hello there", "annotations": [], "logprobs": []}],
}
FUNCTION = {"type": "function", "name": "f", "parameters": {"type": "object"}}


def streamed(*steps: Any, events: int | None = None) -> Reply:
    """The first events of a stream, then other steps."""
    told = responses_events(SAID)[:events]
    data = [Data(msgspec.json.encode(event).decode(), event["type"]) for event in told]
    return Reply(*data, *steps, wire=Wire(answer="sse"))


async def ask(script: Script, *, options: Json | None = None, **fields: Any) -> Answer:
    """One relayed turn."""
    async with (
        ModelServer(script) as model,
        serving(model.url, upstream_options={**RESPONSES, **(options or {})}) as api,
    ):
        answer = await api.create(None, **{"store": False, "stream": True, **fields})
    assert b"sk-upstream-secret" not in answer.body
    return answer


def is_relayed(answer: Answer) -> bool:
    """The relay keeps the server's ids."""
    return b"msg_up" in answer.body


# --- what is relayed, and what is not


@pytest.mark.requirement("relay:nothing-of-ours")
@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"stream": False},
        {"tools": [FUNCTION, {"type": "web_search"}, {"type": "acme:new", "x": 1}]},
        {"tools": [{"type": "custom", "name": "run"}], "tool_choice": "required"},
        {"input": [{"type": "reasoning", "id": "rs_x", "summary": [], "encrypted_content": "B"}]},
        {"input": [{"type": "web_search_call", "id": "ws_x", "status": "completed"}]},
        {"input": [{"type": "acme_item", "x": 1}], "acme_field": True},
    ],
)
async def test_what_is_between_client_and_server_is_relayed(fields: Json) -> None:
    async with (
        ModelServer(responded(SAID)) as model,
        serving(model.url, upstream_options=RESPONSES) as api,
    ):
        answer = await api.create(None, **{"store": False, "stream": True, **fields})
    assert answer.status == 200
    assert is_relayed(answer)
    sent = model.chats[0].json
    assert {key: sent[key] for key in fields} == fields


@pytest.mark.requirement("relay:nothing-of-ours")
@pytest.mark.parametrize(
    "fields",
    [
        {"store": True},
        {"model": "mock/mock-model"},
        {"tools": [{**FUNCTION, "name": "a.b"}]},
        {"input": [{"role": "user", "content": "x", "id": "msg_" + "0" * 40}]},
    ],
)
async def test_what_is_the_gateways_business_is_not_relayed(fields: Json) -> None:
    async with (
        ModelServer(responded(SAID)) as model,
        serving(model.url, upstream_options=RESPONSES) as api,
    ):
        answer = await api.create(None, **{"store": False, "stream": True, **fields})
    assert answer.status == 200, answer.body
    assert not is_relayed(answer)
    assert model.chats[0].json["store"] is False


@pytest.mark.requirement("relay:nothing-of-ours")
@pytest.mark.parametrize(
    ("flag", "fields"),
    [
        ("developer_role", {"input": [{"role": "developer", "content": "x"}]}),
        ("verbosity", {"text": {"verbosity": "low"}}),
        ("strict_tools", {"tools": [{**FUNCTION, "strict": True}]}),
        ("parallel_tool_calls", {"parallel_tool_calls": False}),
    ],
)
async def test_a_flag_that_asks_for_a_change_keeps_off_the_relay(flag: str, fields: Json) -> None:
    options = {"flags": {flag: False}}
    assert not is_relayed(await ask(responded(SAID), options=options, **fields))
    assert is_relayed(await ask(responded(SAID), options=options))


async def test_reasoning_that_was_sealed_here_is_opened_before_it_goes_back() -> None:
    thought = {"id": "rs_up", "type": "reasoning", "summary": [], "encrypted_content": "BLOB"}
    async with (
        ModelServer(responded(thought, SAID), then="repeat") as model,
        serving(model.url, upstream_options=RESPONSES) as api,
    ):
        first = await api.create(store=True, include=["reasoning.encrypted_content"])
        items = first.response["output"]
        await api.create(store=False, stream=True, input=[*items, {"role": "user", "content": "x"}])
    assert model.chats[1].json["input"][0] == thought


# --- headers and errors


@pytest.mark.requirement("relay:headers")
async def test_headers_that_may_pass_do_and_others_do_not() -> None:
    answers = {"openai-model": "m", "x-ratelimit-remaining-tokens": "5", "set-cookie": "a=b"}
    reply = streamed(Eof())
    reply.headers = answers
    async with (
        ModelServer(reply) as model,
        serving(model.url, upstream_options=RESPONSES) as api,
    ):
        asked = {
            "openai-beta": "x=1",
            "user-agent": "agent/1",
            "accept": "text/event-stream",
            "cookie": "secret=1",
            "x-bascule-debug": "1",
            "x-request-id": "mine",
            "authorization": "Bearer client-key",
        }
        answer = await api.create(asked, store=False, stream=True)
    sent = model.chats[0].headers
    assert (sent["openai-beta"], sent["user-agent"]) == ("x=1", "agent/1")
    assert sent["accept"] == "text/event-stream"
    assert sent["authorization"] == "Bearer sk-upstream-secret"
    assert not {"cookie", "x-bascule-debug"} & sent.keys()
    assert answer.headers["openai-model"] == "m"
    assert answer.headers["x-ratelimit-remaining-tokens"] == "5"
    assert answer.headers["x-request-id"] == "mine"
    assert "set-cookie" not in answer.headers


@pytest.mark.requirement("relay:errors")
@pytest.mark.parametrize("stream", [True, False])
async def test_an_error_keeps_its_status_its_body_and_retry_after(stream: bool) -> None:
    error = http_error(429, "Slow down", code="rate_limit_exceeded", retry_after=7)
    answer = await ask(error, stream=stream)
    assert (answer.status, answer.headers["retry-after"]) == (429, "7")
    assert answer.error["message"] == "Slow down"


async def test_a_server_that_repeats_its_key_does_not_tell_it() -> None:
    answer = await ask(http_error(401, "Incorrect API key: sk-upstream-secret"))
    assert answer.status == 401
    assert "***" in answer.error["message"]


async def test_a_server_that_does_not_answer() -> None:
    answer = await ask(Verbatim(b""), stream=True)
    assert (answer.status, answer.error["type"]) == (502, "server_error")
    late = await ask(Reply(Stall(), wire=Wire(hold_head=True)), options={"timeout": 0.2})
    assert late.status == 504


async def test_a_whole_answer_that_is_cut_is_an_error() -> None:
    async with (
        ModelServer(Reply(Cut())) as model,
        serving(model.url, upstream_options=RESPONSES) as api,
    ):
        answer = await api.create(store=False)
    assert answer.status == 502


# --- the end of a stream


@pytest.mark.requirement("relay:truthful-end")
@pytest.mark.parametrize(
    "last",
    [
        [Eof()],
        [Cut()],
        [Cut(reset=True)],
        [HalfLine('{"type":"response.output_text.delta","del'), Eof()],
        [Raw(b"event: response.comp"), Cut()],
    ],
    ids=["eof", "cut", "reset", "half a line", "half an event line"],
)
async def test_a_stream_that_breaks_off_ends_as_failed(last: list[Any]) -> None:
    answer = await ask(streamed(*last, events=5))
    assert answer.types[-2:] == ["error", "failed"]
    assert [event["sequence_number"] for event in answer.events] == list(range(7))
    assert answer.response["id"] == "resp_upstream"
    assert answer.response["error"]["code"] == "server_error"
    assert answer.events[-2]["error"]["message"]


@pytest.mark.requirement("relay:truthful-end")
async def test_a_broken_stream_tells_of_the_items_that_were_finished() -> None:
    events = responses_events(SAID)
    assert events[-2]["type"] == "response.output_item.done"
    answer = await ask(streamed(Eof(), events=len(events) - 1))
    assert answer.response["output"] == [SAID]
    assert answer.response["status"] == "failed"
    check_stream(answer.frames)


@pytest.mark.requirement("relay:truthful-end")
async def test_an_error_event_is_not_said_twice() -> None:
    error = '{"type":"error","sequence_number":3,"error":{"type":"server_error","message":"Oh"}}'
    answer = await ask(streamed(Data(error, "error"), Eof(), events=3))
    assert answer.types[-2:] == ["error", "failed"]
    assert answer.types.count("error") == 1


@pytest.mark.parametrize("wire", [{"split": [7, 50]}, {"line_end": "\r\n"}, {"group": 3}])
async def test_a_stream_may_come_in_any_pieces(wire: Json) -> None:
    reply = streamed(Eof())
    reply.wire = Wire(answer="sse", **wire)
    answer = await ask(reply)
    assert b"response.completed" in answer.body
    assert b"response.failed" not in answer.body


async def test_text_that_looks_like_the_end_is_not_the_end() -> None:
    words = '"type":"response.completed" event: response.completed'
    part = {"type": "output_text", "text": words, "annotations": []}
    told = responses_events({**SAID, "content": [part]})[:-2]
    data = [Data(msgspec.json.encode(event).decode(), event["type"]) for event in told]
    answer = await ask(Reply(*data, Eof(), wire=Wire(answer="sse")))
    assert answer.types[-1] == "failed"


async def test_events_go_out_as_they_come_and_a_client_that_leaves_frees_the_server() -> None:
    async with (
        ModelServer(streamed(Gate("more"), Stall(), events=3)) as model,
        serving(model.url, upstream_options=RESPONSES) as api,
    ):
        async with api.open(store=False) as pieces:
            first = await anext(pieces)
            assert b"response.created" in first
            await model.reached("more")
        await model.wait_disconnected()
