"""What must hold for every stream of item events, whoever made it."""

from collections import defaultdict
from typing import Any

Event = dict[str, Any]

_PARTS = {
    "content_part": "content_index",
    "reasoning_summary_part": "summary_index",
}
_TEXTS = {
    # name of the family: the member that its `done` carries
    "output_text": "text",
    "refusal": "refusal",
    "reasoning_text": "text",
    "reasoning_summary_text": "text",
    "function_call_arguments": "arguments",
    "custom_tool_call_input": "input",
}


def check_items(events: list[Event]) -> list[Any]:
    """Added first, done last, indexes without gaps, deltas concatenate to their `done` and that is in
    the item. Returns the finished items by index; an item that stays open is a fault."""
    opened: dict[int, Any] = {}
    done: dict[int, Any] = {}
    deltas: dict[tuple[int, str, int], list[str]] = defaultdict(list)
    texts: dict[tuple[int, str, int], str] = {}
    parts: dict[tuple[int, str, int], str] = {}
    for event in events:
        kind = event["type"].removeprefix("response.")
        if "output_index" not in event:
            continue
        index = event["output_index"]
        if kind == "output_item.added":
            assert index == len(opened), "indexes count up from 0"
            opened[index] = event["item"]
            assert event["item"].get("status", "in_progress") == "in_progress"
            continue
        assert index in opened, f"{kind} before output_item.added"
        assert index not in done, f"{kind} after output_item.done"
        if kind == "output_item.done":
            done[index] = event["item"]
            assert event["item"]["type"] == opened[index]["type"]
            assert event["item"].get("id") == opened[index].get("id")
            assert event["item"].get("status", "completed") in ("completed", "incomplete", "failed")
            continue
        if not kind.startswith("shell_call_command."):  # which name no item, as recorded
            assert event["item_id"] == opened[index].get("id", "")
        family, _, step = kind.rpartition(".")
        at = event.get("content_index", event.get("summary_index", 0))
        key = (index, family, at)
        if family in _PARTS:
            assert parts.get(key) == ("added" if step == "done" else None)
            parts[key] = step
        elif step == "delta" and family in _TEXTS:
            assert event["delta"], "an empty delta says nothing"
            assert key not in texts, "a delta after its done"
            deltas[key].append(event["delta"])
        elif step == "done" and family in _TEXTS:
            texts[key] = event[_TEXTS[family]]
            assert "".join(deltas[key]) == texts[key]
    assert set(done) == set(opened), "an item was never closed"
    assert set(parts.values()) <= {"done"}, "a part was never closed"
    assert {key for key, pieces in deltas.items() if pieces} <= set(texts), (
        "a text without its done"
    )
    for (index, family, at), text in texts.items():
        assert _said(done[index], family, at) == text
    items = [done[index] for index in sorted(done)]
    for item in items:
        if item["type"] == "message":
            assert len(item["content"]) == sum(1 for i, _, _ in parts if items[i] is item)
    return items


def _said(item: Any, family: str, at: int) -> str:
    match family:
        case "output_text":
            return item["content"][at]["text"]
        case "refusal":
            return item["content"][at]["refusal"]
        case "reasoning_text":
            return item["content"][at]["text"]
        case "reasoning_summary_text":
            return item["summary"][at]["text"]
        case "function_call_arguments":
            return item["arguments"]
        case _:
            return item["input"]


TERMINAL = ("completed", "incomplete", "failed")


def check_stream(frames: list[tuple[str, Any]]) -> Any:
    """A whole public stream. Returns the final response."""
    if frames and frames[-1][1] == "[DONE]":
        frames = frames[:-1]
    events = [event for _, event in frames]
    assert [name for name, _ in frames] == [event["type"] for event in events]
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    kinds = [event["type"].removeprefix("response.") for event in events]
    assert kinds[:2] == ["created", "in_progress"]
    assert kinds[-1] in TERMINAL
    assert sum(kind in TERMINAL for kind in kinds) == 1
    response = events[-1]["response"]
    assert response["status"] == kinds[-1]
    assert len({event["response"]["id"] for event in events if "response" in event}) == 1
    items = check_items(events)
    assert response["output"] == items
    if "error" in kinds:
        assert kinds[-2:] == ["error", "failed"]
        told = events[-2]["error"]
        assert set(told) == {"type", "code", "message", "param"}
        assert response["error"]["message"] == told["message"]
        assert response["error"]["code"]
    else:
        assert kinds[-1] != "failed"
        assert response["error"] is None
    cut = [item for item in items if item.get("status") == "incomplete"]
    if cut:
        assert kinds[-1] != "completed", "an incomplete item in a completed response"
    if kinds[-1] == "incomplete":
        assert response["incomplete_details"]["reason"]
    ids = [item["id"] for item in items]
    assert len(set(ids)) == len(ids)
    call_ids = [item["call_id"] for item in items if "call_id" in item]
    assert len(set(call_ids)) == len(call_ids)
    return response
