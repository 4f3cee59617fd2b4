"""A call whose text the server itself holds to a grammar: the model writes the text alone."""

import msgspec

from bascule.engine.guard import Feed
from bascule.engine.reading import call_of, message_of, text_of
from bascule.protocols import json
from bascule.protocols.function import FunctionSpec
from bascule.protocols.ids import mint
from bascule.protocols.responses.events import (
    ArgumentsDelta,
    ArgumentsDone,
    ItemEvent,
    OutputItemAdded,
    OutputItemDone,
    OutputTextDelta,
    ReasoningTrace,
    RoundEnd,
    RoundEvent,
    RoundFailed,
)
from bascule.protocols.responses.items import FunctionCallItem, ItemStatus, Message
from bascule.protocols.responses.request import TextOptions, TurnRequest
from bascule.toolkit.grammar import TextGrammar

_INDEXED = (ItemEvent, OutputItemAdded, OutputItemDone, ReasoningTrace)


def constrained(request: TurnRequest) -> TurnRequest:
    """The request without a format for its text, which is none for the client."""
    verbosity = request.text.verbosity
    raw = {name: value for name, value in request.raw.items() if name != "text"}
    if verbosity is not None:
        raw["text"] = msgspec.Raw(json.encode({"verbosity": verbosity}))
    return msgspec.structs.replace(request, text=TextOptions(None, verbosity), raw=raw)


def text_demand(spec: FunctionSpec) -> Message:
    """What the model is told: servers hold it to a grammar, but do not show it."""
    told = f"Call the tool `{spec.name}` now: answer with nothing but the text of its input."
    return Message("user", f"{told}\n\n{spec.description or ''}".strip())


class ConstrainedCall:
    """A stage that makes the call of such an answer while it comes; reasoning passes.

    The text is checked all the same: what goes wrong does not leave. The answer's end is the caller's to
    pass on.
    """

    def __init__(self, wire: str, grammar: TextGrammar, first_index: int, feed: Feed) -> None:
        """Items get indexes from `first_index` on."""
        self._wire = wire
        self._grammar = grammar
        self._feed = feed
        self._first = first_index
        self._index = first_index
        """Of the call."""
        self.next_index = first_index
        """One that no item of the answer has."""
        self._call_id = ""
        self._check = grammar.check()
        self._opening, self._closing = grammar.wrapping()
        self._arguments: list[str] = []
        self._hidden: set[int] = set()
        self._read: set[int] = set()
        self.fault: str | None = None
        """Why the call is not whole."""
        self.end: RoundEnd | RoundFailed | None = None

    def feed(self, events: list[RoundEvent]) -> None:
        out: list[RoundEvent] = []
        for event in events:
            if isinstance(event, (RoundEnd, RoundFailed)):
                self.end = event
                self._finish(event, out)
            else:
                self._take(event, out)
        if out:
            self._feed(out)

    def _take(self, event: RoundEvent, out: list[RoundEvent]) -> None:
        if not isinstance(event, _INDEXED):
            out.append(event)
            return
        index = event.output_index
        if isinstance(event, OutputItemAdded):
            self.next_index = max(self.next_index, self._first + index + 1)
            if call_of(event.item) is not None or message_of(event.item) is not None:
                self._hidden.add(index)
        if index not in self._hidden:
            event.output_index = self._first + index
            out.append(event)
        elif isinstance(event, OutputTextDelta):
            self._read.add(index)
            self._write(event.delta, index, out)
        elif isinstance(event, OutputItemDone) and index not in self._read:
            self._write(text_of(event.item) or "", index, out)

    def _write(self, text: str, index: int, out: list[RoundEvent]) -> None:
        if not text:
            return
        piece = json.encode(text)[1:-1].decode()
        if not self._call_id:
            self._open(self._first + index, out)
            piece = self._opening + piece
        self._argue(piece, out)

    def _open(self, index: int, out: list[RoundEvent]) -> None:
        """The call takes the index of the message that it is made of."""
        self._index = index
        self._call_id = mint("call")
        item = FunctionCallItem("", "in_progress", self._call_id, self._wire, "")
        out.append(OutputItemAdded(-1, self._index, item))

    def _argue(self, piece: str, out: list[RoundEvent]) -> None:
        if self._check is not None:
            self._check.feed(piece)
            if self._check.wrong:
                return
        self._arguments.append(piece)
        out.append(ArgumentsDelta(-1, "", self._index, piece))

    def _finish(self, end: RoundEnd | RoundFailed, out: list[RoundEvent]) -> None:
        status: ItemStatus = "incomplete"
        if isinstance(end, RoundEnd) and end.incomplete_reason is None:
            if not self._call_id:
                self._open(self.next_index, out)
                self.next_index += 1
                self._argue(self._opening, out)
            self._argue(self._closing, out)
            if self._check is not None:
                self.fault = self._check.finish("")
            status = "completed" if self.fault is None else "incomplete"
        if self._call_id:
            arguments = "".join(self._arguments)
            item = FunctionCallItem("", status, self._call_id, self._wire, arguments)
            out.append(ArgumentsDone(-1, "", self._index, arguments))
            out.append(OutputItemDone(-1, self._index, item))
