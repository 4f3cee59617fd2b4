"""What an answer's events say: items for the history, text for whoever watches."""

from collections.abc import Callable
from typing import Any, Final

import msgspec

from bascule.agent.calls import CALLS
from bascule.agent.events import (
    CallWriting,
    MessageDone,
    ReasoningDelta,
    ReasoningDone,
    ServerItem,
    TextDelta,
    Usage,
)
from bascule.agent.model import ModelEvent, ModelFault
from bascule.agent.turn import TurnContext
from bascule.protocols import json


class _Part(msgspec.Struct):
    type: str = ""
    text: str | None = None
    refusal: str | None = None


class _Item(msgspec.Struct):
    type: str = ""
    id: str | None = None
    name: str = ""
    content: list[_Part] | None = None
    summary: list[_Part] | None = None


class _InputDetails(msgspec.Struct):
    cached_tokens: int = 0


class _OutputDetails(msgspec.Struct):
    reasoning_tokens: int = 0


class _Usage(msgspec.Struct):
    input_tokens: int = 0
    output_tokens: int = 0
    input_tokens_details: _InputDetails | None = None
    output_tokens_details: _OutputDetails | None = None


class _Error(msgspec.Struct):
    message: str | None = None
    code: Any = None


class _Details(msgspec.Struct):
    reason: str | None = None


class _Response(msgspec.Struct):
    error: _Error | None = None
    incomplete_details: _Details | None = None
    usage: _Usage | None = None
    output: list[msgspec.Raw] = []


_item = json.decoder(_Item)
_response = json.decoder(_Response)
_TEXT: Final = frozenset({"response.output_text.delta", "response.refusal.delta"})
_REASONING: Final = frozenset(
    {"response.reasoning_summary_text.delta", "response.reasoning_text.delta"}
)
_WRITING: Final = "response.custom_tool_call_input.delta"
_SHOWN_CHARACTERS: Final = 16_384


class Reading:
    """One answer's events in order; `taken` gets each item as its bytes."""

    def __init__(self, turn: TurnContext, taken: Callable[[bytes], None]) -> None:
        self._turn = turn
        self._taken = taken
        self._written: dict[str, list[str]] = {}
        self._names: dict[str, str] = {}
        self.items = 0

    def take(self, event: ModelEvent) -> None:
        """Raises ModelFault for an answer that failed."""
        type_ = event.type
        if type_ in _TEXT:
            self._turn.emit(TextDelta(event.item_id, str(event.delta)))
        elif type_ in _REASONING:
            self._turn.emit(ReasoningDelta(event.item_id, str(event.delta)))
        elif type_ == "response.output_item.done":
            self._done(bytes(event.item))
        elif type_ == "response.output_item.added":
            item = _item(event.item)
            if item.id is not None:
                self._names[item.id] = item.name
        elif type_ == _WRITING:
            self._writing(event.item_id, str(event.delta))
        elif type_ in ("response.completed", "response.incomplete"):
            self._end(_response(event.response), complete=type_ == "response.completed")
        elif type_ in ("response.failed", "response.cancelled", "error"):
            self._failed(event)

    def _writing(self, item_id: str, delta: str) -> None:
        written = self._written.setdefault(item_id, [])
        written.append(delta)
        text = "".join(written)
        if len(text) <= _SHOWN_CHARACTERS:
            self._turn.emit(CallWriting(item_id, self._names.get(item_id, ""), text))

    def _done(self, raw: bytes) -> None:
        item = _item(raw)
        id_ = item.id or ""
        if item.type == "message":
            parts = item.content or []
            text = "".join(part.text or part.refusal or "" for part in parts)
            self._turn.emit(MessageDone(id_, text))
        elif item.type == "reasoning":
            parts = item.summary or item.content or []
            self._turn.emit(ReasoningDone(id_, "\n\n".join(part.text or "" for part in parts)))
        elif item.type not in CALLS:
            self._turn.emit(ServerItem(item.type, raw))
        self.items += 1
        self._taken(raw)

    def _end(self, response: _Response, *, complete: bool) -> None:
        if response.usage is not None:
            self._turn.usage.add(_usage(response.usage))
        if self.items == 0:  # an endpoint that says everything at the end
            for raw in response.output:
                self._done(bytes(raw))
        if not complete:
            reason = response.incomplete_details
            told = "no reason given" if reason is None else reason.reason
            self._turn.end("incomplete", f"The answer is incomplete: {told}.")

    def _failed(self, event: ModelEvent) -> None:
        if event.type == "error":
            nested = json.as_object(event.error) or {}
            text = event.message or nested.get("message") or "no reason given"
            raise ModelFault(f"The endpoint failed: {text}", again=True)
        response = _response(event.response)
        if response.usage is not None:
            self._turn.usage.add(_usage(response.usage))
        error = response.error
        told = "no reason given" if error is None else error.message
        code = None if error is None else error.code
        raise ModelFault(
            f"The answer failed: {told}", again=code in ("server_error", "rate_limit_exceeded")
        )


def _usage(read: _Usage) -> Usage:
    cached = 0 if read.input_tokens_details is None else read.input_tokens_details.cached_tokens
    details = read.output_tokens_details
    thought = 0 if details is None else details.reasoning_tokens
    return Usage(read.input_tokens, cached, read.output_tokens, thought)
