"""Bad declarations and bad calls: each has a clear result, and leaves nothing behind."""

import asyncio
from typing import Any, ClassVar

import msgspec
import pytest
from msgspec import Raw

from bascule.testing import Call, Interleave, ModelServer, Reply
from bascule.toolkit.discovery import Discovery
from bascule.toolkit.handler import Handlers, Tool, ToolHandler
from bascule.toolkit.outcome import Call as ToolCall
from bascule.toolkit.outcome import Outcome, Output
from bascule.tools.function import FunctionHandler
from tests.conformance.asking import gateway
from tests.conformance.stream import check_answer, check_stream
from tests.engine.lookup_tool import TOOL, LookupExecutor, LookupHandler, found, install
from tests.serving import serving

pytestmark = pytest.mark.anyio

Json = dict[str, Any]


def function(name: str) -> Json:
    return {"type": "function", "name": name, "parameters": {"type": "object"}}


def namespace(name: str, *tools: Json) -> Json:
    return {"type": "namespace", "name": name, "description": "", "tools": list(tools)}


# --- declarations


@pytest.mark.requirement("tool:duplicate:refused")
@pytest.mark.parametrize(
    "tools",
    [
        [function("a"), function("a")],
        [{"type": "custom", "name": "a"}, {"type": "custom", "name": "a"}],
        [namespace("n", function("a")), namespace("n", function("a"))],
        [{"type": "web_search"}, {"type": "web_search_preview"}],
        [{"type": "shell"}, {"type": "shell", "environment": {"type": "local"}}],
    ],
)
async def test_the_same_identity_twice(tools: list[Json]) -> None:
    async with gateway() as (api, model):
        answer = await api.create(tools=tools)
        assert model.chats == []
    assert (answer.status, answer.error["param"]) == (400, "tools[1]")
    assert answer.error["code"] == "duplicate_tool"


@pytest.mark.requirement("tool:namespace:coincidence")
async def test_a_namespaced_name_equal_to_a_plain_one() -> None:
    tools = [namespace("a", function("b")), function("a__b")]
    async with gateway(Reply(Call("a__b", {}))) as (api, model):
        response = check_stream(await api.create(tools=tools, stream=True))
        names = [tool["function"]["name"] for tool in model.chats[0].tools]
    assert len(set(names)) == 2
    (call,) = response["output"]
    assert call["name"] == "a__b"
    assert "namespace" not in call


async def test_five_hundred_tools() -> None:
    tools = [function(f"f{n}") for n in range(500)]
    async with gateway(Reply(Call("f499", {}))) as (api, model):
        response = check_answer(await api.create(tools=tools))
        assert len(model.chats[0].tools) == 500
    assert response["output"][0]["name"] == "f499"


@pytest.mark.requirement("tool:names:any")
@pytest.mark.parametrize("name", ["n" * 200, "погода", "a.b.c", "with space", "🙂", "__"])
async def test_a_name_that_no_server_takes(name: str) -> None:
    tools = [function(name), namespace(name, function(name)), {"type": "custom", "name": name}]

    def first(request: Any) -> Reply:
        called = [tool["function"]["name"] for tool in request.json["tools"]]
        assert all(0 < len(wire) <= 64 and wire.isascii() for wire in called)
        return Reply(*(Call(wire, {}, id=f"call_{i}") for i, wire in enumerate(called)))

    async with ModelServer(first) as model, serving(model.url) as api:
        response = check_stream(await api.create(tools=tools, stream=True))
    plain, inside, custom = response["output"]
    assert plain["name"] == custom["name"] == inside["name"] == name
    assert inside["namespace"] == name


@pytest.mark.parametrize(
    ("tool", "param"),
    [
        (function(""), "tools[0].name"),
        ({"type": "custom", "name": ""}, "tools[0].name"),
        (namespace(""), "tools[0].name"),
        (namespace("n", function("")), "tools[0].tools[0].name"),
        (namespace("n", namespace("m", function("a"))), "tools[0].tools[0].type"),
    ],
)
async def test_an_empty_name_and_a_nested_namespace(tool: Json, param: str) -> None:
    async with gateway() as (api, _):
        answer = await api.create(tools=[tool])
    assert (answer.status, answer.error["param"]) == (400, param)


# --- what a model calls


@pytest.mark.requirement("tool:call:invented")
@pytest.mark.parametrize("name", ["no_such_tool", "CRM__FIND", "crm__Find", "crm:find", "fin"])
async def test_a_name_that_means_nothing_goes_back_as_it_was_called(name: str) -> None:
    async with gateway(Reply(Call(name, {"a": 1}))) as (api, _):
        response = check_stream(
            await api.create(tools=[namespace("crm", function("find"))], stream=True)
        )
    (call,) = response["output"]
    assert (call["type"], call["name"], call["arguments"]) == ("function_call", name, '{"a":1}')
    assert "namespace" not in call


@pytest.mark.parametrize(
    "arguments", ['{"a":1}{"b":2}', '[{"a":1}]', "", "null", '{"a":', "x" * 20, '"text"']
)
@pytest.mark.parametrize("stream", [True, False])
async def test_arguments_of_a_clients_call_are_handed_on(arguments: str, stream: bool) -> None:
    """A server that is known to write whole JSON is believed; the client sees what the model wrote."""
    async with gateway(Reply(Call("f", arguments, split=2))) as (api, _):
        answer = await api.create(tools=[function("f")], stream=stream)
        response = check_stream(answer) if stream else check_answer(answer)
    assert response["output"][0]["arguments"] == (arguments or "{}")


@pytest.mark.requirement("tool:arguments:checked")
@pytest.mark.parametrize(
    "arguments", ['{"query":1}{"b":2}', '[{"query":"x"}]', "null", '{"query":']
)
async def test_arguments_of_the_gateways_call_are_refused_to_the_model(arguments: str) -> None:
    executor = LookupExecutor(found)
    replies = [Reply(Call("lookup", arguments)), Reply("Sorry.")]
    async with ModelServer(replies) as model, serving(model.url, adjust=install(executor)) as api:
        response = (await api.create(tools=[TOOL])).response
        told = msgspec.json.decode(model.chats[1].json["messages"][-1]["content"])
    assert executor.calls == []
    assert "arguments" in told["error"]
    assert [item["status"] for item in response["output"]] == ["failed", "completed"]


async def test_a_megabyte_of_arguments() -> None:
    text = "x" * 1_000_000
    executor = LookupExecutor(found)
    mine = Call("f", {"text": text}, id="call_1", split=50)
    replies = [Reply(mine, Call("lookup", {"query": text}, id="call_2", split=50))]
    async with ModelServer(replies) as model, serving(model.url, adjust=install(executor)) as api:
        response = (await api.create(tools=[TOOL, function("f")], stream=True)).response
    assert msgspec.json.decode(response["output"][0]["arguments"])["text"] == text
    assert msgspec.json.decode(executor.calls[0].arguments)["query"] == text


async def test_arguments_interleaved_with_another_calls() -> None:
    executor = LookupExecutor(found)
    both = Interleave(
        [
            Call("lookup", {"query": "one"}, id="call_1", split=3),
            Call("f", {"text": "two"}, id="call_2", split=3),
        ]
    )
    async with (
        ModelServer([Reply(both)]) as model,
        serving(model.url, adjust=install(executor)) as api,
    ):
        response = (await api.create(tools=[TOOL, function("f")], stream=True)).response
    assert executor.calls[0].arguments == '{"query":"one"}'
    assert response["output"][1]["arguments"] == '{"text":"two"}'


@pytest.mark.parametrize("stream", [True, False])
async def test_a_hundred_calls_in_one_round(stream: bool) -> None:
    five = asyncio.Barrier(5)
    running = most = 0

    async def counts(call: ToolCall) -> Outcome:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await five.wait()
        running -= 1
        return Output(output=call.call_id)

    executor = LookupExecutor(counts)
    calls = [Call("lookup", {"query": str(n)}, id=f"call_{n}") for n in range(100)]
    async with (
        ModelServer([Reply(*calls), "Done."]) as model,
        serving(model.url, adjust=install(executor)) as api,
    ):
        response = (await api.create(tools=[TOOL], stream=stream)).response
        told = [m["content"] for m in model.chats[1].json["messages"] if m["role"] == "tool"]
    assert told == [f"call_{n}" for n in range(100)]
    assert [item["status"] for item in response["output"]] == ["completed"] * 101
    assert most == 5


# --- what a handler does


class _Broken(ToolHandler[Any]):
    """Raises in the stage that it is told to."""

    types: ClassVar[frozenset[str]] = frozenset({"broken"})

    def __init__(self, stage: str) -> None:
        self._stage = stage
        type(self).discovers = stage == "discover"

    def parse(self, declaration: Raw, param: str) -> Any:
        return self._at("parse")

    async def discover(self, params: Any, discovery: Discovery) -> Any:
        return self._at("discover")

    def normalize(self, params: Any) -> list[Tool]:
        self._at("normalize")
        return []

    def _at(self, stage: str) -> None:
        if stage == self._stage:
            raise KeyError("a secret of the handler's")


@pytest.mark.requirement("tools:handler-fault")
@pytest.mark.parametrize("stage", ["parse", "discover", "normalize"])
async def test_a_handler_that_raises_fails_its_requests_alone(stage: str) -> None:
    def adjust(gateway: Any) -> None:
        gateway.engine.handlers = Handlers([FunctionHandler(), _Broken(stage)])

    async with (
        ModelServer("Fine.", then="repeat") as model,
        serving(model.url, adjust=adjust) as api,
    ):
        answer = await api.create(tools=[function("f"), {"type": "broken"}])
        after = await api.create(tools=[function("f")])
        assert len(model.chats) == 1
    assert (answer.status, answer.error["param"]) == (500, "tools[1]")
    assert "'broken'" in answer.error["message"]
    assert b"secret" not in answer.body
    assert after.status == 200


@pytest.mark.requirement("tools:executor-fault")
@pytest.mark.parametrize("fault", ["hangs", "wrong type", "none", "raises"])
async def test_an_executor_that_misbehaves_spoils_its_call_alone(fault: str) -> None:
    async def misbehaves(call: ToolCall) -> Any:
        if '"good"' in call.arguments:
            return Output(output="good")
        if fault == "hangs":
            await asyncio.Event().wait()
        if fault == "raises":
            raise ZeroDivisionError("secret")
        return None if fault == "none" else {"output": 1}

    executor = LookupExecutor(misbehaves)
    executor.timeout = 0.1
    calls = [
        Call("lookup", {"query": query}, id=f"call_{query}") for query in ("good", "bad", "good")
    ]
    calls[2] = Call("lookup", {"query": "good"}, id="call_3")

    def adjust(gateway: Any) -> None:
        gateway.engine.handlers = Handlers([FunctionHandler(), LookupHandler(executor)])

    async with (
        ModelServer([Reply(*calls), "Done."]) as model,
        serving(model.url, adjust=adjust) as api,
    ):
        response = (await api.create(tools=[TOOL], stream=True)).response
        told = [m["content"] for m in model.chats[1].json["messages"] if m["role"] == "tool"]
    statuses = [item["status"] for item in response["output"]]
    assert statuses == ["completed", "failed", "completed", "completed"]
    assert (told[0], told[2]) == ("good", "good")
    assert "error" in msgspec.json.decode(told[1])
    assert "secret" not in told[1]
    assert response["status"] == "completed"
