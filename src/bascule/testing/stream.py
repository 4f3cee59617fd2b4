"""A reply as the events of a stream, before they are put on the wire."""

from typing import Any, TypeAlias

import msgspec

from bascule.testing.answer import Part, Reply
from bascule.testing.content import Numbering, Piece, pieces_of
from bascule.testing.dialect import Dialect
from bascule.testing.steps import (
    ENDINGS,
    BadJson,
    Call,
    Chunk,
    Comment,
    Cut,
    Data,
    Delay,
    Eof,
    Finish,
    Flood,
    Flow,
    Gate,
    HalfLine,
    Interleave,
    Json,
    Raw,
    Stall,
    Step,
    StreamError,
    Together,
    Usage,
    Wired,
)


class Event(msgspec.Struct):
    """An SSE event: its data as an object to be encoded, or as text."""

    data: Json | str
    name: str | None = None


Item: TypeAlias = Event | Comment | bytes | Flow
"""Bytes go out verbatim, after what came before them."""


class Occasion(msgspec.Struct, frozen=True, kw_only=True):
    """What a rendering needs to know of the request."""

    number: int
    model: str
    stream: bool
    include_usage: bool
    created: int

    @property
    def identity(self) -> str:
        return f"chatcmpl-mock-{self.number:06d}"


def completed(reply: Reply, dialect: Dialect, occasion: Occasion) -> list[Step]:
    """The reply's steps with the finish and usage that it leaves to the server."""
    steps = list(reply.steps)
    if any(isinstance(step, ENDINGS) for step in steps):
        return steps
    if "finish" not in reply.omit and not any(isinstance(step, Finish) for step in steps):
        reason = dialect.finish_with_calls if has_calls(steps) else "stop"
        place = next((n for n, step in enumerate(steps) if isinstance(step, Usage)), len(steps))
        steps.insert(place, Finish(reason))
    wanted = occasion.include_usage or not occasion.stream
    if wanted and "usage" not in reply.omit and not any(isinstance(s, Usage) for s in steps):
        steps.append(dialect.usage)
    return steps


def has_calls(steps: list[Step]) -> bool:
    """Whether any step is a call, or holds one."""
    return any(
        isinstance(step, Call)
        or (isinstance(step, Interleave | Together) and has_calls([*step.steps]))
        for step in steps
    )


def usage_object(usage: Usage) -> Json:
    """The `usage` object; only what was given has details."""
    total = usage.total
    if isinstance(total, msgspec.UnsetType):
        counts = (usage.prompt, usage.completion)
        total = None if None in counts else sum(count or 0 for count in counts)
    counters: Json = {
        "prompt_tokens": usage.prompt,
        "completion_tokens": usage.completion,
        "total_tokens": total,
    }
    if usage.cached is not None:
        counters["prompt_tokens_details"] = {"cached_tokens": usage.cached}
    if usage.reasoning is not None:
        counters["completion_tokens_details"] = {"reasoning_tokens": usage.reasoning}
    return {**counters, **usage.extra}


def error_object(error: StreamError) -> Json:
    """What stands under `error`."""
    if not isinstance(error.error, msgspec.UnsetType):
        return error.error
    return {"code": error.code, "message": error.message, "type": error.type}


class StreamRenderer:
    """Turns a reply's steps into the items of its stream, in order."""

    def __init__(self, reply: Reply, dialect: Dialect, occasion: Occasion) -> None:
        self._reply = reply
        self._dialect = dialect
        self._occasion = occasion
        self._numbering = Numbering(occasion.number, dialect)
        self._items: list[Item] = []
        self._last_chunk: Json | None = None

    def items(self) -> list[Item]:
        steps = completed(self._reply, self._dialect, self._occasion)
        for step in steps:
            self._step(step)
        done: Part = "done"
        if done not in self._reply.omit and not any(isinstance(step, ENDINGS) for step in steps):
            self._items.append(Event("[DONE]"))
        return self._items

    def _step(self, step: Step) -> None:
        match step:
            case Finish():
                self._finish(step)
            case Usage():
                self._usage(step)
            case StreamError():
                self._items.append(Event({"error": error_object(step)}, step.event))
            case Chunk() | Data() | Comment() | HalfLine() | BadJson() | Flood() | Raw():
                self._items.append(_wired(step))
            case Delay() | Gate() | Stall() | Cut() | Eof():
                self._items.append(step)
            case _:
                self._open()
                for piece in pieces_of(step, self._numbering):
                    self._add(piece)

    def _open(self) -> None:
        if self._last_chunk is None and self._dialect.opening is not None:
            self._add(Piece(self._dialect.opening))

    def _add(self, piece: Piece) -> Json:
        choice: Json = {"index": 0, "delta": {**self._dialect.every, **piece.delta}}
        if piece.logprobs is not None:
            choice["logprobs"] = {"content": piece.logprobs, "refusal": None}
        elif self._dialect.nulls:
            choice["logprobs"] = None
        if self._dialect.nulls:
            choice["finish_reason"] = None
        self._chunk([choice])
        return choice

    def _chunk(self, choices: list[Json], **extra: Any) -> None:
        chunk: Json = {
            "id": self._occasion.identity,
            "object": "chat.completion.chunk",
            "created": self._occasion.created,
            "model": self._reply.model or self._occasion.model,
            **self._dialect.chunk,
            "choices": choices,
            **extra,
        }
        self._items.append(Event(chunk))
        self._last_chunk = chunk

    def _finish(self, step: Finish) -> None:
        if step.alone or self._last_chunk is None:
            self._open()
            choice = self._add(Piece({}))
        else:
            choice = self._last_chunk["choices"][0]
        choice["finish_reason"] = step.reason
        choice.update(step.extra)

    def _usage(self, step: Usage) -> None:
        if step.place == "last" and self._last_chunk is not None:
            self._last_chunk["usage"] = usage_object(step)
        else:
            self._chunk([], usage=usage_object(step))


def _wired(step: Wired) -> Item:
    match step:
        case Chunk():
            return Event(step.fields)
        case Data():
            return Event(step.content, step.event)
        case BadJson():
            return Event(step.content)
        case Comment():
            return step
        case HalfLine():
            return f"data: {step.content}".encode()
        case Flood():
            return b"data: " + step.letter.encode() * step.size
        case Raw():
            return step.data
