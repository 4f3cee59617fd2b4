"""The round loop with a gateway-owned tool."""

import asyncio

import msgspec
import pytest
from msgspec import Raw

from bascule.testing import Call, Gate, ModelServer, Reply, Usage
from bascule.toolkit.outcome import Call as ToolCall
from bascule.toolkit.outcome import Failed, Outcome, Output, Suspended
from tests.engine.lookup_tool import TOOL, LookupExecutor, found, install
from tests.serving import serving

pytestmark = pytest.mark.anyio

WEATHER = {"type": "function", "name": "get_weather", "parameters": {"type": "object"}}


def lookup(query: str, id_: str = "call_1") -> Call:
    return Call("lookup", {"query": query}, id=id_)


@pytest.mark.parametrize("stream", [True, False])
async def test_two_rounds(stream: bool) -> None:
    executor = LookupExecutor(found)
    replies = [Reply("Looking.", lookup("x"), Usage(10, 5)), Reply("It is y.", Usage(20, 6))]
    async with ModelServer(replies) as model, serving(model.url, adjust=install(executor)) as api:
        answer = await api.create(tools=[TOOL], stream=stream)
        sent = [chat.json for chat in model.chats]
    output = answer.response["output"]
    assert [item["type"] for item in output] == ["message", "lookup_call", "message"]
    assert output[1]["status"] == "completed"
    assert answer.response["status"] == "completed"
    assert answer.response["usage"]["total_tokens"] == 41
    assert [tool["function"]["name"] for tool in sent[0]["tools"]] == ["lookup"]
    assert sent[1]["messages"] == [
        *sent[0]["messages"],
        {
            "role": "assistant",
            "content": "Looking.",
            "tool_calls": [
                {
                    "id": "call_1",
                    "function": {"name": "lookup", "arguments": '{"query":"x"}'},
                    "type": "function",
                }
            ],
        },
        {"role": "tool", "content": 'found for {"query":"x"}', "tool_call_id": "call_1"},
    ]


async def test_the_events_of_two_rounds_are_one_stream() -> None:
    executor = LookupExecutor(found)
    replies = [Reply(lookup("x")), Reply("It is y.")]
    async with ModelServer(replies) as model, serving(model.url, adjust=install(executor)) as api:
        answer = await api.create(tools=[TOOL], stream=True)
    assert answer.types == [
        "created",
        "in_progress",
        "output_item.added",
        "lookup_call.running",
        "lookup_call.completed",
        "output_item.done",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "completed",
    ]
    assert [e["sequence_number"] for e in answer.events] == list(range(13))
    assert [e["output_index"] for e in answer.of_type("output_item.added")] == [0, 1]


async def test_a_mixed_round_runs_the_gateways_calls_and_hands_back_the_clients() -> None:
    executor = LookupExecutor(found)
    round_one = Reply(lookup("x", "call_1"), Call("get_weather", {}, id="call_2"))
    replies = [round_one, Reply("Done.")]
    async with ModelServer(replies) as model, serving(model.url, adjust=install(executor)) as api:
        first = (await api.create(tools=[TOOL, WEATHER])).response
        assert [item["type"] for item in first["output"]] == ["lookup_call", "function_call"]
        assert [item["status"] for item in first["output"]] == ["completed", "completed"]
        assert len(executor.calls) == 1
        output = {"type": "function_call_output", "call_id": "call_2", "output": "sun"}
        await api.create(previous_response_id=first["id"], input=[output], tools=[TOOL, WEATHER])
        messages = model.chats[1].json["messages"]
    assert [m["role"] for m in messages] == ["user", "assistant", "tool", "assistant", "tool"]
    assert messages[2]["content"] == 'found for {"query":"x"}'
    assert messages[4]["content"] == "sun"


async def test_a_call_starts_while_the_model_still_writes() -> None:
    executor = LookupExecutor(found)
    replies = [Reply(lookup("x"), "and more", Gate("writing"), " text"), Reply("End.")]
    async with ModelServer(replies) as model, serving(model.url, adjust=install(executor)) as api:
        task = asyncio.ensure_future(api.create(tools=[TOOL], stream=True))
        await model.reached("writing")
        await asyncio.wait_for(executor.started.wait(), 5)
        model.open("writing")
        answer = await task
    assert [i["type"] for i in answer.response["output"]] == ["lookup_call", "message", "message"]


@pytest.mark.requirement("tools:failed")
async def test_a_failed_call_is_told_to_the_model_and_the_turn_goes_on() -> None:
    async def fails(_: ToolCall) -> Outcome:
        return Failed(message="no luck")

    async def raises(_: ToolCall) -> Outcome:
        raise KeyError("secret")

    for answering, said in ((fails, "no luck"), (raises, "The tool failed: KeyError.")):
        executor = LookupExecutor(answering)
        replies = [Reply(lookup("x")), Reply("Sorry.")]
        async with (
            ModelServer(replies) as model,
            serving(model.url, adjust=install(executor)) as api,
        ):
            response = (await api.create(tools=[TOOL])).response
            told = msgspec.json.decode(model.chats[1].json["messages"][2]["content"])
        assert told == {"error": said}
        assert [item["status"] for item in response["output"]] == ["failed", "completed"]
        assert response["status"] == "completed"


@pytest.mark.requirement("tool:hosted:unavailable")
@pytest.mark.parametrize("stream", [True, False])
async def test_a_gateway_owned_call_without_an_executor_gets_an_error_result(stream: bool) -> None:
    replies = [Reply(lookup("x")), Reply("Then not.")]
    async with (
        ModelServer(replies) as model,
        serving(model.url, adjust=install(None)) as api,
    ):
        answer = await api.create(tools=[TOOL, WEATHER], stream=stream)
        sent = [chat.json for chat in model.chats]
    assert answer.headers["x-bascule-ignored"] == "tools[0]"
    assert [tool["function"]["name"] for tool in sent[0]["tools"]] == ["get_weather"]
    told = msgspec.json.decode(sent[1]["messages"][-1]["content"])
    assert told == {"error": "This server has no executor for the tool."}
    assert [item["type"] for item in answer.response["output"]] == ["message"]
    assert answer.response["tools"][0] == TOOL


async def test_parallel_calls_overlap_and_their_results_keep_the_models_order() -> None:
    both = asyncio.Barrier(2)

    async def meets(call: ToolCall) -> Outcome:
        async with asyncio.timeout(5):
            await both.wait()
        return Output(output=call.arguments)

    executor = LookupExecutor(meets)
    replies = [Reply(lookup("a", "call_1"), lookup("b", "call_2")), Reply("Both.")]
    async with ModelServer(replies) as model, serving(model.url, adjust=install(executor)) as api:
        await api.create(tools=[TOOL])
        messages = model.chats[1].json["messages"]
    assert [m["tool_call_id"] for m in messages[-2:]] == ["call_1", "call_2"]


@pytest.mark.requirement("tools:rounds:cap")
async def test_the_round_cap_ends_incomplete_after_the_last_calls_ran() -> None:
    executor = LookupExecutor(found)
    async with (
        ModelServer([Reply(lookup("again"))], then="repeat") as model,
        serving(model.url, adjust=install(executor), tools={"max_rounds": 3}) as api,
    ):
        response = (await api.create(tools=[TOOL])).response
        assert len(model.chats) == 3
    assert len(executor.calls) == 3
    assert response["status"] == "incomplete"
    assert response["incomplete_details"] == {"reason": "max_messages"}


async def test_a_suspended_call_is_resumed_in_round_zero() -> None:
    async def asks(_: ToolCall) -> Outcome:
        item = b'{"type":"lookup_approval_request","id":"ask_1"}'
        return Suspended(items=[item], awaits=["ask_1"], state=b'{"step":1}')

    seen: list[tuple[bytes, str]] = []

    async def goes_on(call: ToolCall, state: bytes, answers: object) -> Outcome:
        seen.append((state, call.arguments))
        return Output(output="approved and found")

    executor = LookupExecutor(asks, goes_on)
    replies = [Reply(lookup("x")), Reply("Here it is.")]
    async with ModelServer(replies) as model, serving(model.url, adjust=install(executor)) as api:
        first = (await api.create(tools=[TOOL])).response
        assert first["status"] == "completed"
        assert first["output"][-1]["type"] == "lookup_approval_request"
        missing = await api.create(previous_response_id=first["id"], tools=[TOOL], input="so?")
        assert (missing.status, missing.error["param"]) == (400, "input")
        approval = {"type": "lookup_approval", "approval_id": "ask_1", "approve": True}
        second = await api.create(
            previous_response_id=first["id"], input=[approval], tools=[TOOL], stream=True
        )
        messages = model.chats[1].json["messages"]
        third = await api.create(previous_response_id=second.response["id"], input="Thanks")
        assert third.status == 500  # the script is over; what was sent is what counts
        later = model.chats[2].json["messages"]
    assert seen == [(b'{"step":1}', '{"query":"x"}')]
    assert [m["role"] for m in messages] == ["user", "assistant", "tool"]
    assert messages[2]["content"] == "approved and found"
    types = [item["type"] for item in second.response["output"]]
    assert types == ["lookup_call", "message"]
    assert later[: len(messages)] == messages


async def test_a_tool_declared_in_a_round_can_be_called_in_the_next() -> None:
    async def declares(_: ToolCall) -> Outcome:
        tool = Raw(msgspec.json.encode({**WEATHER, "description": "new"}))
        return Output(output="there is a tool now", declare=[tool])

    executor = LookupExecutor(declares)
    replies = [Reply(lookup("x")), Reply(Call("get_weather", {}, id="call_2")), Reply("Sun.")]
    async with ModelServer(replies) as model, serving(model.url, adjust=install(executor)) as api:
        first = (await api.create(tools=[TOOL])).response
        assert first["output"][-1]["name"] == "get_weather"
        output = {"type": "function_call_output", "call_id": "call_2", "output": "sun"}
        await api.create(previous_response_id=first["id"], input=[output], tools=[TOOL])
        names = [[t["function"]["name"] for t in chat.json["tools"]] for chat in model.chats]
    assert names == [["lookup"], ["lookup", "get_weather"], ["lookup", "get_weather"]]


@pytest.mark.requirement("tools:rounds:forced-once")
async def test_a_forced_choice_holds_for_the_first_round_only() -> None:
    executor = LookupExecutor(found)
    replies = [Reply(lookup("x")), Reply("Free.")]
    async with ModelServer(replies) as model, serving(model.url, adjust=install(executor)) as api:
        await api.create(tools=[TOOL], tool_choice="required")
        assert model.chats[0].json["tool_choice"] == "required"
        assert "tool_choice" not in model.chats[1].json


@pytest.mark.requirement("choice:allowed:enforced")
async def test_calls_outside_allowed_tools_never_run() -> None:
    executor = LookupExecutor(found)
    allowed = {
        "type": "allowed_tools",
        "mode": "auto",
        "tools": [{"type": "function", "name": "get_weather"}],
    }
    replies = [Reply(lookup("x")), Reply("I may not.")]
    async with ModelServer(replies) as model, serving(model.url, adjust=install(executor)) as api:
        response = (await api.create(tools=[TOOL, WEATHER], tool_choice=allowed)).response
        assert "may not be called" in model.chats[1].json["messages"][2]["content"]
        assert len(model.chats[0].json["tools"]) == 2
    assert executor.calls == []
    assert [item["type"] for item in response["output"]] == ["message"]
    assert response["tool_choice"] == allowed
