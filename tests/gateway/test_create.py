"""POST /v1/responses in front of a Chat server."""

import pytest

from bascule.testing import Call, Finish, ModelServer, Reasoning, Reply, Text, Usage
from tests.serving import serving

pytestmark = pytest.mark.anyio

WEATHER = {
    "type": "function",
    "name": "get_weather",
    "description": "Weather of a city",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
}


async def test_text_streams_in_the_order_of_the_protocol() -> None:
    reply = Reply(Text("Hello there", chunks=3))
    async with ModelServer([reply]) as model, serving(model.url) as api:
        answer = await api.create(stream=True)
    assert answer.status == 200
    assert answer.types == [
        "created",
        "in_progress",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.delta",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "completed",
    ]
    assert [event["sequence_number"] for event in answer.events] == list(range(11))
    assert [name for name, _ in answer.frames] == [e["type"] for e in answer.events]
    deltas = answer.of_type("output_text.delta")
    assert "".join(event["delta"] for event in deltas) == "Hello there"
    assert answer.response["output"] == [answer.of_type("output_item.done")[0]["item"]]
    assert answer.response["output"][0]["content"][0]["text"] == "Hello there"


async def test_streamed_and_whole_answers_agree() -> None:
    reply = Reply(
        Reasoning("Hm."),
        "Let me look.",
        Call("get_weather", {"city": "Oslo"}, id="call_1"),
        Usage(12, 7, cached=3, reasoning=2),
    )
    async with ModelServer([reply, reply]) as model, serving(model.url) as api:
        streamed = (await api.create(stream=True, tools=[WEATHER])).response
        whole = (await api.create(tools=[WEATHER])).response
    for response in (streamed, whole):
        for item in response["output"]:
            del item["id"]
        for name in ("id", "created_at", "completed_at"):
            del response[name]
    assert streamed == whole
    assert [item["type"] for item in whole["output"]] == ["reasoning", "message", "function_call"]
    assert whole["usage"] == {
        "input_tokens": 12,
        "input_tokens_details": {"cached_tokens": 3, "cache_write_tokens": 0},
        "output_tokens": 7,
        "output_tokens_details": {"reasoning_tokens": 2},
        "total_tokens": 19,
    }


async def test_a_function_call_goes_to_the_client_and_its_output_back_to_the_model() -> None:
    replies = [Reply(Call("get_weather", {"city": "Oslo"}, id="call_1")), Reply("Rain.")]
    async with ModelServer(replies) as model, serving(model.url) as api:
        first = (await api.create(tools=[WEATHER])).response
        call = first["output"][0]
        assert first["status"] == "completed"
        assert (call["type"], call["name"], call["call_id"]) == (
            "function_call",
            "get_weather",
            "call_1",
        )
        assert call["arguments"] == '{"city":"Oslo"}'
        output = {"type": "function_call_output", "call_id": "call_1", "output": "rain"}
        second = (
            await api.create(previous_response_id=first["id"], input=[output], tools=[WEATHER])
        ).response
        assert second["output"][0]["content"][0]["text"] == "Rain."
        assert second["previous_response_id"] == first["id"]
        sent = model.chats[1].json
    assert sent["messages"][0] == {"role": "user", "content": "Hello"}
    assert sent["messages"][1]["tool_calls"][0]["function"]["name"] == "get_weather"
    assert sent["messages"][2] == {"role": "tool", "content": "rain", "tool_call_id": "call_1"}


async def test_a_custom_tool_is_called_with_its_text() -> None:
    tool = {"type": "custom", "name": "run", "description": "Run code"}
    text = 'print("hi \\ ü")\n'
    reply = Reply(Call("run", {"input": text}, id="call_7", split=5))
    async with ModelServer([reply, Reply("done")]) as model, serving(model.url) as api:
        answer = await api.create(stream=True, tools=[tool])
        item = answer.response["output"][0]
        assert (item["type"], item["input"], item["status"]) == (
            "custom_tool_call",
            text,
            "completed",
        )
        assert answer.types[2:-1] == [
            "output_item.added",
            *["custom_tool_call_input.delta"] * len(answer.of_type("custom_tool_call_input.delta")),
            "custom_tool_call_input.done",
            "output_item.done",
        ]
        deltas = answer.of_type("custom_tool_call_input.delta")
        assert "".join(event["delta"] for event in deltas) == text
        assert len(deltas) > 1
        output = {"type": "custom_tool_call_output", "call_id": "call_7", "output": "hi"}
        await api.create(previous_response_id=answer.response["id"], input=[output], tools=[tool])
        assert model.chats[1].json["messages"][1]["tool_calls"][0]["function"]["arguments"]
        assert model.chats[1].json["messages"][2]["content"] == "hi"


async def test_a_length_stop_is_incomplete_with_its_reason() -> None:
    async with (
        ModelServer([Reply("Once upon", Finish("length"))]) as model,
        serving(model.url) as api,
    ):
        answer = await api.create(stream=True)
    assert answer.types[-1] == "incomplete"
    assert answer.response["incomplete_details"] == {"reason": "max_output_tokens"}
    assert answer.response["output"][0]["status"] == "incomplete"
