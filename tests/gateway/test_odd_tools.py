"""Odd names and odd calls of tools of every kind, through to the model that reads the outputs: nothing
is lost on the way, and nothing stays behind."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from bascule.protocols import json
from bascule.testing import Call, Interleave, ModelServer, Reply, Script
from bascule.toolkit.outcome import Call as ToolCall
from bascule.toolkit.outcome import Outcome
from tests.conformance.asking import RUN, TIME, WEATHER, output_of, text_of
from tests.engine.lookup_tool import TOOL, LookupExecutor, found, install
from tests.gateway.leaks import nothing_left
from tests.gateway.tool_kinds import KINDS, Kind
from tests.serving import Api, serving

pytestmark = pytest.mark.anyio

Json = dict[str, Any]

both_ways = pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
each_kind = pytest.mark.parametrize("name", KINDS)


@asynccontextmanager
async def clean(
    script: Script, executor: LookupExecutor | None = None
) -> AsyncGenerator[tuple[Api, ModelServer]]:
    """A gateway that has nothing left when the test is through."""
    adjust = None if executor is None else install(executor)
    async with ModelServer(script) as model, serving(model.url, adjust=adjust) as api:
        yield api, model
        await nothing_left(api)


def function(name: str) -> Json:
    return {**WEATHER, "name": name}


def group(name: str, *members: Json) -> Json:
    return {"type": "namespace", "name": name, "tools": list(members)}


def wires(model: ModelServer) -> list[str]:
    """The functions that the model was last told of."""
    return [tool["function"]["name"] for tool in model.chats[-1].tools]


ODD = ["a" * 200, "wétter", "天気", "crm.find", "a b", "functions", "__", "-", "a" * 64]


@pytest.mark.requirement("tool:names:any")
@both_ways
@pytest.mark.parametrize("odd", ODD)
async def test_odd_names_are_called_and_answered_by_their_own(odd: str, stream: bool) -> None:
    tools = [function(odd), group(odd, function(odd)), {**RUN, "name": odd}]
    answers: list[Callable[[Any], Any]] = [
        lambda request: Reply(
            *(Call(tool["function"]["name"], {"input": "x"}) for tool in request.tools)
        ),
        lambda _: "Done.",
    ]
    if odd == "functions":  # that namespace is the top level
        tools[1] = group("other", function(odd))
    async with clean(lambda request: answers[request.number - 1](request)) as (api, model):
        first = (await api.create(tools=tools, stream=stream)).response
        calls = first["output"]
        more: Json = {"previous_response_id": first["id"], "input": [*map(output_of, calls)]}
        last = (await api.create(tools=tools, stream=stream, **more)).response
        names = wires(model)
        (said,) = [m for m in model.chats[1].messages if m.get("tool_calls")]
    assert [call["type"] for call in calls] == [
        "function_call",
        "function_call",
        "custom_tool_call",
    ]
    assert [call["name"] for call in calls] == [odd] * 3
    assert calls[1]["namespace"] == tools[1]["name"]
    assert len(set(names)) == 3
    assert all(name.isascii() and 0 < len(name) <= 64 for name in names)
    assert [call["function"]["name"] for call in said["tool_calls"]] == names
    assert text_of(last) == "Done."


@pytest.mark.requirement("tool:namespace:declared")
@both_ways
async def test_an_empty_namespace_brings_nothing(stream: bool) -> None:
    async with clean("Hi.") as (api, model):
        answer = await api.create(tools=[group("none"), WEATHER], stream=stream)
        assert answer.response["status"] == "completed"
        assert wires(model) == ["get_weather"]
        alone = await api.create(tools=[group("none")], stream=stream)
        assert alone.response["status"] == "completed"
        assert "tools" not in model.chats[-1].json
        forced = await api.create(tools=[group("none")], tool_choice="required")
        assert (forced.status, forced.error["param"]) == (400, "tool_choice")
    assert answer.response["tools"][0]["name"] == "none"


# --- what models call


@pytest.mark.requirement("tool:calls:odd")
@both_ways
@pytest.mark.parametrize("called", ["LOOKUP", "lookup_call", "functions.lookup "])
async def test_the_gateways_tool_by_another_name_is_not_run(called: str, stream: bool) -> None:
    executor = LookupExecutor(found)
    async with clean([Reply(Call(called, {"query": "x"}))], executor) as (api, _):
        answer = await api.create(tools=[TOOL], stream=stream)
        (call,) = answer.response["output"]
        assert (call["type"], call["name"]) == ("function_call", called)
        assert not executor.calls


# --- what they call with

TWO = '{"city":"Oslo"}{"city":"Rome"}'
ARRAY = '["Oslo","Rome"]'
LARGE = json.encode({"city": "ö\\\n" * 250_000}).decode()
WRITTEN: dict[str, tuple[str, str, str | None]] = {
    "two objects": (TWO, TWO, "not valid JSON"),
    "an array": (ARRAY, ARRAY, "must be a JSON object"),
    "a text": ('"Oslo"', "Oslo", "must be a JSON object"),
    "null": ("null", "null", "must be a JSON object"),
    "another member": ('{"city":"Oslo"}', '{"city":"Oslo"}', None),
    "1 MB": (LARGE, LARGE, None),
}
"""What the model writes, the text that a custom tool is given, and what the model is told where the
gateway would have run it."""


@pytest.mark.requirement("tool:calls:odd")
@both_ways
@pytest.mark.parametrize("split", [1, 5], ids=["at-once", "in-pieces"])
@pytest.mark.parametrize("what", WRITTEN)
@each_kind
async def test_arguments(name: str, what: str, split: int, stream: bool) -> None:
    written, text, fault = WRITTEN[what]
    kind = KINDS[name]
    executor = LookupExecutor(found)
    script = [Reply(Call(kind.wire, written, split=split)), "Done."]
    gateways = executor if name == "gateway" else None
    async with clean(script, gateways) as (api, model):
        answer = await api.create(tools=[kind.declaration], stream=stream)
        call = answer.response["output"][0]
        assert answer.response["status"] == "completed"
        if name == "gateway":
            told = model.chats[1].messages[-1]["content"]
            assert call["status"] == ("completed" if fault is None else "failed")
            assert fault is None or fault in told
            assert [c.arguments for c in executor.calls] == ([written] if fault is None else [])
            assert text_of(answer.response) == "Done."
        else:
            member = "input" if name == "custom" else "arguments"
            assert call[member] == (text if name == "custom" else written)
            assert call["status"] == "completed"
            if stream:
                deltas = [
                    e["delta"] for e in answer.events if e["type"].endswith(f"{member}.delta")
                ]
                assert "".join(deltas) == call[member]


@pytest.mark.requirement("tool:calls:odd")
@both_ways
@each_kind
async def test_arguments_that_are_interleaved_with_anothers(name: str, stream: bool) -> None:
    kind = KINDS[name]
    other = Call("get_time", {"city": "Rome"}, split=6)
    executor = LookupExecutor(found)
    gateways = executor if name == "gateway" else None
    async with clean([Reply(Interleave([kind.call(split=6), other]))], gateways) as (api, _):
        answer = await api.create(tools=[kind.declaration, TIME], stream=stream)
        ours, time = answer.response["output"]
    assert kind.shown.items() <= ours.items()
    assert (time["name"], time["arguments"]) == ("get_time", '{"city":"Rome"}')
    assert len(executor.calls) == (name == "gateway")


# --- how many


def calls_of(kind: Kind, count: int) -> Reply:
    return Reply(*(kind.call(id="0") for _ in range(count)))


@pytest.mark.requirement("tool:calls:odd")
@both_ways
@each_kind
async def test_a_hundred_calls_in_one_round(name: str, stream: bool) -> None:
    kind = KINDS[name]
    running = most = 0
    full = asyncio.Event()

    async def answering(call: ToolCall) -> Outcome:
        nonlocal running, most
        running += 1
        most = max(most, running)
        if running == 5:
            full.set()
        await full.wait()
        running -= 1
        return await found(call)

    executor = LookupExecutor(answering)
    gateways = executor if name == "gateway" else None
    async with clean([calls_of(kind, 100), "Done."], gateways) as (api, model):
        answer = (await api.create(tools=[kind.declaration], stream=stream)).response
        calls = [item for item in answer["output"] if item["type"] != "message"]
        assert len(calls) == 100
        assert all(kind.shown.items() <= call.items() for call in calls)
        if name == "gateway":
            assert most == 5
        else:
            outputs = [output_of(call, f"output {i}") for i, call in enumerate(calls)]
            more: Json = {"previous_response_id": answer["id"], "input": outputs}
            answer = (await api.create(tools=[kind.declaration], stream=stream, **more)).response
        assert text_of(answer) == "Done."
        said, *results = model.chats[1].messages[1:]
    ids = [call["id"] for call in said["tool_calls"]]
    assert len(set(ids)) == 100
    assert [result["tool_call_id"] for result in results] == ids
    expected = [kind.result if name == "gateway" else f"output {i}" for i in range(100)]
    assert [result["content"] for result in results] == expected
