"""What a turn of several rounds promises: the order of its items, what the model reads next, and what is
summed over the rounds."""

import asyncio
from typing import Any

import msgspec
import pytest

from bascule.testing import Call, Gate, ModelServer, Reasoning, Reply, Usage
from bascule.toolkit.outcome import Call as ToolCall
from bascule.toolkit.outcome import Outcome, Output
from tests.engine.lookup_tool import TOOL, LookupExecutor, found, install
from tests.serving import serving

pytestmark = pytest.mark.anyio

Json = dict[str, Any]

WEATHER: Json = {"type": "function", "name": "get_weather", "parameters": {"type": "object"}}


def lookup(query: str, id_: str = "call_1") -> Call:
    return Call("lookup", {"query": query}, id=id_)


def weather(id_: str) -> Call:
    return Call("get_weather", {}, id=id_)


def output(call_id: str, text: str = "sun") -> Json:
    return {"type": "function_call_output", "call_id": call_id, "output": text}


@pytest.mark.requirement("tools:rounds:mixed")
@pytest.mark.parametrize("stream", [True, False])
async def test_a_mixed_round_keeps_the_models_order(stream: bool) -> None:
    executor = LookupExecutor(found)
    mixed = Reply(
        "First.", lookup("a", "call_1"), weather("call_2"), lookup("b", "call_3"), weather("call_4")
    )
    async with (
        ModelServer([mixed, "Done."]) as model,
        serving(model.url, adjust=install(executor)) as api,
    ):
        answer = await api.create(tools=[TOOL, WEATHER], stream=stream)
        response = answer.response
        missing = await api.create(
            previous_response_id=response["id"], input=[output("call_2")], tools=[TOOL, WEATHER]
        )
        # Outputs may come in any order; the gateway's own are there already.
        follow = await api.create(
            previous_response_id=response["id"],
            input=[output("call_4", "rain"), output("call_2", "sun")],
            tools=[TOOL, WEATHER],
        )
        messages = model.chats[1].json["messages"]
    types = [item["type"] for item in response["output"]]
    assert types == ["message", "lookup_call", "function_call", "lookup_call", "function_call"]
    assert {item["status"] for item in response["output"]} == {"completed"}
    assert response["status"] == "completed"
    assert len(executor.calls) == 2
    assert (missing.status, missing.error["param"]) == (400, "input")
    assert "call_4" in missing.error["message"]
    assert follow.response["status"] == "completed"
    called = [c["id"] for m in messages for c in m.get("tool_calls", ())]
    told = {m["tool_call_id"]: m["content"] for m in messages if m["role"] == "tool"}
    assert called == ["call_1", "call_2", "call_3", "call_4"]
    assert told == {
        "call_1": 'found for {"query":"a"}',
        "call_2": "sun",
        "call_3": 'found for {"query":"b"}',
        "call_4": "rain",
    }
    if stream:
        added = [e["item"]["type"] for e in answer.of_type("output_item.added")]
        assert added == types


@pytest.mark.requirement("tools:rounds:live")
async def test_nothing_waits_for_a_running_call() -> None:
    """Text and the client's calls behind a gateway's call reach the client while that still runs."""
    runs = asyncio.Event()

    async def waits(_: ToolCall) -> Outcome:
        await runs.wait()
        return Output(output="late")

    executor = LookupExecutor(waits)
    first = Reply(lookup("a"), "Meanwhile.", weather("call_2"))
    async with (
        ModelServer([first]) as model,
        serving(model.url, adjust=install(executor)) as api,
        api.open(tools=[TOOL, WEATHER]) as pieces,
    ):
        seen = b""
        async for piece in pieces:
            seen += piece
            if b'"name":"get_weather"' in seen and seen.count(b"output_item.done") >= 2:
                break
        assert b"Meanwhile." in seen
        assert b"lookup_call.completed" not in seen
        runs.set()
        rest = b"".join([piece async for piece in pieces])
    assert b"lookup_call.completed" in rest
    assert rest.rindex(b"lookup_call.completed") < rest.rindex(b"response.completed")


@pytest.mark.requirement("tools:rounds:usage")
@pytest.mark.parametrize("stream", [True, False])
async def test_usage_is_summed_with_its_details(stream: bool) -> None:
    executor = LookupExecutor(found)
    replies = [
        Reply(lookup("a"), Usage(10, 5, cached=4, reasoning=2)),
        Reply(lookup("b", "call_2"), Usage(20, 6, cached=12, reasoning=1)),
        Reply("Done.", Usage(30, 7)),
    ]
    async with ModelServer(replies) as model, serving(model.url, adjust=install(executor)) as api:
        usage = (await api.create(tools=[TOOL], stream=stream)).response["usage"]
    assert usage["input_tokens"] == 60
    assert usage["input_tokens_details"]["cached_tokens"] == 16
    assert usage["output_tokens"] == 18
    assert usage["output_tokens_details"]["reasoning_tokens"] == 3
    assert usage["total_tokens"] == 78


@pytest.mark.requirement("tools:rounds:reasoning")
async def test_reasoning_is_kept_between_rounds() -> None:
    executor = LookupExecutor(found)
    options = {"flags": {"reasoning_replay": "reasoning_content"}}
    replies = [Reply(Reasoning("I must look."), lookup("a")), Reply("Done.")]
    async with (
        ModelServer(replies) as model,
        serving(model.url, adjust=install(executor), upstream_options=options) as api,
    ):
        response = (await api.create(tools=[TOOL])).response
        said = model.chats[1].json["messages"][1]
    assert said["reasoning_content"] == "I must look."
    assert said["tool_calls"][0]["id"] == "call_1"
    assert [item["type"] for item in response["output"]] == ["reasoning", "lookup_call", "message"]


@pytest.mark.requirement("tools:rounds:pairs")
@pytest.mark.parametrize("store", [True, False])
async def test_the_model_reads_pairs_and_never_public_items(store: bool) -> None:
    executor = LookupExecutor(found)
    replies = [Reply(lookup("a")), "Here.", "Again."]
    async with ModelServer(replies) as model, serving(model.url, adjust=install(executor)) as api:
        first = (await api.create(tools=[TOOL], store=store)).response
        if store:
            more: Json = {"previous_response_id": first["id"], "input": "And?"}
        else:
            history = [{"role": "user", "content": "Hello"}, *first["output"]]
            more = {"store": False, "input": [*history, {"role": "user", "content": "And?"}]}
        await api.create(tools=[TOOL], **more)
        bodies = [chat.json["messages"] for chat in model.chats]
    assert b"lookup_call" not in msgspec.json.encode(bodies)
    assert [m["role"] for m in bodies[2]] == ["user", "assistant", "tool", "assistant", "user"]
    if store:
        assert bodies[2][:3] == bodies[1]


@pytest.mark.requirement("tools:rounds:order")
async def test_the_next_round_reads_all_items_and_then_the_results() -> None:
    executor = LookupExecutor(found)
    replies = [Reply("One.", lookup("a", "call_1"), lookup("b", "call_2")), "Done."]
    async with ModelServer(replies) as model, serving(model.url, adjust=install(executor)) as api:
        await api.create(tools=[TOOL])
        messages = model.chats[1].json["messages"][1:]
    assert messages[0]["content"] == "One."
    assert [call["id"] for call in messages[0]["tool_calls"]] == ["call_1", "call_2"]
    assert [m["tool_call_id"] for m in messages[1:]] == ["call_1", "call_2"]


@pytest.mark.requirement("tools:rounds:starts-in-order")
async def test_calls_begin_in_order_and_end_as_they_are_done() -> None:
    """Both begin before either ends, and the second ends first."""
    second_done = asyncio.Event()

    async def turns(call: ToolCall) -> Outcome:
        if '"a"' in call.arguments:
            await second_done.wait()
        else:
            second_done.set()
        return Output(output=call.arguments)

    executor = LookupExecutor(turns)
    replies = [Reply(lookup("a", "call_1"), lookup("b", "call_2")), "Done."]
    async with ModelServer(replies) as model, serving(model.url, adjust=install(executor)) as api:
        answer = await api.create(tools=[TOOL], stream=True)
        told = [m["content"] for m in model.chats[1].json["messages"] if m["role"] == "tool"]
    running = [e["output_index"] for e in answer.of_type("lookup_call.running")]
    ended = [e["output_index"] for e in answer.of_type("lookup_call.completed")]
    assert running == [0, 1]
    assert ended == [1, 0]
    assert told == ['{"query":"a"}', '{"query":"b"}']
    assert [item["query"] for item in answer.response["output"][:2]] == told


@pytest.mark.requirement("tools:rounds:cancelled")
async def test_a_client_that_leaves_ends_what_runs() -> None:
    ended = asyncio.Event()

    async def hangs(_: ToolCall) -> Outcome:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        raise AssertionError

    executor = LookupExecutor(hangs)
    async with (
        ModelServer([Reply(lookup("a"), "More.", Gate("held"))]) as model,
        serving(model.url, adjust=install(executor)) as api,
    ):
        async with api.open(tools=[TOOL]) as pieces:
            await anext(pieces)
            await asyncio.wait_for(executor.started.wait(), 5)
        await asyncio.wait_for(ended.wait(), 5)
        model.open("held")


@pytest.mark.requirement("tools:rounds:one-response")
@pytest.mark.parametrize("rounds", [1, 3])
async def test_rounds_make_one_response(rounds: int) -> None:
    executor = LookupExecutor(found)
    replies: list[Any] = [Reply(lookup("a", f"call_{n}")) for n in range(rounds)]
    async with (
        ModelServer([*replies, "Done."]) as model,
        serving(model.url, adjust=install(executor)) as api,
    ):
        answer = await api.create(tools=[TOOL], stream=True)
    assert [e["sequence_number"] for e in answer.events] == list(range(len(answer.events)))
    assert len(answer.of_type("created")) == len(answer.of_type("in_progress")) == 1
    indexes = [e["output_index"] for e in answer.of_type("output_item.added")]
    assert indexes == list(range(rounds + 1))
