"""Calls of tools in plain Python: what the model is told, what the client reads, how they fail."""

import asyncio
from collections.abc import Generator
from typing import Any

import msgspec
import pytest

from bascule.testing import Finish, Gate, ModelServer, Reply, responded
from tests.plugin import some_tools
from tests.plugin.calling import call, declared, with_tools
from tests.serving import Answer
from tests.stream_rules import check_stream

pytestmark = pytest.mark.anyio

Json = dict[str, Any]
ADD = declared("acme:add")


@pytest.fixture(autouse=True)
def hanging() -> Generator[None]:
    """`acme:hang` hangs until the test is over."""
    some_tools.STARTED.clear()
    some_tools.RELEASE.clear()
    yield
    some_tools.RELEASE.set()


async def once(
    type_: str, arguments: Json | str, *, stream: bool = False, **options: Any
) -> tuple[Answer, list[Json]]:
    """A turn in which the model calls a tool and then says a word; and what the server was sent."""
    replies = [Reply(call(type_, arguments)), Reply("Well.")]
    async with ModelServer(replies) as model, with_tools(model.url, **options) as api:
        answer = await api.create(tools=declared(type_), stream=stream)
        return answer, [chat.json for chat in model.chats]


def told(sent: list[Json]) -> Any:
    """What the model was told of the call."""
    return sent[1]["messages"][-1]["content"]


@pytest.mark.requirement("tools:plugin:function")
async def test_the_model_is_told_a_function_of_the_signature() -> None:
    async with ModelServer("Hi") as model, with_tools(model.url) as api:
        answer = await api.create(tools=declared("acme:add", "acme:move"))
        (sent,) = [chat.json for chat in model.chats]
    add, move = [tool["function"] for tool in sent["tools"]]
    assert add == {
        "name": "acme__add",
        "description": "Add two numbers.\n\nThey are whole.",
        "parameters": {
            "type": "object",
            "properties": {
                "a": {"type": "integer"},
                "b": {
                    "type": "integer",
                    "minimum": 0,
                    "description": "The second number.",
                    "default": 1,
                },
            },
            "required": ["a"],
            "additionalProperties": False,
        },
    }
    assert (move["name"], move["description"]) == ("acme__move", "Move a point.")
    parameters = move["parameters"]
    assert parameters["properties"]["point"] == {"$ref": "#/$defs/Point"}
    assert parameters["properties"]["way"] == {"enum": ["down", "up"]}
    assert parameters["required"] == ["point", "way", "by"]
    assert list(parameters["$defs"]) == ["Point"]
    assert answer.response["tools"] == declared("acme:add", "acme:move")


@pytest.mark.requirement("tools:plugin:item", "tools:plugin:events")
async def test_the_item_and_its_events() -> None:
    answer, sent = await once("acme:add", {"a": 2, "b": 3}, stream=True)
    check_stream(answer.frames)
    deltas = [e for e in answer.events if e["type"] == "acme:add_call_arguments.delta"]
    assert deltas
    types = [t for t in answer.types if not t.endswith("_arguments.delta")]
    assert types[:8] == [
        "created",
        "in_progress",
        "output_item.added",
        "acme:add_call.in_progress",
        "acme:add_call_arguments.done",
        "acme:add_call.completed",
        "output_item.done",
        "output_item.added",
    ]
    item = answer.response["output"][0]
    assert item == {
        "type": "acme:add_call",
        "id": item["id"],
        "status": "completed",
        "arguments": '{"a":2,"b":3}',
        "output": "5",
        "error": None,
    }
    assert answer.of_type("output_item.added")[0]["item"] == {
        **item,
        "status": "in_progress",
        "arguments": "",
        "output": None,
    }
    assert answer.of_type("output_item.done")[0]["item"] == item
    assert "".join(delta["delta"] for delta in deltas) == item["arguments"]
    own = [e for e in answer.events if e["type"].startswith("acme:")]
    assert {(e["item_id"], e["output_index"]) for e in own} == {(item["id"], 0)}
    assert own[-2]["arguments"] == item["arguments"]
    assert [name for name, data in answer.frames if data in own] == [e["type"] for e in own]
    assert told(sent) == "5"


@pytest.mark.requirement("tools:plugin:item")
async def test_not_streamed_it_is_the_same() -> None:
    answer, sent = await once("acme:add", {"a": 2})
    assert [item["type"] for item in answer.response["output"]] == ["acme:add_call", "message"]
    assert answer.response["output"][0]["output"] == "3"
    assert [m["role"] for m in sent[1]["messages"]] == ["user", "assistant", "tool"]
    (made,) = sent[1]["messages"][1]["tool_calls"]
    assert made["function"] == {"name": "acme__add", "arguments": '{"a":2}'}


@pytest.mark.requirement("tools:plugin:function")
async def test_arguments_are_decoded_to_the_annotated_types() -> None:
    answer, sent = await once("acme:move", {"point": {"x": 1}, "way": "down", "by": [1, 2]})
    assert answer.response["output"][0]["status"] == "completed"
    result = msgspec.json.decode(told(sent))
    assert result == {"point": {"x": 1, "y": -3}, "thread": "MainThread"}


@pytest.mark.requirement("tools:plugin:function")
async def test_a_function_that_is_not_async_has_a_thread() -> None:
    _, sent = await once("acme:where", {})
    assert told(sent) == "bascule-tool"


@pytest.mark.requirement("tools:plugin:function")
async def test_parts_are_a_result() -> None:
    answer, sent = await once("acme:picture", {})
    part = {"type": "input_image", "image_url": "data:image/png;base64,AAAA"}
    assert answer.response["output"][0]["output"] == [part]
    assert "data:image/png;base64,AAAA" in str(sent[1]["messages"])


@pytest.mark.requirement("tools:plugin:failure")
@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    ("type_", "arguments", "code", "message"),
    [
        ("acme:fail", {"how": "told"}, "no_city", "There is no such city."),
        ("acme:fail", {"how": "raise"}, "tool_error", "The tool failed: KeyError."),
        ("acme:fail", {"how": "value"}, "tool_error", "The tool failed: TypeError."),
        ("acme:fail", {"how": "stop"}, "tool_error", "The tool failed: RuntimeError."),
        ("acme:fail", {"how": "exit"}, "tool_error", "The tool failed: RuntimeError."),
        ("acme:exit", {}, "tool_error", "The tool failed: RuntimeError."),
        ("acme:hang", {}, "timeout", "The tool did not answer in 0.05 s."),
    ],
)
async def test_a_call_that_fails(
    type_: str, arguments: Json, code: str, message: str, stream: bool
) -> None:
    answer, sent = await once(type_, arguments, stream=stream)
    item = answer.response["output"][0]
    assert (item["status"], item["output"]) == ("failed", None)
    assert item["error"] == {"code": code, "message": message}
    assert msgspec.json.decode(told(sent)) == {"error": message}
    assert answer.response["status"] == "completed"
    assert b"secret" not in answer.body
    if stream:
        ends = [t for t in answer.types if t in (f"{type_}_call.failed", f"{type_}_call.completed")]
        assert ends == [f"{type_}_call.failed"]


@pytest.mark.requirement("tools:plugin:failure")
@pytest.mark.parametrize(
    "arguments", [{"b": 1}, {"a": "x"}, {"a": 1, "b": -1}, {"a": 1, "c": 2}, '{"a":']
)
async def test_wrong_arguments_do_not_run(arguments: Any) -> None:
    answer, sent = await once("acme:add", arguments)
    item = answer.response["output"][0]
    assert (item["status"], item["error"]["code"]) == ("failed", "invalid_arguments")
    assert msgspec.json.decode(told(sent)) == {"error": item["error"]["message"]}


@pytest.mark.requirement("tools:plugin:failure")
async def test_a_call_that_the_model_did_not_finish_is_incomplete_and_does_not_run() -> None:
    cut = Reply(call("acme:add", '{"a":1'), Finish("length"))
    async with ModelServer([cut]) as model, with_tools(model.url) as api:
        answer = await api.create(tools=ADD, stream=True)
    (item,) = answer.response["output"]
    assert (item["status"], item["arguments"]) == ("incomplete", '{"a":1')
    assert answer.response["status"] == "incomplete"
    assert not [t for t in answer.types if t.startswith("acme:") and t.endswith("ed")]


@pytest.mark.requirement("tools:plugin:function")
async def test_a_blocked_thread_stops_nobody() -> None:
    replies = [Reply(call("acme:hang", {}), "more", Gate("writing")), Reply("Well.")]
    async with ModelServer(replies) as model, with_tools(model.url) as api:
        task = asyncio.ensure_future(api.create(tools=declared("acme:hang"), stream=True))
        await model.reached("writing")
        assert await asyncio.to_thread(some_tools.STARTED.wait, 5)
        health = await api.send("GET", "/health")
        model.open("writing")
        answer = await task
    assert health.status == 200
    assert answer.response["output"][0]["error"]["code"] == "timeout"


@pytest.mark.requirement("tools:plugin:choice")
@pytest.mark.parametrize("stream", [True, False])
async def test_a_forced_choice_holds_for_the_first_round(stream: bool) -> None:
    replies = [Reply(call("acme:add", {"a": 1})), Reply("2.")]
    async with ModelServer(replies) as model, with_tools(model.url) as api:
        choice = {"type": "acme:add"}
        answer = await api.create(
            tools=declared("acme:add", "acme:where"), tool_choice=choice, stream=stream
        )
        first, second = [chat.json for chat in model.chats]
    assert first["tool_choice"] == {"type": "function", "function": {"name": "acme__add"}}
    assert second.get("tool_choice") in (None, "auto")
    assert answer.response["tool_choice"] == choice
    assert answer.response["output"][0]["status"] == "completed"


@pytest.mark.requirement("tools:plugin:choice")
async def test_allowed_tools_keeps_others_from_running() -> None:
    allowed = {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "acme:where"}]}
    calls = Reply(call("acme:add", {"a": 1}, "call_1"), call("acme:where", {}, "call_2"))
    async with ModelServer([calls, Reply("Well.")]) as model, with_tools(model.url) as api:
        answer = await api.create(tools=declared("acme:add", "acme:where"), tool_choice=allowed)
        messages = model.chats[1].json["messages"]
    assert [item["type"] for item in answer.response["output"]] == ["acme:where_call", "message"]
    outputs = {m["tool_call_id"]: m["content"] for m in messages if m["role"] == "tool"}
    assert "may not be called" in outputs["call_1"]
    assert outputs["call_2"] == "bascule-tool"


@pytest.mark.requirement("tools:plugin:choice")
async def test_a_choice_of_a_tool_that_is_not_declared_is_a_400() -> None:
    async with ModelServer("Hi") as model, with_tools(model.url) as api:
        answer = await api.create(tools=ADD, tool_choice={"type": "acme:where"})
    assert (answer.status, answer.error["param"]) == (400, "tool_choice")


@pytest.mark.requirement("tools:plugin:function")
async def test_its_name_gives_way_to_the_clients_own_function() -> None:
    own = {"type": "function", "name": "acme__add", "parameters": {"type": "object"}}
    async with ModelServer([Reply(call("acme:add", {}))]) as model, with_tools(model.url) as api:
        answer = await api.create(tools=[*ADD, own])
        names = [tool["function"]["name"] for tool in model.chats[0].json["tools"]]
    assert names[1] == "acme__add"
    assert names[0].startswith("acme__add_")
    (made,) = answer.response["output"]
    assert (made["type"], made["name"]) == ("function_call", "acme__add")


@pytest.mark.requirement("tools:plugin:declaration")
@pytest.mark.parametrize(
    ("tool", "param", "code"),
    [
        ({"type": "acme:nothing"}, "tools[0].type", "unsupported_value"),
        ({"type": "acme:add", "unit": "x"}, "tools[0].unit", "unknown_parameter"),
    ],
)
async def test_a_wrong_declaration_is_a_400_with_its_path(
    tool: Json, param: str, code: str
) -> None:
    async with ModelServer("Hi") as model, with_tools(model.url) as api:
        answer = await api.create(tools=[tool])
        assert model.chats == []
    assert (answer.status, answer.error["param"], answer.error["code"]) == (400, param, code)


@pytest.mark.requirement("tools:plugin:responses-upstream")
@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("hosted", ["all", []])
async def test_a_server_that_speaks_responses_is_told_a_function(stream: bool, hosted: Any) -> None:
    made = {
        "id": "fc_up",
        "type": "function_call",
        "status": "completed",
        "call_id": "call_1",
        "name": "acme__add",
        "arguments": '{"a":4}',
    }
    said = {"id": "msg_up", "type": "message", "status": "completed", "role": "assistant"}
    part = {"type": "output_text", "text": "5.", "annotations": [], "logprobs": []}
    answers = [responded(made), responded({**said, "content": [part]})]
    options = {"protocol": "responses", "flags": {"hosted_tools": hosted}}
    async with (
        ModelServer(lambda request: answers[request.number - 1](request)) as model,
        with_tools(model.url, upstream_options=options) as api,
    ):
        answer = await api.create(tools=ADD, stream=stream, store=False)
        first, second = [chat.json for chat in model.chats]
    assert [(tool["type"], tool["name"]) for tool in first["tools"]] == [("function", "acme__add")]
    assert [item["type"] for item in answer.response["output"]] == ["acme:add_call", "message"]
    assert [item["type"] for item in second["input"][-2:]] == [
        "function_call",
        "function_call_output",
    ]
    assert second["input"][-1]["output"] == "5"


@pytest.mark.requirement("tools:plugin:responses-upstream")
async def test_a_server_that_is_said_to_run_the_type_gets_it() -> None:
    options = {"protocol": "responses", "flags": {"hosted_tools": ["acme:add"]}}
    async with (
        ModelServer(responded(), then="repeat") as model,
        with_tools(model.url, upstream_options=options) as api,
    ):
        await api.create(tools=ADD)
        assert model.chats[0].json["tools"] == ADD
