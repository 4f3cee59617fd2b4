"""Makes calls of what a model wrote as text, where the operator has switched that on."""

from collections.abc import Container
from typing import Any

import msgspec

from bascule.engine.forcing import call_events
from bascule.engine.guard import Feed
from bascule.engine.reading import message_of, typed
from bascule.protocols.responses.events import (
    AnnotationAdded,
    ContentPartAdded,
    ContentPartDone,
    ItemEvent,
    OutputItemAdded,
    OutputItemDone,
    OutputTextDelta,
    OutputTextDone,
    ReasoningTrace,
    RefusalDelta,
    RefusalDone,
    RoundEvent,
)
from bascule.protocols.responses.items import (
    ItemStatus,
    MessageItem,
    OutputText,
    Refusal,
)
from bascule.protocols.written_calls import CallScanner, WrittenCall


class TextCalls:
    """A stage before the accumulator, for one answer.

    A message that holds calls becomes several items: the text before each call, the call, the text
    behind it. Items get new indexes, since there may be more of them than the server counted.
    """

    def __init__(self, names: Container[str], feed: Feed) -> None:
        self._names = names
        self._feed = feed
        self._indexes: dict[int, int] = {}
        self._messages: dict[int, _Message] = {}
        self._next = 0
        self.out: list[RoundEvent] = []

    def index(self) -> int:
        """The place of an item that begins now."""
        self._next += 1
        return self._next - 1

    def feed(self, events: list[RoundEvent]) -> None:
        for event in events:
            self._take(event)
        if self.out:
            out, self.out = self.out, []
            self._feed(out)

    def _take(self, event: RoundEvent) -> None:
        if not isinstance(event, (ItemEvent, OutputItemAdded, OutputItemDone, ReasoningTrace)):
            self.out.append(event)
            return
        begun = message_of(event.item) if isinstance(event, OutputItemAdded) else None
        if isinstance(event, OutputItemAdded) and begun is not None:
            message = _Message(self, begun, CallScanner(self._names))
            self._messages[event.output_index] = message
            return
        message = self._messages.get(event.output_index)
        if message is not None:
            message.take(typed(event))
            return
        if isinstance(event, OutputItemAdded):
            self._indexes[event.output_index] = self.index()
        event.output_index = self._indexes.get(event.output_index, event.output_index)
        self.out.append(event)


class _Message:
    """One message of the server, as the items that it becomes."""

    def __init__(self, to: TextCalls, item: MessageItem, scanner: CallScanner) -> None:
        self._to = to
        self._item = item
        self._scanner = scanner
        self._index = -1
        """Of the message that is open; -1 if none is."""
        self._content: list[OutputText | Refusal] = []
        self._in_part = False
        """Whether the text part is open."""
        self._chunks: list[str] = []
        self._annotations: list[Any] = []
        self._logprobs: list[Any] = []
        self._pending: list[Any] = []
        """Log probabilities of text that is held."""
        self._split = False
        """Whether a call was found."""
        self._read = False
        """Whether the server's text part had any delta."""

    def take(self, event: RoundEvent) -> None:
        match event:
            case OutputTextDelta():
                self._read = True
                self._pending += event.logprobs
                self._pieces(self._scanner.feed(event.delta))
            case OutputTextDone():
                self._text_done(event)
            case ContentPartAdded(part=OutputText()) | ContentPartDone(part=OutputText()):
                pass  # ours open and close with the text that is sure
            case AnnotationAdded():
                self._annotation(event)
            case OutputItemDone():
                self._done(event)
            case ContentPartAdded() | ContentPartDone() | RefusalDelta() | RefusalDone():
                self._other_part(event)
            case ItemEvent():
                self._open()
                event.output_index = self._index
                self._to.out.append(event)
            case _:
                raise TypeError(f"a message cannot have {type(event).__name__}")

    def _pieces(self, pieces: list[str | WrittenCall]) -> None:
        for piece in pieces:
            if isinstance(piece, str):
                self._text(piece)
                continue
            self._split = True
            self._pending = []
            self._close("completed")
            self._to.out += call_events(self._to.index(), piece.name, piece.arguments)

    def _text(self, text: str) -> None:
        self._open_part()
        logprobs, self._pending = self._pending, []
        self._chunks.append(text)
        self._logprobs += logprobs
        at = len(self._content)
        self._to.out.append(OutputTextDelta(-1, "", self._index, at, text, logprobs))

    def _text_done(self, event: OutputTextDone) -> None:
        if not self._read:
            self._pending += event.logprobs
            self._pieces(self._scanner.feed(event.text))
        self._finish_text()

    def _finish_text(self) -> None:
        self._pieces(self._scanner.finish())
        self._read = False
        self._close_part()

    def _annotation(self, event: AnnotationAdded) -> None:
        self._open_part()
        event.output_index, event.content_index = self._index, len(self._content)
        event.annotation_index = len(self._annotations)
        self._annotations.append(event.annotation)
        self._to.out.append(event)

    def _other_part(
        self, event: ContentPartAdded | ContentPartDone | RefusalDelta | RefusalDone
    ) -> None:
        self._open()
        event.output_index, event.content_index = self._index, len(self._content)
        self._to.out.append(event)
        if isinstance(event, ContentPartDone):
            self._content.append(event.part)

    def _open(self) -> None:
        if self._index < 0:
            self._index = self._to.index()
            item = msgspec.structs.replace(self._item, content=[])
            self._to.out.append(OutputItemAdded(-1, self._index, item))

    def _open_part(self) -> None:
        self._open()
        if not self._in_part:
            self._in_part = True
            part = OutputText("")
            self._to.out.append(ContentPartAdded(-1, "", self._index, len(self._content), part))

    def _close_part(self) -> None:
        if not self._in_part:
            return
        text, at = "".join(self._chunks), len(self._content)
        part = OutputText(text, self._annotations, self._logprobs)
        self._to.out += [
            OutputTextDone(-1, "", self._index, at, text, self._logprobs),
            ContentPartDone(-1, "", self._index, at, part),
        ]
        self._content.append(part)
        self._in_part = False
        self._chunks, self._annotations, self._logprobs = [], [], []

    def _close(self, status: ItemStatus) -> None:
        self._close_part()
        if self._index < 0:
            return
        item = msgspec.structs.replace(self._item, content=self._content, status=status)
        self._to.out.append(OutputItemDone(-1, self._index, item))
        self._index, self._content = -1, []

    def _done(self, event: OutputItemDone) -> None:
        self._finish_text()
        if not self._split:
            self._open()
        whole = message_of(event.item)
        self._close("incomplete" if whole is None else whole.status)
