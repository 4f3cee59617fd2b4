"""Which keys an object must have because the recorded one had them.

`RECORDED_ONLY` lists the keys of OpenAI's that Bascule does not give, each with its reason. One that no
recording has any more is stale and fails a run of all tests.
"""

from collections.abc import Iterator
from typing import Any

Json = dict[str, Any]

_PLATFORM = "belongs to OpenAI's or Azure's platform, not to the protocol"

RECORDED_ONLY: dict[str, str] = {
    "response.billing": _PLATFORM,
    "response.moderation": _PLATFORM,
    "response.content_filters": _PLATFORM,
    "response.tool_usage": "what OpenAI bills for its tools; here metrics count the searches",
    "response.input": "a key of one hand-made fixture",
    "message.phase": "models of OpenAI's say it; a Chat server has no place for it",
    "reasoning.encrypted_content": "given when `include` asks for it, which the newest models do not need",
    "reasoning.context": "a newer option than this scope has",
    "reasoning.mode": "a newer option than this scope has",
    "reasoning.generate_summary": "an old name of `summary`",
}

_met: set[str] = set()


def missing(place: str, recorded: Json, ours: Json) -> list[str]:
    """Recorded keys that are neither in ours nor in the list; `place` says what the object is."""
    lacking = [f"{place}.{key}" for key in recorded if key not in ours]
    _met.update(name for name in lacking if name in RECORDED_ONLY)
    return [name for name in lacking if name not in RECORDED_ONLY]


def stale() -> list[str]:
    return [
        f"no recording has the key {name}, which is listed as OpenAI's own"
        for name in RECORDED_ONLY
        if name not in _met
    ]


def response_keys(recorded: Json, ours: Json) -> list[str]:
    """Missing keys of a response, its nested objects, its echoed tools and its items."""
    found = missing("response", recorded, ours)
    for name in ("reasoning", "text", "usage", "incomplete_details"):
        if isinstance(recorded.get(name), dict):
            found += missing(name, recorded[name], ours[name] or {})
    # One recording calls a tool that its echo does not have; ours declares it.
    for theirs, mine in zip(recorded.get("tools") or ours["tools"], ours["tools"], strict=True):
        found += missing(f"{theirs['type']} tool", theirs, mine)
    return found


def item_keys(recorded: Json, ours: Json) -> list[str]:
    """Missing keys of an item and its parts."""
    found = missing(recorded["type"], recorded, ours)
    for theirs, mine in _pairs(recorded.get("content"), ours.get("content")):
        found += missing(theirs["type"], theirs, mine)
    return found


def _pairs(recorded: list[Json] | None, ours: list[Json] | None) -> Iterator[tuple[Json, Json]]:
    yield from zip(recorded or (), ours or (), strict=False)


def event_keys(recorded: list[Json], ours: list[Json]) -> list[str]:
    """Missing keys of events, by their type; items and responses inside are compared elsewhere."""
    mine = {event["type"]: event for event in ours}
    found: list[str] = []
    for event in recorded:
        if event["type"] in mine:
            found += missing(event["type"], event, mine[event["type"]])
    return sorted(set(found))
