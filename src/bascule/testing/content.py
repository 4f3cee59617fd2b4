"""Content steps as pieces of a stream and as parts of the whole message."""

from itertools import zip_longest
from typing import Any

import msgspec

from bascule.testing.dialect import Dialect, call_id
from bascule.testing.steps import (
    Call,
    Content,
    Delta,
    Fragments,
    Interleave,
    Json,
    Reasoning,
    Refusal,
    Split,
    Text,
    Together,
)


class Piece(msgspec.Struct):
    """One chunk's worth: the delta, and the choice's logprobs."""

    delta: Json
    logprobs: list[Json] | None = None


class Numbering:
    """Indexes and ids of the calls of one reply, in the order of its steps.

    Both renderings count alike, so that a call has the same id in the stream and in the whole answer.
    """

    def __init__(self, request: int, dialect: Dialect) -> None:
        self._request = request
        self._dialect = dialect
        self.count = 0

    def next(self, call: Call) -> tuple[int, str | None]:
        """The next call's index and its id, or None when it has none."""
        index = self.count
        self.count += 1
        if "id" in call.omit:
            return index, None
        if call.id is not None:
            return index, call.id
        return index, call_id(self._dialect.ids, self._request, index, joined(call.name))

    def layout(self, call: Call) -> str:
        return call.layout or self._dialect.layout


def joined(content: Fragments) -> str:
    """The whole of a fragmented text."""
    return content if isinstance(content, str) else "".join(content)


def fragments(content: Fragments, split: Split) -> list[str]:
    """The pieces of a text; given pieces stay as they are."""
    if not isinstance(content, str):
        return list(content)
    if split == "words":
        return _words(content)
    if len(content) < 2 or split < 2:
        return [content]
    size, more = divmod(len(content), min(split, len(content)))
    pieces: list[str] = []
    at = 0
    for number in range(min(split, len(content))):
        end = at + size + (number < more)
        pieces.append(content[at:end])
        at = end
    return pieces


def _words(content: str) -> list[str]:
    head, *rest = content.split(" ")
    return [piece for piece in (head, *(f" {word}" for word in rest)) if piece]


def arguments_of(call: Call) -> Fragments:
    """The arguments as text, or as the pieces given."""
    if isinstance(call.arguments, dict):
        return msgspec.json.encode(call.arguments).decode()
    return call.arguments


def pieces_of(step: Content, numbering: Numbering) -> list[Piece]:
    """The chunks that a content step makes in a stream."""
    match step:
        case Text():
            return [
                Piece({"content": text}, [_token(text)] if step.logprobs else None)
                for text in fragments(step.content, step.chunks)
            ]
        case Reasoning():
            return _reasoning_pieces(step)
        case Refusal():
            return [Piece({"refusal": text}) for text in fragments(step.content, step.chunks)]
        case Call():
            return _call_pieces(step, numbering)
        case Delta():
            return [Piece(dict(step.fields))]
        case Interleave():
            rows = zip_longest(*(pieces_of(inner, numbering) for inner in step.steps))
            return [piece for row in rows for piece in row if piece is not None]
        case Together():
            rows = zip_longest(*(pieces_of(inner, numbering) for inner in step.steps))
            return [_merged([piece for piece in row if piece is not None]) for row in rows]


def _token(text: str) -> Json:
    entry: Json = {"token": text, "logprob": -0.25, "bytes": list(text.encode())}
    return {**entry, "top_logprobs": [dict(entry)]}


def _reasoning_keys(step: Reasoning) -> tuple[str, ...]:
    return ("reasoning", "reasoning_content") if step.field == "both" else (step.field,)


def _reasoning_pieces(step: Reasoning) -> list[Piece]:
    keys = _reasoning_keys(step)
    texts = fragments(step.content, step.chunks) if step.content else []
    pieces = [Piece(dict.fromkeys(keys, text)) for text in texts]
    return pieces + [Piece({"reasoning_details": [detail]}) for detail in step.details]


def _merged(row: list[Piece]) -> Piece:
    merged = Piece({})
    for piece in row:
        calls = [*merged.delta.get("tool_calls", ()), *piece.delta.get("tool_calls", ())]
        merged.delta.update(piece.delta)
        if calls:
            merged.delta["tool_calls"] = calls
        if piece.logprobs:
            merged.logprobs = [*(merged.logprobs or ()), *piece.logprobs]
    return merged


def _call_pieces(call: Call, numbering: Numbering) -> list[Piece]:
    index, identity = numbering.next(call)
    layout = numbering.layout(call)
    names = fragments(call.name, 1)
    parts: list[Json] = [{"arguments": text} for text in fragments(arguments_of(call), call.split)]
    named: list[Json] = [{"name": name} for name in names]
    if layout == "name_first":
        named[-1]["arguments"] = ""
    elif layout == "joined":
        named[-1].update(parts.pop(0) if parts else {})
    functions = [*parts, *named] if layout == "name_last" else [*named, *parts]
    opener = len(parts) if layout == "name_last" else 0
    entries = [
        _entry(call, index, identity, function, _position(number, opener))
        for number, function in enumerate(functions)
    ]
    return [Piece({"tool_calls": [entry]}) for entry in entries]


def _position(number: int, opener: int) -> int:
    """Negative before the chunk that opens the call, 0 on it, positive after it."""
    return number - opener


def _entry(call: Call, index: int, identity: str | None, function: Json, position: int) -> Json:
    entry: Json = {} if "index" in call.omit else {"index": index}
    if position == 0:
        if identity is not None:
            entry["id"] = identity
        if "type" not in call.omit:
            entry["type"] = "function"
    elif position > 0:
        _later(entry, "id", call.later_id, identity)
        if "name" not in function:
            function = dict(function)
            _later(function, "name", call.later_name, joined(call.name))
    return {**entry, "function": function}


def _later(target: Json, key: str, manner: str, value: Any) -> None:
    if manner != "absent":
        target[key] = {"repeated": value, "empty": "", "null": None}[manner]


class Message:
    """The whole message that the content steps amount to."""

    def __init__(self, numbering: Numbering) -> None:
        self._numbering = numbering
        self._texts: dict[str, str] = {}
        self._details: list[Json] = []
        self._calls: list[Json] = []
        self._extra: Json = {}
        self.logprobs: list[Json] = []

    def add(self, step: Content) -> None:
        """Take one step."""
        match step:
            case Text():
                self._append("content", step.content)
                if step.logprobs:
                    self.logprobs += [_token(t) for t in fragments(step.content, step.chunks)]
            case Reasoning():
                for key in _reasoning_keys(step) if step.content else ():
                    self._append(key, step.content)
                self._details += step.details
            case Refusal():
                self._append("refusal", step.content)
            case Call():
                self._calls.append(self._call(step))
            case Delta():
                self._extra.update(
                    step.fields if isinstance(step.message, msgspec.UnsetType) else step.message
                )
            case Interleave() | Together():
                for inner in step.steps:
                    self.add(inner)

    def _append(self, key: str, content: Fragments) -> None:
        self._texts[key] = self._texts.get(key, "") + joined(content)

    def _call(self, call: Call) -> Json:
        _, identity = self._numbering.next(call)
        entry: Json = {} if identity is None else {"id": identity}
        if "type" not in call.omit:
            entry["type"] = "function"
        function = {"name": joined(call.name), "arguments": joined(arguments_of(call))}
        return {**entry, "function": function}

    def build(self) -> Json:
        """The `message` object; `content` is always there, null when there is no text."""
        message: Json = {"role": "assistant", "content": None, **self._texts}
        if self._details:
            message["reasoning_details"] = self._details
        if self._calls:
            message["tool_calls"] = self._calls
        return {**message, **self._extra}
