"""The checks themselves: a stream that breaks a rule does not pass."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from bascule.testing import Call, Reasoning, Reply, StreamError, Text
from tests.conformance.asking import RUN, WEATHER, gateway
from tests.conformance.schema import DIFFERENCES, check_event, check_response
from tests.conformance.stream import check_stream
from tests.serving import Answer

pytestmark = pytest.mark.anyio

Json = dict[str, Any]
Break = Callable[[list[Json]], Any]


async def recorded(*steps: Any) -> Answer:
    async with gateway(Reply(*steps)) as (api, _):
        answer = await api.create(stream=True, tools=[WEATHER, RUN])
    check_stream(answer)
    return answer


def rebuilt(answer: Answer, events: list[Json]) -> Answer:
    """The same answer with other events, numbered anew where they were numbered without gaps."""
    body = b"".join(
        b"event: %b\ndata: %b\n\n" % (event["type"].encode(), msgspec.json.encode(event))
        for event in events
    )
    return Answer(answer.status, answer.headers, body, [body])


def numbered(events: list[Json]) -> list[Json]:
    for number, event in enumerate(events):
        event["sequence_number"] = number
    return events


def first(events: list[Json], type_: str) -> Json:
    return next(event for event in events if event["type"] == f"response.{type_}")


def without(type_: str) -> Break:
    return lambda events: events.remove(first(events, type_))


def twice(type_: str) -> Break:
    def change(events: list[Json]) -> None:
        event = first(events, type_)
        events.insert(events.index(event), dict(event))

    return change


def changed(type_: str, **members: Any) -> Break:
    return lambda events: first(events, type_).update(members)


def failed(events: list[Json]) -> None:
    events[-1]["type"] = "response.failed"


def last_first(events: list[Json]) -> None:
    events.insert(2, events.pop())


def swapped(events: list[Json]) -> None:
    events[0], events[1] = events[1], events[0]


def renamed(events: list[Json]) -> None:
    first(events, "output_item.done")["item"]["id"] = "msg_other"


BREAKS: dict[str, Break] = {
    "swapped beginning": swapped,
    "no created": without("created"),
    "terminal event within": last_first,
    "a failure": failed,
    "no terminal event": lambda events: events.pop(),
    "two terminal events": twice("completed"),
    "no item added": without("output_item.added"),
    "item added twice": twice("output_item.added"),
    "no item done": without("output_item.done"),
    "item done twice": twice("output_item.done"),
    "item of another id": renamed,
    "no part added": without("content_part.added"),
    "part added twice": twice("content_part.added"),
    "no part done": without("content_part.done"),
    "no text done": without("output_text.done"),
    "a delta lost": without("output_text.delta"),
    "a delta twice": twice("output_text.delta"),
    "text that differs": changed("output_text.done", text="Other"),
    "part that differs": changed(
        "content_part.done", part={"type": "output_text", "text": "x", "annotations": []}
    ),
    "delta of another item": changed("output_text.delta", item_id="msg_other"),
    "delta of another part": changed("output_text.delta", content_index=1),
    "a fragment of arguments lost": without("function_call_arguments.delta"),
    "no arguments done": without("function_call_arguments.done"),
    "a fragment of input lost": without("custom_tool_call_input.delta"),
    "a fragment of reasoning lost": without("reasoning_text.delta"),
    "an unknown event": changed("output_text.delta", type="response.other.delta"),
    "a member of a wrong type": changed("output_text.delta", delta=7),
    "no output": lambda events: events[-1]["response"].update(output=[]),
    "an error in a completed response": lambda events: events[-1]["response"].update(
        error={"code": "x", "message": "x"}
    ),
}


@pytest.mark.parametrize("name", BREAKS)
async def test_a_broken_stream_does_not_pass(name: str) -> None:
    answer = await recorded(
        Text("Hello there", chunks=3),
        Reasoning("Hm, well", chunks=2),
        Call("get_weather", {"city": "Oslo"}, split=3),
        Call("run", {"input": "print(1)"}, split=3),
    )
    events = answer.events
    check_stream(rebuilt(answer, events))
    BREAKS[name](events)
    with pytest.raises((AssertionError, IndexError)):
        check_stream(rebuilt(answer, numbered(events)))


@pytest.mark.parametrize("step", [1, 0, -1])
async def test_numbers_that_jump_do_not_pass(step: int) -> None:
    answer = await recorded("Hi")
    events = answer.events
    for event in events[3:] if step else events[:1]:
        event["sequence_number"] += step or 1
    with pytest.raises(AssertionError):
        check_stream(rebuilt(answer, events))


async def test_an_error_must_come_right_before_the_failure() -> None:
    async with gateway(Reply("Hi", StreamError())) as (api, _):
        answer = await api.create(stream=True)
    check_stream(answer, fails=True)
    events = answer.events
    del events[-2]
    with pytest.raises(AssertionError):
        check_stream(rebuilt(answer, numbered(events)), fails=True)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"event: response.created", b"event: response.other"),
        (b"event: response.created\n", b"id: 1\nevent: response.created\n"),
        (b"\n\nevent", b"\r\n\r\nevent"),
    ],
)
async def test_frames_of_another_form_do_not_pass(old: bytes, new: bytes) -> None:
    answer = await recorded("Hi")
    answer.body = answer.body.replace(old, new)
    with pytest.raises((AssertionError, StopIteration, ValueError)):
        check_stream(answer)


async def test_an_event_in_two_writes_does_not_pass() -> None:
    answer = await recorded("Hi")
    answer.writes = [answer.body[:100], answer.body[100:]]
    with pytest.raises(AssertionError, match="two pieces"):
        check_stream(answer)


async def test_a_response_without_a_key_does_not_pass() -> None:
    answer = await recorded("Hi")
    for key in answer.response:
        response = dict(answer.response)
        del response[key]
        with pytest.raises((AssertionError, KeyError)):
            check_response(response)


def test_differences_are_needed() -> None:
    event = {"type": "response.reasoning_text.delta", "delta": 7, "sequence_number": 0}
    with pytest.raises(AssertionError):
        check_event({**event, "item_id": "rs_1", "output_index": 0, "content_index": 0})
    names = [difference.name for difference in DIFFERENCES]
    assert len(set(names)) == len(names)
    assert all(difference.reason for difference in DIFFERENCES)
