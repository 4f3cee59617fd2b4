"""The order of events: of the response, and of each kind of item."""

from typing import Any

import pytest

from bascule.testing import Call, Delta, Finish, Interleave, Reasoning, Refusal, Reply, Text
from tests.conformance.asking import RUN, TIME, WEATHER, gateway
from tests.conformance.stream import check_stream
from tests.serving import Answer

pytestmark = pytest.mark.anyio

Json = dict[str, Any]

TEXT = [
    "output_item.added",
    "content_part.added",
    "output_text.delta",
    "output_text.done",
    "content_part.done",
    "output_item.done",
]


async def streamed(*steps: Any, **fields: Any) -> Answer:
    """A checked stream of one reply."""
    async with gateway(Reply(*steps)) as (api, _):
        answer = await api.create(stream=True, **fields)
    check_stream(answer)
    return answer


def order(answer: Answer, index: int) -> list[str]:
    """Types of the events of one item, repeats collapsed."""
    types: list[str] = []
    for event in answer.events:
        if event.get("output_index") == index:
            type_ = event["type"].removeprefix("response.")
            if types[-1:] != [type_]:
                types.append(type_)
    return types


# --- the response


@pytest.mark.requirement(
    "stream:sequence:from-zero",
    "stream:begin:created-in-progress",
    "stream:end:one-terminal",
    "stream:events:known",
)
async def test_a_stream_begins_and_ends() -> None:
    answer = await streamed("Hi")
    assert answer.types == ["created", "in_progress", *TEXT, "completed"]
    assert [event["sequence_number"] for event in answer.events] == list(range(9))
    created, in_progress, *_, completed = answer.events
    assert created["response"] == in_progress["response"]
    assert created["response"]["status"] == "in_progress"
    assert completed["response"]["status"] == "completed"


@pytest.mark.requirement("stream:begin:created-in-progress")
async def test_an_empty_answer_has_no_items() -> None:
    answer = await streamed()
    assert answer.types == ["created", "in_progress", "completed"]
    assert answer.response["output"] == []


@pytest.mark.requirement(
    "stream:item:index-order", "stream:item:output-equals-done", "stream:mixed:order"
)
async def test_items_of_all_kinds_in_one_stream() -> None:
    answer = await streamed(
        Reasoning("Hm, ", chunks=2),
        Text("Let me look.", chunks=3),
        Call("get_weather", {"city": "Oslo"}, split=3),
        Call("run", {"input": "print(1)"}, split=3),
        tools=[WEATHER, RUN],
    )
    assert [
        (e["output_index"], e["item"]["type"]) for e in answer.of_type("output_item.added")
    ] == [
        (0, "reasoning"),
        (1, "message"),
        (2, "function_call"),
        (3, "custom_tool_call"),
    ]
    done = {e["output_index"]: e["item"] for e in answer.of_type("output_item.done")}
    assert answer.response["output"] == [done[i] for i in range(4)]


@pytest.mark.requirement("stream:mixed:order")
async def test_text_between_fragments_of_calls_keeps_every_rule() -> None:
    steps: list[Any] = [
        Text("One two three", chunks=3),
        Call("get_weather", {"city": "Oslo"}, split=4),
        Call("get_time", {"city": "Rome"}, split=4),
    ]
    answer = await streamed(Interleave(steps), tools=[WEATHER, TIME])
    calls = [item for item in answer.response["output"] if item["type"] == "function_call"]
    assert [call["arguments"] for call in calls] == ['{"city":"Oslo"}', '{"city":"Rome"}']


# --- items


@pytest.mark.requirement(
    "stream:item:added-first", "stream:item:added-fields", "stream:item:done-last"
)
async def test_items_are_added_with_empty_values() -> None:
    answer = await streamed(
        Reasoning("Hm."),
        "Look.",
        Call("get_weather", {"city": "Oslo"}, id="call_1"),
        Call("run", {"input": "1"}, id="call_2"),
        tools=[WEATHER, RUN],
    )
    added = [dict(event["item"]) for event in answer.of_type("output_item.added")]
    for item in added:
        del item["id"]
    assert added == [
        {"type": "reasoning", "summary": []},
        {"type": "message", "status": "in_progress", "role": "assistant", "content": []},
        {
            "type": "function_call",
            "status": "in_progress",
            "call_id": "call_1",
            "name": "get_weather",
            "arguments": "",
        },
        {
            "type": "custom_tool_call",
            "status": "in_progress",
            "call_id": "call_2",
            "name": "run",
            "input": "",
        },
    ]
    for index in range(4):
        types = order(answer, index)
        assert (types[0], types[-1]) == ("output_item.added", "output_item.done")
        assert types.count("output_item.done") == 1


@pytest.mark.requirement("stream:text:order", "stream:text:parts", "stream:item:done-whole")
async def test_text() -> None:
    answer = await streamed(Text("Hello there", chunks=4))
    assert order(answer, 0) == TEXT
    deltas = answer.of_type("output_text.delta")
    assert len(deltas) == 4
    assert "".join(event["delta"] for event in deltas) == "Hello there"
    (done,) = answer.of_type("output_text.done")
    (part,) = answer.of_type("content_part.done")
    (item,) = answer.of_type("output_item.done")
    assert done["text"] == "Hello there"
    assert part["part"] == {
        "type": "output_text",
        "text": "Hello there",
        "annotations": [],
        "logprobs": [],
    }
    assert item["item"]["content"] == [part["part"]]
    assert item["item"]["status"] == "completed"


@pytest.mark.requirement("stream:deltas:not-empty")
async def test_empty_fragments_make_no_events() -> None:
    thinking = {"type": "thinking", "thinking": [{"type": "text", "text": ""}]}
    nothing = {"content": [thinking, {"type": "text", "text": ""}]}
    empty = {"content": "", "reasoning_content": "", "refusal": "", "tool_calls": []}
    answer = await streamed(Delta(nothing), Delta(empty), "Hi", Delta(nothing), Delta(empty))
    assert answer.types == ["created", "in_progress", *TEXT, "completed"]


@pytest.mark.requirement("stream:text:logprobs")
async def test_text_events_carry_a_list_of_logprobs() -> None:
    answer = await streamed(Text("Hello there", chunks=2))
    for event in (*answer.of_type("output_text.delta"), *answer.of_type("output_text.done")):
        assert event["logprobs"] == []


@pytest.mark.requirement("stream:text:annotations")
async def test_annotations_come_between_deltas() -> None:
    cited = {"type": "url_citation", "url_citation": {"url": "https://a.example", "title": "A"}}
    answer = await streamed("See ", Delta({"annotations": [cited]}), "this.")
    assert order(answer, 0) == [
        *TEXT[:3],
        "output_text.annotation.added",
        *TEXT[2:],
    ]
    (event,) = answer.of_type("output_text.annotation.added")
    assert (event["content_index"], event["annotation_index"]) == (0, 0)
    note = {"type": "url_citation", "url": "https://a.example", "title": "A"}
    note |= {"start_index": 0, "end_index": 0}
    assert event["annotation"] == note
    assert answer.response["output"][0]["content"][0]["annotations"] == [note]


@pytest.mark.requirement("stream:refusal:order")
async def test_a_refusal() -> None:
    answer = await streamed(Refusal("I cannot do that.", chunks=3))
    assert order(answer, 0) == [
        "output_item.added",
        "content_part.added",
        "refusal.delta",
        "refusal.done",
        "content_part.done",
        "output_item.done",
    ]
    assert answer.response["status"] == "completed"
    assert answer.response["output"][0]["content"] == [
        {"type": "refusal", "refusal": "I cannot do that."}
    ]


@pytest.mark.requirement("stream:text:several-parts")
async def test_text_and_refusal_are_parts_of_one_message() -> None:
    answer = await streamed("Well, ", Refusal("no."))
    assert [e["content_index"] for e in answer.of_type("content_part.added")] == [0, 1]
    assert [e["content_index"] for e in answer.of_type("content_part.done")] == [0, 1]
    (message,) = answer.response["output"]
    assert [part["type"] for part in message["content"]] == ["output_text", "refusal"]


# --- reasoning


@pytest.mark.requirement("stream:reasoning:raw")
@pytest.mark.parametrize("field", ["reasoning_content", "reasoning", "reasoning_text", "both"])
async def test_raw_reasoning(field: Any) -> None:
    answer = await streamed(Reasoning("Let me think.", chunks=3, field=field), "Yes.")
    assert order(answer, 0) == [
        "output_item.added",
        "content_part.added",
        "reasoning_text.delta",
        "reasoning_text.done",
        "content_part.done",
        "output_item.done",
    ]
    item = answer.response["output"][0]
    assert item["summary"] == []
    assert item["content"] == [{"type": "reasoning_text", "text": "Let me think."}]
    assert "encrypted_content" not in item


@pytest.mark.requirement("stream:reasoning:summary", "request:reasoning:summary")
@pytest.mark.parametrize("summary", ["auto", "concise", "detailed"])
async def test_reasoning_as_a_summary_where_one_was_asked_for(summary: str) -> None:
    answer = await streamed(
        Reasoning("Let me think.", chunks=3), "Yes.", reasoning={"summary": summary}
    )
    assert order(answer, 0) == [
        "output_item.added",
        "reasoning_summary_part.added",
        "reasoning_summary_text.delta",
        "reasoning_summary_text.done",
        "reasoning_summary_part.done",
        "output_item.done",
    ]
    item = answer.response["output"][0]
    assert item["summary"] == [{"type": "summary_text", "text": "Let me think."}]
    assert "content" not in item
    assert answer.response["reasoning"]["summary"] == summary


@pytest.mark.requirement("stream:reasoning:before-text")
async def test_reasoning_is_done_before_text_begins() -> None:
    answer = await streamed(Reasoning("Hm.", chunks=2), "Yes.")
    types = answer.types
    assert types.index("output_item.done") < types.index(
        "content_part.added", types.index("output_item.done")
    )
    assert [item["type"] for item in answer.response["output"]] == ["reasoning", "message"]


# --- calls


@pytest.mark.requirement("stream:function:order")
async def test_a_function_call() -> None:
    answer = await streamed(
        Call("get_weather", {"city": "Oslo"}, id="call_1", split=4), tools=[WEATHER]
    )
    assert order(answer, 0) == [
        "output_item.added",
        "function_call_arguments.delta",
        "function_call_arguments.done",
        "output_item.done",
    ]
    deltas = answer.of_type("function_call_arguments.delta")
    assert len(deltas) == 4
    assert all("name" not in event for event in deltas)
    (done,) = answer.of_type("function_call_arguments.done")
    assert done["arguments"] == '{"city":"Oslo"}' == "".join(e["delta"] for e in deltas)
    assert "name" not in done


@pytest.mark.requirement("stream:function:order")
async def test_a_call_without_arguments_is_called_with_an_empty_object() -> None:
    answer = await streamed(Call("get_weather", ""), tools=[WEATHER])
    assert answer.response["output"][0]["arguments"] == "{}"


@pytest.mark.requirement("stream:function:parallel")
@pytest.mark.parametrize("interleaved", [False, True])
async def test_parallel_calls(interleaved: bool) -> None:
    calls: list[Any] = [
        Call("get_weather", {"city": "Oslo"}, id="call_1", split=3),
        Call("get_weather", {"city": "Rome"}, id="call_2", split=3),
        Call("get_time", {"city": "Rome"}, id="call_3", split=3),
    ]
    steps = [Interleave(calls)] if interleaved else calls
    answer = await streamed(*steps, tools=[WEATHER, TIME])
    assert [(i["call_id"], i["name"], i["arguments"]) for i in answer.response["output"]] == [
        ("call_1", "get_weather", '{"city":"Oslo"}'),
        ("call_2", "get_weather", '{"city":"Rome"}'),
        ("call_3", "get_time", '{"city":"Rome"}'),
    ]


@pytest.mark.requirement("stream:custom:order")
async def test_a_custom_call_streams_its_text() -> None:
    text = 'print("å\\n")\n# \U0001f600'
    answer = await streamed(Call("run", {"input": text}, split=7), tools=[RUN])
    assert order(answer, 0) == [
        "output_item.added",
        "custom_tool_call_input.delta",
        "custom_tool_call_input.done",
        "output_item.done",
    ]
    (done,) = answer.of_type("custom_tool_call_input.done")
    assert done["input"] == text == answer.response["output"][0]["input"]
    assert len(answer.of_type("custom_tool_call_input.delta")) > 1


# --- cut short


@pytest.mark.requirement(
    "stream:truncated:text", "item:incomplete:last", "response:incomplete:max-output-tokens"
)
async def test_truncated_text() -> None:
    answer = await streamed(Text("Once upon", chunks=2), Finish("length"))
    assert answer.types[-4:] == [
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "incomplete",
    ]
    assert answer.response["status"] == "incomplete"
    assert answer.response["incomplete_details"] == {"reason": "max_output_tokens"}
    assert answer.response["output"][0]["status"] == "incomplete"


@pytest.mark.requirement("response:incomplete:content-filter")
async def test_filtered_text() -> None:
    answer = await streamed("Once", Finish("content_filter"))
    assert answer.response["incomplete_details"] == {"reason": "content_filter"}
    assert answer.response["output"][0]["status"] == "incomplete"


@pytest.mark.requirement("stream:truncated:reasoning", "item:incomplete:last")
@pytest.mark.parametrize("summary", [None, "auto"])
async def test_truncated_reasoning(summary: str | None) -> None:
    answer = await streamed(Reasoning("Hm, "), Finish("length"), reasoning={"summary": summary})
    assert answer.response["status"] == "incomplete"
    (item,) = answer.response["output"]
    assert item["status"] == "incomplete"


@pytest.mark.requirement("stream:truncated:call", "item:incomplete:last")
@pytest.mark.parametrize("whole", ['{"city":"Os', '{"input":"pri'])
async def test_a_truncated_call_is_shown_as_far_as_it_came(whole: str) -> None:
    name = "run" if "input" in whole else "get_weather"
    answer = await streamed(
        "Look.", Call(name, whole, split=2), Finish("length"), tools=[WEATHER, RUN]
    )
    message, call = answer.response["output"]
    assert (message["status"], call["status"]) == ("completed", "incomplete")
    assert call.get("arguments", call.get("input")) in ('{"city":"Os', "pri")
    assert answer.response["incomplete_details"] == {"reason": "max_output_tokens"}
