"""`truncation: auto`: the oldest items go when a history does not fit the model's context."""

from collections.abc import Sequence
from typing import Final

from bascule.engine.sinks import Notes
from bascule.protocols import json
from bascule.protocols.responses.items import (
    Flat,
    FunctionCall,
    FunctionCallOutput,
    Message,
    Part,
)
from bascule.protocols.responses.request import TurnRequest
from bascule.upstreams.target import Target

_BYTES_PER_TOKEN: Final = 3
"""Fewer than most tokenizers need: a history that is cut a little early is better than a refusal."""
_MEDIA_TOKENS: Final = 1500
"""An image's price does not depend on the length of its base64."""
_PER_ITEM: Final = 8
_ANSWER: Final = 1024
"""Tokens left for the answer when the request does not say how many it may have."""


def fitted(
    items: list[Flat], request: TurnRequest, target: Target, tools: bytes, notes: Notes | None
) -> list[Flat]:
    """A round's history, without its oldest items where the request lets them go and they must.

    `notes`, while the client can still be told, hears of what was left out, and of a model whose
    context length is not known.
    """
    if request.truncation != "auto" or target.surface.items:
        return items  # a server that speaks Responses is told of it
    if target.context_length is None:
        if notes is not None:
            notes.ignored.append("truncation")
        return items
    fixed = len(tools) + len((request.instructions or "").encode("utf-8", "replace"))
    kept, gone = fit(items, target.context_length, fixed=fixed, answer=request.max_output_tokens)
    if gone and notes is not None:
        notes.warnings.append(f"{gone} of the oldest items were left out to fit the model")
    return kept


def fit(
    items: Sequence[Flat], context_length: int, *, fixed: int, answer: int | None
) -> tuple[list[Flat], int]:
    """The items that fit, in order, and how many were left out.

    `fixed` are the bytes of what goes with them (instructions, tools), `answer` the tokens that the
    answer may take. System and developer messages stay, and so does the most recent turn: all from the
    last user message on. A call and its output go together. Tokens are estimated.
    """
    room = context_length - (_ANSWER if answer is None else answer) - fixed // _BYTES_PER_TOKEN
    sizes = [_tokens(item) for item in items]
    excess = sum(sizes) - room
    if excess <= 0:
        return list(items), 0
    gone: set[int] = set()
    for unit in _units(items):
        if excess <= 0 and _begins_a_turn(items, unit):
            break
        gone.update(unit)
        excess -= sum(sizes[i] for i in unit)
    return [item for i, item in enumerate(items) if i not in gone], len(gone)


def _begins_a_turn(items: Sequence[Flat], unit: Sequence[int]) -> bool:
    """What is left begins with the user's words: many chat templates want that."""
    first = items[unit[0]]
    return isinstance(first, Message) and first.role == "user"


def _units(items: Sequence[Flat]) -> list[list[int]]:
    """What may go, oldest first, in pieces that only go as a whole."""
    units: list[list[int]] = []
    calls: dict[str, list[int]] = {}
    unit: list[int] = []
    joined = False  # the unit goes on with the next item
    for i in range(_last_turn(items)):
        item = items[i]
        if isinstance(item, Message) and item.role in ("system", "developer"):
            continue
        if isinstance(item, FunctionCallOutput):
            calls.get(item.call_id, unit).append(i)
            continue
        if not joined:
            unit = []
            units.append(unit)
        unit.append(i)
        joined = not isinstance(item, (Message, FunctionCall))  # reasoning belongs to what follows
        if isinstance(item, FunctionCall):
            calls[item.call_id] = unit
    return units


def _last_turn(items: Sequence[Flat]) -> int:
    """Where the most recent turn begins. Calls that are answered in it belong to it."""
    start = 0
    for i, item in enumerate(items):
        if isinstance(item, Message) and item.role == "user":
            start = i
    late = {item.call_id for item in items[start:] if isinstance(item, FunctionCallOutput)}
    for i in range(start):
        item = items[i]
        if isinstance(item, FunctionCall) and item.call_id in late:
            return i
    return start


def _tokens(item: Flat) -> int:
    if isinstance(item, FunctionCall):
        return _PER_ITEM + _of_text(item.name) + _of_text(item.arguments)
    if isinstance(item, Message):
        return _PER_ITEM + _of_content(item.content)
    if isinstance(item, FunctionCallOutput):
        return _PER_ITEM + _of_content(item.output)
    return _PER_ITEM + len(json.encode(item)) // _BYTES_PER_TOKEN


def _of_content(content: str | Sequence[Part]) -> int:
    if isinstance(content, str):
        return _of_text(content)
    return sum(
        _of_text(part.text or part.refusal or "") if _is_text(part) else _MEDIA_TOKENS
        for part in content
    )


def _is_text(part: Part) -> bool:
    return part.text is not None or part.refusal is not None


def _of_text(text: str) -> int:
    return -(-len(text.encode("utf-8", "replace")) // _BYTES_PER_TOKEN)
