"""Answers of a model server that speaks Responses, made of whole items."""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from bascule.testing.answer import Answer, Reply, Wire, http_json
from bascule.testing.request import Request
from bascule.testing.steps import Data, Eof, Json

_USAGE: Json = {
    "input_tokens": 12,
    "input_tokens_details": {"cached_tokens": 0},
    "output_tokens": 7,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 19,
}


def responded(
    *items: Json, status: str = "completed", usage: Json = _USAGE, **members: Any
) -> Callable[[Request], Answer]:
    """A script that answers with these items, as a stream or whole, as it is asked. `members` are
    further ones of the response."""

    def answer(request: Request) -> Answer:
        if not request.stream:
            return http_json(200, _response(status, items, usage, members))
        events = responses_events(*items, status=status, usage=usage, **members)
        steps = [Data(msgspec.json.encode(e).decode(), e["type"]) for e in events]
        return Reply(*steps, Eof(), wire=Wire(answer="sse"))

    return answer


def responses_events(
    *items: Json, status: str = "completed", usage: Json = _USAGE, **members: Any
) -> list[Json]:
    """The events of such a stream, numbered from 0. Texts and arguments come in two deltas."""
    begun = _response("in_progress", (), None, members)
    events: list[Json] = [
        {"type": "response.created", "response": begun},
        {"type": "response.in_progress", "response": begun},
    ]
    for index, item in enumerate(items):
        events += _life(index, item)
    ended = _response(status, items, usage, members)
    events.append({"type": f"response.{status}", "response": ended})
    return [{**event, "sequence_number": number} for number, event in enumerate(events)]


def _response(status: str, output: Sequence[Json], usage: Json | None, members: Json) -> Json:
    return {
        "id": "resp_upstream",
        "object": "response",
        "created_at": 1_750_000_000,
        "status": status,
        "error": None,
        "incomplete_details": None,
        "model": "mock-model",
        "output": list(output),
        "usage": usage,
        **members,
    }


def _life(index: int, item: Json) -> list[Json]:
    place = {"output_index": index}
    about = {**place, "item_id": item.get("id", "")}
    begun, inner = _parts(item, about)
    added = {**item, **begun}
    if "status" in item:
        added["status"] = "in_progress"
    return [
        {"type": "response.output_item.added", **place, "item": added},
        *inner,
        {"type": "response.output_item.done", **place, "item": item},
    ]


def _parts(item: Json, about: Json) -> tuple[Json, list[Json]]:
    """What of the item is empty at first, and the events that fill it."""
    match item["type"]:
        case "message":
            events = [e for i, part in enumerate(item["content"]) for e in _text(i, part, about)]
            return {"content": []}, events
        case "function_call":
            call = _written("function_call_arguments", "arguments", item["arguments"], about)
            return {"arguments": ""}, call
        case "custom_tool_call":
            return {"input": ""}, _written("custom_tool_call_input", "input", item["input"], about)
        case _:
            return {}, []


def _text(index: int, part: Json, about: Json) -> list[Json]:
    at = {**about, "content_index": index}
    member = "refusal" if part["type"] == "refusal" else "text"
    return [
        {"type": "response.content_part.added", **at, "part": {**part, member: ""}},
        *_written(part["type"], member, part[member], at),
        {"type": "response.content_part.done", **at, "part": part},
    ]


def _written(family: str, member: str, text: str, at: Json) -> list[Json]:
    half = len(text) // 2
    pieces = [piece for piece in (text[:half], text[half:]) if piece]
    deltas = [{"type": f"response.{family}.delta", **at, "delta": piece} for piece in pieces]
    return [*deltas, {"type": f"response.{family}.done", **at, member: text}]
