"""`check_stream`: everything that holds for every stream, whatever it is about."""

from itertools import pairwise
from typing import Any

from tests.conformance.items import ItemStory
from tests.conformance.schema import check_event, check_response
from tests.serving import Answer

Json = dict[str, Any]

TERMINAL = frozenset({"response.completed", "response.incomplete", "response.failed"})
_CHANGING = frozenset(
    {"status", "completed_at", "error", "incomplete_details", "output", "usage", "service_tier"}
)
_ONE_READ = 16 * 1024
"""A longer event may reach a reader in pieces although it was written at once."""


def check_stream(answer: Answer, *, done: bool = False, fails: bool = False) -> Json:
    """Hold a stream to the protocol, and give the response of its terminal event.

    `done` says that a last `[DONE]` is expected, `fails` that it ends in `response.failed`. Raises
    AssertionError.
    """
    _check_head(answer)
    _check_frames(answer, done)
    _check_writes(answer)
    events = answer.events
    for event in events:
        check_event(event)
    _check_sequence(events)
    _check_lifecycle(events)
    items = _check_items(events)
    response = events[-1]["response"]
    assert (response["status"] == "failed") == fails, response["error"]
    _check_output(response, items)
    return response


def check_answer(answer: Answer) -> Json:
    """Hold a whole answer to the protocol, and give its response."""
    assert answer.status == 200, answer.body
    assert answer.headers["content-type"] == "application/json"
    response = answer.json
    check_response(response)
    assert response["status"] in ("completed", "incomplete", "failed")
    _check_statuses(response)
    return response


# --- the wire


def _check_head(answer: Answer) -> None:
    assert answer.status == 200, answer.body
    assert answer.headers["content-type"].split(";")[0] == "text/event-stream"


def _check_frames(answer: Answer, done: bool) -> None:
    body = answer.body
    assert body.endswith(b"\n\n"), "the stream does not end with a whole event"
    assert b"\r" not in body, "line ends are LF"
    for line in body.split(b"\n"):
        assert not line.startswith((b"id:", b"retry:")), line
    marks = [data for _, data in answer.frames if data == "[DONE]"]
    assert marks == (["[DONE]"] if done else [])
    assert not done or answer.frames[-1][1] == "[DONE]"
    for name, data in answer.frames:
        if data != "[DONE]":
            assert name == data["type"], f"event line {name!r}, type {data['type']!r}"


def _check_writes(answer: Answer) -> None:
    for before, after in pairwise(answer.writes):
        event = before.rpartition(b"\n\n")[2] + after.partition(b"\n\n")[0]
        whole = before.endswith(b"\n\n")
        assert whole or len(event) > _ONE_READ, f"an event came in two pieces: {event[:200]!r}"


# --- the order of the response's events


def _check_sequence(events: list[Json]) -> None:
    numbers = [event["sequence_number"] for event in events]
    assert numbers == list(range(len(events))), numbers


def _check_lifecycle(events: list[Json]) -> None:
    types = [event["type"] for event in events]
    assert types[:2] == ["response.created", "response.in_progress"], types[:2]
    assert types[-1] in TERMINAL, types[-1]
    assert not TERMINAL & set(types[:-1]), "an event follows the terminal one"
    if "error" in types:
        assert types[-2:] == ["error", "response.failed"], types[-3:]
        assert types.count("error") == 1
    _check_snapshots([event["response"] for event in events if "response" in event])
    if types[-1] == "response.failed":
        _check_failure(events)


def _check_snapshots(snapshots: list[Json]) -> None:
    for snapshot in snapshots:
        check_response(snapshot)
        first = snapshots[0]
        for key in first.keys() - _CHANGING:
            assert snapshot[key] == first[key], f"'{key}' changed within the stream"
    for snapshot in snapshots[:2]:
        assert snapshot["status"] == "in_progress"
        assert snapshot["output"] == []
    _check_statuses(snapshots[-1])


def _check_statuses(response: Json) -> None:
    """Only the last item may be incomplete, and only in a response that is not completed."""
    statuses = [item.get("status", "completed") for item in response["output"]]
    allowed = {"completed"} if response["status"] == "completed" else {"completed", "incomplete"}
    assert set(statuses) <= allowed, (response["status"], statuses)
    assert "incomplete" not in statuses[:-1], statuses


def _check_failure(events: list[Json]) -> None:
    assert events[-2]["type"] == "error", "a failed stream says why before it ends"
    error, failed = events[-2]["error"], events[-1]["response"]["error"]
    assert failed["message"] == error["message"]
    assert failed["code"] == (error["code"] or "server_error")


# --- the items


def _check_items(events: list[Json]) -> list[Json]:
    """Follow each item through its events; gives the finished ones in the order of their index."""
    stories: list[ItemStory] = []
    for event in events:
        if event["type"] == "response.output_item.added":
            assert event["output_index"] == len(stories), "items are added in the order of index"
            stories.append(ItemStory(event["item"]))
        elif "output_index" in event:
            stories[event["output_index"]].take(event)
    ids = [story.id for story in stories]
    assert len(set(ids)) == len(ids), f"an item id stands for two items: {ids}"
    for story in stories:
        assert story.finished is not None, f"{story.type} {story.id} never ended"
    return [story.finished for story in stories if story.finished is not None]


def _check_output(response: Json, items: list[Json]) -> None:
    assert response["output"] == items, "the final output differs from the finished items"
