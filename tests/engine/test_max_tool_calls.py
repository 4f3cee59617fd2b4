"""`max_tool_calls`: calls that the gateway runs, counted over the whole response."""

from typing import Any

import msgspec
import pytest

from bascule.testing import Call, ModelServer, Reply
from bascule.toolkit.outcome import Call as ToolCall
from bascule.toolkit.outcome import Outcome, Output, Suspended
from tests.engine.lookup_tool import TOOL, LookupExecutor, found, install
from tests.serving import Answer, serving

pytestmark = pytest.mark.anyio

Json = dict[str, Any]
WEATHER = {"type": "function", "name": "get_weather", "parameters": {"type": "object"}}


def lookup(query: str, id_: str) -> Call:
    return Call("lookup", {"query": query}, id=id_)


async def ask(
    executor: LookupExecutor, replies: list[Any], **fields: Any
) -> tuple[Answer, list[Json]]:
    async with ModelServer(replies) as model, serving(model.url, adjust=install(executor)) as api:
        answer = await api.create(tools=[TOOL, WEATHER], **fields)
        return answer, [chat.json for chat in model.chats]


def outputs(sent: Json) -> list[str]:
    return [m["content"] for m in sent["messages"] if m["role"] == "tool"]


@pytest.mark.requirement("request:max-tool-calls")
@pytest.mark.parametrize("stream", [False, True])
async def test_calls_beyond_the_maximum_are_not_run(stream: bool) -> None:
    executor = LookupExecutor(found)
    replies = [Reply(lookup("a", "c1"), lookup("b", "c2"), lookup("c", "c3")), "Done."]
    answer, sent = await ask(executor, replies, max_tool_calls=2, stream=stream)
    response = answer.response
    assert [call.call_id for call in executor.calls] == ["c1", "c2"]
    assert response["status"] == "completed"
    assert response["max_tool_calls"] == 2
    calls = [item for item in response["output"] if item["type"] == "lookup_call"]
    assert [item["status"] for item in calls] == ["completed", "completed", "failed"]
    said = outputs(sent[1])
    assert said[:2] == ['found for {"query":"a"}', 'found for {"query":"b"}']
    assert "not run" in msgspec.json.decode(said[2])["error"]
    assert response["output"][-1]["content"][0]["text"] == "Done."


@pytest.mark.requirement("request:max-tool-calls")
async def test_they_are_counted_over_all_rounds() -> None:
    executor = LookupExecutor(found)
    replies = [Reply(lookup("a", "c1")), Reply(lookup("b", "c2")), "Done."]
    answer, sent = await ask(executor, replies, max_tool_calls=1)
    assert [call.call_id for call in executor.calls] == ["c1"]
    assert answer.response["status"] == "completed"
    assert "one tool call" in outputs(sent[2])[1]


@pytest.mark.requirement("request:max-tool-calls")
async def test_the_clients_calls_do_not_count() -> None:
    executor = LookupExecutor(found)
    replies = [Reply(Call("get_weather", {}, id="w1"), lookup("a", "c1"))]
    answer, _ = await ask(executor, replies, max_tool_calls=1)
    assert [call.call_id for call in executor.calls] == ["c1"]
    assert [item["type"] for item in answer.response["output"]] == ["function_call", "lookup_call"]


@pytest.mark.requirement("request:max-tool-calls")
async def test_a_call_that_goes_on_counts_and_runs() -> None:
    async def suspended(call: ToolCall) -> Outcome:
        item = msgspec.json.encode({"type": "lookup_request", "id": "ask_1"})
        return Suspended(items=[item], awaits=["ask_1"])

    async def resumed(call: ToolCall, state: bytes, answers: Any) -> Outcome:
        return Output(output="allowed")

    executor = LookupExecutor(suspended, resumed)
    replies = [Reply(lookup("a", "c1")), Reply(lookup("b", "c2")), "Done."]
    async with ModelServer(replies) as model, serving(model.url, adjust=install(executor)) as api:
        first = await api.create(tools=[TOOL])
        answer = await api.create(
            tools=[TOOL],
            max_tool_calls=1,
            previous_response_id=first.response["id"],
            input=[{"type": "lookup_approval", "approval_id": "ask_1"}],
        )
        sent = [chat.json for chat in model.chats]
    assert answer.response["status"] == "completed"
    assert [call.call_id for call in executor.calls] == ["c1"]
    assert outputs(sent[1]) == ["allowed"]
    assert "not run" in outputs(sent[2])[1]


@pytest.mark.requirement("request:max-tool-calls")
async def test_without_a_maximum_all_calls_run() -> None:
    executor = LookupExecutor(found)
    replies = [Reply(*(lookup("a", f"c{i}") for i in range(8))), "Done."]
    answer, _ = await ask(executor, replies, max_tool_calls=None)
    assert len(executor.calls) == 8
    assert answer.response["max_tool_calls"] is None
