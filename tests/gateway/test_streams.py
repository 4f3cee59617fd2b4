"""Whatever the model server sends: a stream that keeps the rules, and a status that is true."""

from typing import Any

import pytest

from bascule.testing import (
    DIALECTS,
    BadJson,
    Call,
    Comment,
    Cut,
    Data,
    Delta,
    Eof,
    Finish,
    Flood,
    HalfLine,
    Interleave,
    ModelServer,
    Raw,
    Reasoning,
    Refusal,
    Reply,
    Stall,
    StreamError,
    Text,
    Together,
    Usage,
    Wire,
    http_json,
    weak,
)
from bascule.testing import Answer as Scripted
from tests.serving import Answer, serving
from tests.stream_rules import check_stream

pytestmark = pytest.mark.anyio

WEATHER = {"type": "function", "name": "get_weather", "parameters": {"type": "object"}}
TOOLS = [WEATHER, {**WEATHER, "name": "get_time"}, {"type": "custom", "name": "run"}]
SECRET = "sk-upstream-secret"


async def ask(reply: Scripted | str, *, stream: bool = True, **options: Any) -> Answer:
    """One turn in front of a server that answers so; what must hold for every answer is checked."""
    stalls = "Stall" in repr(reply)
    upstream = {"timeout": 0.3 if stalls else 20, "api_key": SECRET, **options}
    async with ModelServer(reply) as model, serving(model.url, upstream_options=upstream) as api:
        answer = await api.create(stream=stream, tools=TOOLS)
    for trace in (b"Traceback", b'File "', SECRET.encode(), b"bascule/"):
        assert trace not in answer.body
    if "text/event-stream" in answer.headers["content-type"]:
        assert answer.status == 200
        check_stream(answer.frames)
    elif answer.status != 200:
        assert set(answer.error) == {"message", "type", "param", "code"}
    return answer


def shown(answer: Answer) -> list[Any]:
    """The items of a response, without what differs from one run to the next."""
    items = answer.response["output"]
    for item in items:
        item.pop("id")
        item.pop("call_id", None)
    return items


async def both(reply: Scripted | str, **options: Any) -> list[Any]:
    """The items, which must be the same for a stream and a whole answer."""
    streamed = await ask(reply, **options)
    whole = await ask(reply, stream=False, **options)
    assert streamed.response["status"] == whole.json["status"]
    items = shown(streamed)
    assert items == shown(whole)
    return items


# --- answers that end as they should

ENCODINGS = {
    "crlf": Wire(line_end="\r\n"),
    "cr": Wire(line_end="\r"),
    "no space": Wire(space=False),
    "multi-line": Wire(multiline=True),
    "no last blank line": Wire(last_frame="no_blank"),
    "no last line end": Wire(last_frame="no_newline"),
    "grouped": Wire(group=50),
    "cut in each event": Wire(split=[1, 5, 7, 20, 60]),
    "cut at crlf": Wire(line_end="\r\n", split=[6, 8]),
    "eof framing": Wire(framing="eof"),
    "length framing": Wire(framing="length"),
    "everything late": Wire(hold_head=True, group=100),
    "json for a stream": Wire(answer="json"),
    "stream for json": Wire(answer="sse"),
}


@pytest.mark.parametrize("wire", ENCODINGS.values(), ids=ENCODINGS)
async def test_however_the_answer_is_written(wire: Wire) -> None:
    reply = Reply(
        Reasoning("Hm.", chunks=2),
        Comment(),
        Text('Hé "llo" 🙂', chunks=4),
        Call("get_weather", {"city": "Malmö"}, id="call_1", split=3),
        wire=wire,
    )
    items = await both(reply)
    assert [item["type"] for item in items] == ["reasoning", "message", "function_call"]
    assert items[1]["content"][0]["text"] == 'Hé "llo" 🙂'
    assert items[2]["arguments"] == '{"city":"Malmö"}'


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)
async def test_every_dialect(dialect: Any) -> None:
    reply = Reply(
        Reasoning("Hm."),
        "Hello",
        Call("get_weather", {"city": "Oslo"}),
        Call("get_time"),
        Call("run", {"input": "ls\n"}),
        dialect=dialect,
    )
    items = await both(reply)
    assert [item["type"] for item in items] == [
        "reasoning",
        "message",
        "function_call",
        "function_call",
        "custom_tool_call",
    ]
    assert items[4]["input"] == "ls\n"


CALLS: dict[str, tuple[Any, ...]] = {
    "repeated name": (Call("get_weather", {"a": 1}, split=3, later_name="repeated"),),
    "repeated id": (Call("get_weather", {"a": 1}, split=3, later_id="repeated"),),
    "both repeated": (
        Call("get_weather", {"a": 1}, split=3, later_id="repeated", later_name="repeated"),
    ),
    "empty name and id": (
        Call("get_weather", {"a": 1}, split=3, later_id="empty", later_name="empty"),
    ),
    "null name and id": (
        Call("get_weather", {"a": 1}, split=3, later_id="null", later_name="null"),
    ),
    "fragmented name": (Call(["get_", "wea", "ther"], {"a": 1}, split=2),),
    "name last": (Call("get_weather", {"a": 1}, split=3, layout="name_last"),),
    "name alone": (Call("get_weather", {"a": 1}, split=3, layout="name_alone"),),
    "no index": (Call("get_weather", {"a": 1}, layout="joined", omit=["index"]),),
    "no index, in pieces": (Call("get_weather", {"a": 1}, split=3, omit=["index"]),),
    "no id": (Call("get_weather", {"a": 1}, omit=["id"]),),
    "no type": (Call("get_weather", {"a": 1}, omit=["type"]),),
    "with text in one chunk": (Together([Text("x"), Call("get_weather", {"a": 1})]),),
    "text between": (Interleave([Call("get_weather", {"a": 1}, split=3), Text("xyz", chunks=3)]),),
}


@pytest.mark.parametrize("steps", CALLS.values(), ids=CALLS)
async def test_a_call_in_every_form(steps: tuple[Any, ...]) -> None:
    answer = await ask(Reply(*steps))
    calls = [item for item in answer.response["output"] if item["type"] == "function_call"]
    assert [(c["name"], c["arguments"], c["status"]) for c in calls] == [
        ("get_weather", '{"a":1}', "completed")
    ]
    assert calls[0]["call_id"]


PARALLEL: dict[str, tuple[Any, ...]] = {
    "one after the other": (Call("get_weather", {"a": 1}, split=2), Call("get_time", {"b": 2})),
    "interleaved": (
        Interleave([Call("get_weather", {"a": 1}, split=3), Call("get_time", {"b": 2}, split=3)]),
    ),
    "in one chunk": (
        Together([Call("get_weather", {"a": 1}, split=2), Call("get_time", {"b": 2}, split=2)]),
    ),
    "without ids": (
        Call("get_weather", {"a": 1}, omit=["id"]),
        Call("get_time", {"b": 2}, omit=["id"]),
    ),
    "without indexes": (
        Call("get_weather", {"a": 1}, layout="joined", omit=["index"]),
        Call("get_time", {"b": 2}, layout="joined", omit=["index"]),
    ),
    "under one id": (
        Call("get_weather", {"a": 1}, id="call_1"),
        Call("get_time", {"b": 2}, id="call_1"),
    ),
}


@pytest.mark.parametrize("steps", PARALLEL.values(), ids=PARALLEL)
async def test_parallel_calls(steps: tuple[Any, ...]) -> None:
    answer = await ask(Reply(*steps))
    assert [(i["name"], i["arguments"]) for i in answer.response["output"]] == [
        ("get_weather", '{"a":1}'),
        ("get_time", '{"b":2}'),
    ]


async def test_calls_numbered_alike() -> None:
    def fragment(id_: str, name: str, arguments: str) -> Delta:
        function = {"name": name, "arguments": arguments}
        return Delta(
            {"tool_calls": [{"index": 0, "id": id_, "type": "function", "function": function}]}
        )

    answer = await ask(
        Reply(fragment("a", "get_weather", '{"a":1}'), fragment("b", "get_time", "{}"))
    )
    assert [i["call_id"] for i in answer.response["output"]] == ["a", "b"]


async def test_an_undeclared_call_comes_back_as_it_was_made() -> None:
    items = await both(weak.undeclared_call())
    assert [(item["type"], item["name"]) for item in items] == [("function_call", "translate")]


async def test_a_call_without_arguments_has_an_empty_object() -> None:
    for call in (
        Call("get_weather", ""),
        Call("get_weather", "", layout="name_alone"),
        Call("get_weather", "{}"),
    ):
        items = await both(Reply(call))
        assert [item["arguments"] for item in items] == ["{}"]


async def test_refusals() -> None:
    items = await both(Reply(Refusal("I will not.", chunks=2)))
    assert items[0]["content"] == [{"type": "refusal", "refusal": "I will not."}]


@pytest.mark.parametrize(
    ("usage", "total"),
    [
        (Usage(12, 7), 19),
        (Usage(12, 7, place="last"), 19),
        (Usage(12, None, total=None), 12),
        (Usage(12, 7, extra={"prompt_tokens_details": None}), 19),
        (Usage(12, 7, total=99), 99),
        (Usage(None, None, total=None), None),
        (Usage(12, 7, extra={"prompt_tokens": "12"}), None),
    ],
)
async def test_usage(usage: Usage, total: int | None) -> None:
    for stream in (True, False):
        answer = await ask(Reply("Hi", Finish(), usage), stream=stream)
        assert answer.response["status"] == "completed"
        shown = answer.response["usage"]
        assert (shown and shown["total_tokens"]) == total


@pytest.mark.parametrize(
    "reply",
    [
        Reply("Hi", omit=["done"]),
        Reply("Hi", omit=["usage", "done"]),
        Reply("Hi", Finish("stop"), Eof()),
        Reply("Hi", Finish("stop"), Cut()),
        Reply("Hi", Finish("stop"), Cut(reset=True)),
        Reply("Hi", Finish("stop"), Stall()),
        Reply("Hi", omit=["finish"]),
        Reply("Hi", Finish("tool_calls")),
        Reply("Hi", Finish("stop", alone=False)),
    ],
    ids=repr,
)
async def test_an_answer_that_said_it_is_finished_is_completed(reply: Reply) -> None:
    answer = await ask(reply)
    assert answer.response["status"] == "completed"
    assert answer.response["output"][0]["status"] == "completed"


@pytest.mark.parametrize(
    ("reason", "said"), [("length", "max_output_tokens"), ("content_filter",) * 2]
)
@pytest.mark.parametrize("stream", [True, False])
async def test_an_answer_that_was_cut_is_incomplete(reason: str, said: str, stream: bool) -> None:
    call = Call("get_weather", '{"city": "Os')
    answer = await ask(Reply("Let me see", call, Finish(reason)), stream=stream)
    assert answer.response["status"] == "incomplete"
    assert answer.response["incomplete_details"] == {"reason": said}
    assert [i["status"] for i in answer.response["output"]] == ["completed", "incomplete"]
    assert answer.response["output"][1]["arguments"] == '{"city": "Os'


async def test_a_custom_call_that_was_cut_keeps_its_text() -> None:
    answer = await ask(Reply(Call("run", '{"input": "ls -'), Finish("length")))
    item = answer.response["output"][0]
    assert (item["type"], item["input"], item["status"]) == (
        "custom_tool_call",
        "ls -",
        "incomplete",
    )


# --- answers that break off

BROKEN: dict[str, Reply] = {
    "eof": Reply("Once upon", Eof()),
    "close": Reply("Once upon", Cut()),
    "close in a chunk": Reply("Once upon", Cut(mid_chunk=True)),
    "reset": Reply("Once upon", Cut(reset=True)),
    "half a line, eof": Reply("Once upon", HalfLine(), Eof()),
    "half a line, close": Reply("Once upon", HalfLine(), Cut()),
    "stall": Reply("Once upon", Stall()),
    "bad json": Reply("Once upon", BadJson()),
    "not json": Reply("Once upon", Data("<html>")),
    "error": Reply("Once upon", StreamError()),
    "error event": Reply("Once upon", StreamError(event="error")),
    "error event without json": Reply("Once upon", Data("oh no", event="error")),
    "error string": Reply("Once upon", StreamError(error={"message": "x"}, code=None)),
    "error without an object": Reply("Once upon", Data('{"error": "overloaded"}')),
    "integer code": Reply("Once upon", StreamError(code=503)),
    "finish_reason error": Reply("Once upon", Finish("error")),
    "http garbage": Reply("Once upon", Raw(b"x"), Cut(mid_chunk=True)),
    "unparsable": weak.unparsable_output("Once upon"),
    "too deep": Reply("Once upon", Data('{"x":' + "[" * 5000)),
    "call without a name": Reply(
        "Once upon", Delta({"tool_calls": [{"index": 0, "function": {"arguments": "{}"}}]})
    ),
}


@pytest.mark.parametrize("reply", BROKEN.values(), ids=BROKEN)
async def test_an_answer_that_breaks_off_fails(reply: Reply) -> None:
    answer = await ask(reply)
    assert answer.status == 200
    assert answer.types[-2:] == ["error", "failed"]
    items = answer.response["output"]
    assert [item["status"] for item in items] == ["incomplete"]
    assert items[0]["content"][0]["text"] == "Once upon"
    # The same as a stream under a request for a whole answer.
    whole = await ask(Reply(*reply.steps, wire=Wire(answer="sse")), stream=False)
    assert whole.status >= 500


@pytest.mark.parametrize(
    "reply",
    [Eof(), Cut(), StreamError(), Stall(), BadJson(), Data("[]"), Data("null")],
    ids=repr,
)
async def test_a_stream_that_breaks_before_its_first_item_fails(reply: Any) -> None:
    answer = await ask(Reply(reply))
    assert answer.types == ["created", "in_progress", "error", "failed"]
    assert answer.response["output"] == []


async def test_megabytes_without_a_newline_are_an_error() -> None:
    answer = await ask(Reply("Once upon", Flood(40_000_000), Eof()))
    assert answer.types[-2:] == ["error", "failed"]


async def test_an_error_inside_a_stream_says_what_the_server_said() -> None:
    answer = await ask(Reply("Hi", StreamError("the KV cache is full", code=503)))
    error = answer.of_type("failed")[0]["response"]["error"]
    assert error["message"] == "the KV cache is full"
    said = next(event for event in answer.events if event["type"] == "error")["error"]
    assert said["message"] == "the KV cache is full"
    assert isinstance(said["type"], str)


async def test_an_error_in_json_under_a_stream_request_is_an_http_error() -> None:
    answer = await ask(http_json(200, {"error": {"message": "no model is loaded", "code": 503}}))
    assert answer.status == 503
    assert answer.error["message"] == "no model is loaded"


async def test_a_context_overflow_inside_a_stream_is_named() -> None:
    error = StreamError("This model's maximum context length is 4096 tokens", code=400)
    answer = await ask(Reply("Hi", error))
    assert answer.response["error"]["code"] == "context_length_exceeded"


WEAK: dict[str, tuple[Any, str]] = {
    "required ignored": (weak.required_ignored(), "completed"),
    "required to the limit": (weak.required_to_the_limit(), "incomplete"),
    "named choice ignored": (weak.named_choice_ignored, "completed"),
    "stop with calls": (weak.stop_with_calls("get_weather"), "completed"),
    "none as json text": (weak.none_as_json_text("get_weather"), "completed"),
    "call as text": (weak.call_as_text("get_weather", form="tag"), "completed"),
    "unparsable as text": (weak.unparsable_as_text(), "completed"),
    "undeclared": (weak.undeclared_call(), "completed"),
    "one of several": (weak.one_of_several(Call("get_weather"), Call("get_time")), "completed"),
    "calls again": (weak.calls_again("get_weather"), "completed"),
}


@pytest.mark.parametrize(("script", "status"), WEAK.values(), ids=WEAK)
async def test_weak_models(script: Any, status: str) -> None:
    for stream in (True, False):
        answer = await ask(script, stream=stream)
        assert answer.response["status"] == status
