"""Makes the canonical life of items from plain fragments: for upstreams that have no items."""

from typing import Any

import msgspec

from bascule.protocols.errors import ApiError
from bascule.protocols.ids import mint
from bascule.protocols.responses.events import (
    AnnotationAdded,
    ArgumentsDelta,
    ArgumentsDone,
    ContentPartAdded,
    ContentPartDone,
    OutputItemAdded,
    OutputItemDone,
    OutputTextDelta,
    OutputTextDone,
    ReasoningTextDelta,
    ReasoningTextDone,
    ReasoningTrace,
    RefusalDelta,
    RefusalDone,
    RoundEvent,
    SummaryPartAdded,
    SummaryPartDone,
    SummaryTextDelta,
    SummaryTextDone,
)
from bascule.protocols.responses.items import (
    FunctionCallItem,
    ItemStatus,
    MessageItem,
    OutputText,
    ReasoningItem,
    ReasoningText,
    Refusal,
    SummaryText,
)


class _Message:
    """An open message; its last part may be open too."""

    __slots__ = ("annotations", "chunks", "content", "index", "logprobs", "open")

    def __init__(self, index: int) -> None:
        self.index = index
        self.content: list[OutputText | Refusal] = []
        self.open: str | None = None
        self.chunks: list[str] = []
        self.annotations: list[Any] = []
        self.logprobs: list[Any] = []


class _Reasoning:
    __slots__ = ("chunks", "details", "index", "open")

    def __init__(self, index: int) -> None:
        self.index = index
        self.chunks: list[str] = []
        self.details: list[Any] = []
        self.open = False


class _Call:
    """A call under way; it is announced once its name is sure, which is when arguments come."""

    __slots__ = ("chunks", "closed", "id", "index", "name", "public_id", "waiting")

    def __init__(self) -> None:
        self.id = ""
        """The upstream's, which may be missing or stand for several calls."""
        self.public_id = ""
        self.name = ""
        self.index = -1
        self.waiting: list[str] = []
        self.chunks: list[str] = []
        self.closed = False


class ItemBuilder:
    """Collects events in `out`; the owner takes and clears them.

    `summarise` shows reasoning text as a summary, for clients that asked for one: the only
    reasoning that these display.
    """

    def __init__(self, *, summarise: bool) -> None:
        self.out: list[RoundEvent] = []
        self._summarise = summarise
        self._next = 0
        self._message: _Message | None = None
        self._reasoning: _Reasoning | None = None
        self._calls: dict[object, _Call] = {}
        self._logprobs: list[Any] = []

    def _index(self) -> int:
        index = self._next
        self._next += 1
        return index

    # --- messages

    def text(self, delta: str) -> None:
        message = self._message
        if message is None or message.open != "text":
            message = self._open_part("text")
        message.chunks.append(delta)
        event = OutputTextDelta(-1, "", message.index, len(message.content), delta)
        if self._logprobs:
            event.logprobs = self._logprobs
            message.logprobs += self._logprobs
            self._logprobs = []
        self.out.append(event)

    def logprobs(self, tokens: list[Any]) -> None:
        """Log probabilities of the text that comes next, or of half a character before it."""
        self._logprobs += tokens

    def refusal(self, delta: str) -> None:
        message = self._message
        if message is None or message.open != "refusal":
            message = self._open_part("refusal")
        message.chunks.append(delta)
        self.out.append(RefusalDelta(-1, "", message.index, len(message.content), delta))

    def annotation(self, annotation: dict[str, Any]) -> None:
        message = self._message
        if message is None or message.open != "text":
            message = self._open_part("text")
        place = len(message.annotations)
        message.annotations.append(annotation)
        self.out.append(
            AnnotationAdded(-1, "", message.index, len(message.content), place, annotation)
        )

    def _open_part(self, kind: str) -> _Message:
        self._close_whole_calls(None)
        self._close_reasoning()
        message = self._message
        if message is None:
            message = self._message = _Message(self._index())
            item = MessageItem("", "in_progress", [])
            self.out.append(OutputItemAdded(-1, message.index, item))
        else:
            self._close_part(message)
        message.open = kind
        part = OutputText("") if kind == "text" else Refusal("")
        self.out.append(ContentPartAdded(-1, "", message.index, len(message.content), part))
        return message

    def _close_part(self, message: _Message) -> None:
        text = "".join(message.chunks)
        at = len(message.content)
        if message.open == "text":
            tokens = message.logprobs + self._logprobs
            part = OutputText(text, message.annotations, tokens)
            self.out.append(OutputTextDone(-1, "", message.index, at, text, tokens))
            self._logprobs = []
        elif message.open == "refusal":
            part = Refusal(text)
            self.out.append(RefusalDone(-1, "", message.index, at, text))
        else:
            return
        self.out.append(ContentPartDone(-1, "", message.index, at, part))
        message.content.append(part)
        message.open = None
        message.chunks = []
        message.annotations = []
        message.logprobs = []

    def _close_message(self, status: ItemStatus = "completed") -> None:
        message = self._message
        if message is None:
            return
        self._message = None
        self._close_part(message)
        item = MessageItem("", status, message.content)
        self.out.append(OutputItemDone(-1, message.index, item))

    # --- reasoning

    def reasoning(self, delta: str) -> None:
        reasoning = self._reasoning or self._open_reasoning()
        if not reasoning.open:
            reasoning.open = True
            if self._summarise:
                added = SummaryPartAdded(-1, "", reasoning.index, 0, SummaryText(""))
            else:
                added = ContentPartAdded(-1, "", reasoning.index, 0, ReasoningText(""))
            self.out.append(added)
        reasoning.chunks.append(delta)
        make = SummaryTextDelta if self._summarise else ReasoningTextDelta
        self.out.append(make(-1, "", reasoning.index, 0, delta))

    def reasoning_details(self, details: list[Any]) -> None:
        """An upstream's own records, which only that upstream can read."""
        (self._reasoning or self._open_reasoning()).details.extend(details)

    def _open_reasoning(self) -> _Reasoning:
        self._close_whole_calls(None)
        self._close_message()
        reasoning = self._reasoning = _Reasoning(self._index())
        item = ReasoningItem("", [])
        self.out.append(OutputItemAdded(-1, reasoning.index, item))
        return reasoning

    def _close_reasoning(self, status: ItemStatus = "completed") -> None:
        reasoning = self._reasoning
        if reasoning is None:
            return
        self._reasoning = None
        index, text = reasoning.index, "".join(reasoning.chunks)
        item = ReasoningItem("", [], status=None if status == "completed" else status)
        if reasoning.open and self._summarise:
            item.summary = [SummaryText(text)]
            self.out.append(SummaryTextDone(-1, "", index, 0, text))
            self.out.append(SummaryPartDone(-1, "", index, 0, item.summary[0]))
        elif reasoning.open:
            item.content = [ReasoningText(text)]
            self.out.append(ReasoningTextDone(-1, "", index, 0, text))
            self.out.append(ContentPartDone(-1, "", index, 0, item.content[0]))
        self.out.append(ReasoningTrace(index, text, reasoning.details))
        self.out.append(OutputItemDone(-1, index, item))

    # --- calls

    def is_named(self, key: object) -> bool:
        """Whether a call of this key is under way and has a name."""
        call = self._calls.get(key)
        return call is not None and bool(call.name)

    def is_whole(self, key: object) -> bool:
        """Whether a call of this key has arguments, and all of them."""
        call = self._calls.get(key)
        return call is not None and bool(call.chunks) and _is_whole("".join(call.chunks))

    def call_id(self, key: object) -> str:
        call = self._calls.get(key)
        return "" if call is None else call.id

    def call(self, key: object, id_: str, name: str, arguments: str) -> None:
        """A fragment of the call `key`; any of the three may be empty.

        Raises ApiError when arguments follow a call that was already whole.
        """
        call = self._calls.get(key)
        if call is None:
            call = self._calls[key] = _Call()
            self._close_whole_calls(call)
        if id_ and not call.id:
            call.id = id_
        if name and call.index < 0:
            call.name = _joined(call.name, name)
        if not arguments:
            return
        if call.closed:
            if arguments.strip():
                raise ApiError(502, "The model server went on with a tool call that was complete.")
            return
        if call.name and call.index < 0:
            self._announce(call)
        if call.index < 0:
            call.waiting.append(arguments)
        else:
            self._arguments(call, arguments)

    def _announce(self, call: _Call) -> None:
        """Show the call, and before it those that the model began earlier."""
        for earlier in self._calls.values():
            if earlier is call:
                break
            if earlier.name and earlier.index < 0:
                self._show(earlier)
        self._show(call)

    def _show(self, call: _Call) -> None:
        self._close_reasoning()
        self._close_message()
        call.public_id = call.id or mint("call")
        call.index = self._index()
        item = FunctionCallItem("", "in_progress", call.public_id, call.name, "")
        self.out.append(OutputItemAdded(-1, call.index, item))
        for fragment in call.waiting:
            self._arguments(call, fragment)
        call.waiting = []

    def _arguments(self, call: _Call, fragment: str) -> None:
        call.chunks.append(fragment)
        self.out.append(ArgumentsDelta(-1, "", call.index, fragment))

    def _close_whole_calls(self, but: _Call | None) -> None:
        """Servers write one thing after the other; a call that goes on later is not whole yet."""
        for call in self._calls.values():
            if call is not but and not call.closed and _is_whole("".join(call.chunks)):
                self._close_call(call)

    def _close_call(self, call: _Call, status: ItemStatus = "completed") -> None:
        if call.closed:
            return
        call.closed = True
        if call.index < 0:
            if not call.name:
                raise ApiError(502, "The model server began a tool call without a name.")
            self._announce(call)
        if not call.chunks and status == "completed":
            self._arguments(call, "{}")  # what a function without parameters is called with
        arguments = "".join(call.chunks)
        self.out.append(ArgumentsDone(-1, "", call.index, arguments))
        item = FunctionCallItem("", status, call.public_id, call.name, arguments)
        self.out.append(OutputItemDone(-1, call.index, item))

    # --- the end

    def close(self, *, cut: bool = False) -> None:
        """Close what is open; with `cut` the last item was not finished by the model."""
        calls = [call for call in self._calls.values() if not call.closed]
        last: ItemStatus = "incomplete" if cut else "completed"
        for i, call in enumerate(calls):
            if not call.name and cut:
                call.closed = True
                continue
            left = i < len(calls) - 1 or self._message is not None or self._reasoning is not None
            written = "".join(call.chunks or call.waiting)
            whole = left and (not written or _is_whole(written))
            self._close_call(call, "completed" if whole else last)
        self._close_reasoning("completed" if self._message is not None else last)
        self._close_message(last)


def _joined(name: str, fragment: str) -> str:
    # Some servers repeat the whole name in each chunk, or all of it so far.
    return fragment if fragment.startswith(name) else name + fragment


def _is_whole(arguments: str) -> bool:
    try:
        msgspec.json.decode(arguments)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True
