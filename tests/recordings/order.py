"""The order of each item's events, in a form in which two streams can be compared."""

from itertools import groupby
from typing import Any

Json = dict[str, Any]

RAW_REASONING_PARTS = (
    "servers other than OpenAI put a part around raw reasoning text, of two different names"
)
ONE_SUMMARY = "a Chat server does not tell the parts of a summary apart"
EMPTY_TEXT = "a recorded text without any delta"

_PART_EVENTS = frozenset(
    {"content_part.added", "content_part.done", "reasoning_part.added", "reasoning_part.done"}
)
_SUMMARY = [
    "reasoning_summary_part.added",
    "reasoning_summary_text.delta",
    "reasoning_summary_text.done",
    "reasoning_summary_part.done",
]


def orders(events: list[Json]) -> dict[int, list[str]]:
    """For each output index its events' types, repeats collapsed."""
    found: dict[int, list[str]] = {}
    for event in events:
        if "output_index" in event:
            type_ = event["type"].removeprefix("response.")
            found.setdefault(event["output_index"], []).append(type_)
    return {index: [type_ for type_, _ in groupby(types)] for index, types in found.items()}


def comparable(types: list[str], item: Json) -> tuple[list[str], list[str]]:
    """The order without what cannot be compared, and the reasons for what was left out."""
    reasons: list[str] = []
    if item["type"] == "reasoning":
        without = [type_ for type_ in types if type_ not in _PART_EVENTS]
        if without != types:
            reasons.append(RAW_REASONING_PARTS)
        types = without
        once = _one_summary(types)
        if once != types:
            reasons.append(ONE_SUMMARY)
        types = once
    return types, reasons


def _one_summary(types: list[str]) -> list[str]:
    if types.count(_SUMMARY[0]) < 2:
        return types
    assert types[1:-1] == _SUMMARY * types.count(_SUMMARY[0]), types
    return [types[0], *_SUMMARY, types[-1]]
