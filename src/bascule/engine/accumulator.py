"""Turns an upstream's events into the response's: Raw -> Gateway -> Public.

Own ids, output indexes and sequence numbers; calls in the shape in which their tool was declared;
finished items are kept as their bytes, each encoded once.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Any

import msgspec
from msgspec import Raw

from bascule.engine.call_ids import CallIds
from bascule.engine.citing import Citer
from bascule.engine.seal import SealedReasoning, Sealer
from bascule.engine.state import Origin, OutputItem, TurnState
from bascule.protocols import json
from bascule.protocols.errors import ApiError
from bascule.protocols.ids import mint
from bascule.protocols.responses.events import (
    ArgumentsDelta,
    ArgumentsDone,
    Event,
    IndexEvent,
    ItemEvent,
    OutputItemAdded,
    OutputItemDone,
    PassedEvent,
    ReasoningTrace,
    RoundEnd,
    RoundEvent,
    RoundFailed,
)
from bascule.protocols.responses.include import gate
from bascule.protocols.responses.items import (
    Flat,
    FunctionCallItem,
    ItemStatus,
    MessageItem,
    OpenItem,
    ReasoningItem,
    read_texts,
)
from bascule.toolkit.approval import Question
from bascule.toolkit.discovery import Announcement
from bascule.toolkit.outcome import Call, Failed, Outcome
from bascule.toolkit.ownership import Owner
from bascule.toolkit.projection import Projection
from bascule.toolkit.registry import ToolEntry

Emit = Callable[[Sequence[Event]], None]


class RoundCall:
    """A call of this round, for the engine to route: complete, and in the model's order."""

    __slots__ = (
        *("call", "entry", "fault", "question", "record", "refusal", "refused", "resumed"),
        *("slot", "status"),
    )

    def __init__(self, call: Call, entry: ToolEntry | None, slot: "Slot") -> None:
        self.call = call
        self.entry = entry
        self.slot = slot
        self.status: ItemStatus = "in_progress"
        self.refused = False
        """It may not be made: it stays hidden and is answered with an error."""
        self.refusal: str | None = None
        """Why, where it is not for the choice."""
        self.fault: Failed | None = None
        """Why it does not run although it is the gateway's."""
        self.question: Question | None = None
        """What the client has to be asked before it runs."""
        self.resumed = False
        """It was made in an earlier turn, whose history holds it."""
        self.record: OutputItem | None = None
        """Its public item, once that is finished."""


class Slot:
    """One output item's place: its id and index, and who shows it."""

    __slots__ = ("_to", "call", "hidden", "item_id", "output_index", "projection", "trace")

    def __init__(self, to: "Accumulator", item_id: str) -> None:
        self._to = to
        self.output_index = -1
        """Given when the item is added: one that is never shown leaves no gap."""
        self.item_id = item_id
        self.projection: Projection | None = None
        self.call: RoundCall | None = None
        self.trace: ReasoningTrace | None = None
        self.hidden = False

    # The ItemWriter that projections write through.

    def added(self, item: Any) -> None:
        self._to.add(self, OutputItemAdded(-1, -1, item))

    def event(self, event: ItemEvent | IndexEvent) -> None:
        if isinstance(event, ItemEvent):
            event.item_id = self.item_id
        event.output_index = self.output_index
        self._to.put(event)

    def done(self, item: Any) -> None:
        self._to.keep_own(self, Raw(json.encode(item)))


class Accumulator:
    """One for each turn. `emit` takes each batch that has become public."""

    def __init__(
        self,
        state: TurnState,
        *,
        emit: Emit,
        sealer: Sealer | None,
        upstream: str,
        model: str,
        include: Collection[str],
    ) -> None:
        """`sealer` is given when the client asked for encrypted reasoning."""
        self._include = include
        self._state = state
        self._emit = emit
        self._sealer = sealer
        self._upstream = upstream
        self._model = model
        self._out: list[Event] = []
        self._slots: dict[int, Slot] = {}
        self._lookup: Callable[[str], ToolEntry | None] = _none
        self._refused: Callable[[str], bool] = _never
        self._on_call: Callable[[RoundCall], None] = _ignore
        self._call_ids: CallIds | None = None
        self.end: RoundEnd | RoundFailed | None = None
        self.calls: list[RoundCall] = []
        self._broken: ApiError | None = None
        self._citer: Citer | None = None
        self.round_items: list[OutputItem | RoundCall] = []
        """What this round says to the next one, in the model's order."""

    def begin_round(
        self,
        lookup: Callable[[str], ToolEntry | None],
        refused: Callable[[str], bool],
        on_call: Callable[[RoundCall], None],
    ) -> None:
        """A new answer of the model begins. `on_call` is told of each call that is complete."""
        if self._citer is None and self._state.citations.sources:
            self._citer = Citer(self._state.citations)
        if self._citer is not None:
            self._citer.begin_round()
        self._slots = {}
        self._lookup = lookup
        self._refused = refused
        self._on_call = on_call
        self.end = None
        self._broken = None
        self.calls = []
        self.round_items = []

    def release(self) -> None:
        """Nothing more comes: let go of everybody who refers back here."""
        self.begin_round(_none, _never, _ignore)

    def feed(self, events: Sequence[RoundEvent]) -> None:
        """One batch from the upstream; what became public is emitted as one batch."""
        if self._citer is not None:
            events = self._citer.feed(events)
        state, out, slots = self._state, self._out, self._slots
        for event in events:
            if isinstance(event, ItemEvent):
                slot = slots.get(event.output_index)
                if slot is not None:
                    if slot.projection is not None or slot.hidden:
                        self._projected(slot, event)
                        continue
                    event.item_id = slot.item_id
                    event.output_index = slot.output_index
                elif self._broken is not None:
                    continue
                event.sequence_number = state.sequence_number
                state.sequence_number += 1
                out.append(event)
            else:
                self._other(event)
                out = self._out
        if out:
            self._out = []
            self._emit(out)

    @property
    def unknown_citations(self) -> int:
        """Numbers of markers that named no source."""
        return 0 if self._citer is None else self._citer.unknown

    def put(self, event: Event) -> None:
        """Number an event and queue it."""
        event.sequence_number = self._state.sequence_number
        self._state.sequence_number += 1
        self._out.append(event)

    def flush(self) -> None:
        if self._out:
            batch, self._out = self._out, []
            self._emit(batch)

    def _other(self, event: RoundEvent) -> None:
        if self._broken is not None and not self._still_counts(event):
            return
        if isinstance(event, OutputItemAdded):
            self._added(event)
        elif isinstance(event, OutputItemDone):
            self._done(event)
        elif isinstance(event, ReasoningTrace):
            self._slots[event.output_index].trace = event
        elif isinstance(event, (RoundEnd, RoundFailed)):
            self.end = event if self._broken is None else RoundFailed(self._broken)
        else:
            raise TypeError(f"an upstream cannot send {type(event).__name__}")

    def _still_counts(self, event: RoundEvent) -> bool:
        """After a broken call nothing new is shown, and what is open is ended."""
        if isinstance(event, (OutputItemDone, ReasoningTrace)):
            return event.output_index in self._slots
        return not isinstance(event, OutputItemAdded)

    def add(self, slot: Slot, event: OutputItemAdded) -> None:
        """Show an item for the first time: it takes the next index."""
        slot.output_index = event.output_index = self._state.next_index
        self._state.next_index += 1
        self.put(event)

    def _added(self, event: OutputItemAdded) -> None:
        item = event.item
        if isinstance(item, FunctionCallItem):
            self._call_added(event, item, Call(call_id=item.call_id, name=item.name, arguments=""))
            return
        if isinstance(item, OpenItem):
            self._open_added(event, item)
            return
        prefix = "msg" if isinstance(item, MessageItem) else "rs"
        slot = self._slots[event.output_index] = Slot(self, mint(prefix))
        item.id = slot.item_id
        self.add(slot, event)

    def _open_added(self, event: OutputItemAdded, item: OpenItem) -> None:
        if item.type == "function_call":
            name, call_id = item.text("name"), item.text("call_id") or mint("call")
            call = Call(call_id=call_id, name=name, arguments="")
            self._call_added(event, item, call, known="namespace" not in item.members)
            return
        slot = self._slots[event.output_index] = Slot(self, mint(item.id_prefix))
        event.item = self._shown(item, slot)
        self.add(slot, event)

    def _call_added(
        self,
        event: OutputItemAdded,
        item: FunctionCallItem | OpenItem,
        made: Call,
        *,
        known: bool = True,
    ) -> None:
        """`known` is false for a call of a tool that the model's server keeps in a namespace."""
        slot = self._slots[event.output_index] = Slot(self, mint("fc"))
        made.call_id = self._unique(made.call_id)
        entry = self._lookup(made.name) if known else None
        if entry is not None:
            made.name = entry.wire
        call = RoundCall(made, entry, slot)
        call.refused = known and self._refused(made.name)
        self._take(call)
        if slot.projection is None and not slot.hidden:
            event.item = self._restored(item, call)
            self.add(slot, event)

    def _unique(self, call_id: str) -> str:
        if self._call_ids is None:
            self._call_ids = CallIds(self._state.model_items)
        return self._call_ids.unique(call_id)

    def _restored(self, item: FunctionCallItem | OpenItem, call: RoundCall) -> Any:
        """A call under its own id and the identity with which the client declared the function."""
        entry = call.entry
        if isinstance(item, FunctionCallItem):
            item.id = call.slot.item_id
            item.call_id = call.call.call_id
            if entry is not None:
                item.name, item.namespace = entry.identity.name, entry.shown_namespace
                item.asynchronous = entry.members.get("async", False)
            return item
        changes: dict[str, Any] = {"id": call.slot.item_id, "call_id": call.call.call_id}
        if entry is not None:
            changes["name"] = entry.identity.name
            if entry.shown_namespace is not None:
                changes["namespace"] = entry.shown_namespace
        return item.encode(**changes)

    def _shown(self, item: OpenItem, slot: Slot, sealed: str | None = None) -> Raw:
        """A server's item under an id of ours; what it encrypted is shown sealed, or not at all."""
        if item.type == "reasoning":
            return item.encode(id=slot.item_id, encrypted_content=sealed)
        return item.encode(id=slot.item_id)

    def _take(self, call: RoundCall) -> None:
        """Note a call of the round and let its handler begin to show it."""
        slot, entry = call.slot, call.entry
        slot.call = call
        self.calls.append(call)
        self.round_items.append(call)
        slot.hidden = call.refused
        if entry is None or call.refused:
            return
        if entry.asks:
            slot.hidden = True  # until it may run
        else:
            self._project(call, entry)

    def _project(self, call: RoundCall, entry: ToolEntry) -> None:
        slot = call.slot
        slot.projection = entry.project(slot, call.call)
        if slot.projection is not None:
            slot.item_id = mint(slot.projection.id_prefix)
            slot.projection.begin()
        elif entry.ownership.owner is Owner.GATEWAY:
            slot.hidden = True  # a call that nobody but the gateway has to know of

    def show_call(self, call: RoundCall, entry: ToolEntry) -> None:
        """A complete call that was hidden until it was known whether it may run."""
        call.slot.hidden = False
        self._project(call, entry)
        if call.slot.projection is not None:
            call.slot.projection.complete(call.call.arguments, call.status)

    def reopen_call(self, call: Call, entry: ToolEntry) -> RoundCall:
        """A call that was suspended in an earlier turn goes on in this one."""
        reopened = RoundCall(call, entry, Slot(self, mint("fc")))
        reopened.resumed = True
        reopened.status = "completed"
        reopened.slot.call = reopened
        self.calls.append(reopened)
        self.round_items.append(reopened)
        self.show_call(reopened, entry)
        self.flush()
        return reopened

    def _projected(self, slot: Slot, event: ItemEvent) -> None:
        if isinstance(event, ArgumentsDelta):
            if slot.projection is not None:
                slot.projection.arguments(event.delta)
        elif not isinstance(event, (ArgumentsDone, PassedEvent)):
            raise TypeError(f"a call cannot have {type(event).__name__}")

    def _done(self, event: OutputItemDone) -> None:
        slot = self._slots[event.output_index]
        item = event.item
        if slot.call is not None:
            self._call_done(slot, slot.call, item)
            return
        if isinstance(item, OpenItem):
            self._open_done(slot, item, self._said(event))
            return
        item.id = slot.item_id
        origin = None
        if isinstance(item, ReasoningItem) and slot.trace is not None:
            origin = self._reasoning_origin(item, slot.trace)
        said = self._said(event)
        if said is not None:
            origin = Origin(model=said)
        kind = "message" if isinstance(item, MessageItem) else "reasoning"
        self.keep(slot, kind, Raw(json.encode(item)), origin)

    def _said(self, event: OutputItemDone) -> list[Flat] | None:
        """The item as the model wrote it, where that is something else."""
        return None if self._citer is None else self._citer.said(event.output_index)

    def _open_done(self, slot: Slot, item: OpenItem, said: list[Flat] | None) -> None:
        origin = Origin(self._upstream, self._model, model=said, id=item.text("id"))
        sealed = None
        if item.type == "reasoning":
            origin.details = [item.encode()]
            if self._sealer is not None:
                texts = [*read_texts(item, "content"), *read_texts(item, "summary")]
                inside = SealedReasoning(
                    self._upstream, self._model, "".join(texts), origin.details
                )
                sealed = self._sealer.seal(inside)
        self.keep(slot, item.type, self._shown(item, slot, sealed), origin)

    def _call_done(self, slot: Slot, call: RoundCall, item: FunctionCallItem | OpenItem) -> None:
        origin = None
        if isinstance(item, FunctionCallItem):
            call.call.arguments, call.status = item.arguments, item.status
        else:
            call.call.arguments = item.text("arguments")
            cut = item.text("status") == "incomplete"
            call.status = "incomplete" if cut else "completed"
            origin = Origin(self._upstream, self._model, id=item.text("id"))
        if slot.projection is not None:
            slot.projection.complete(call.call.arguments, call.status)
            if slot.projection.fault is not None:
                self._faulty(call, slot.projection.fault)
        elif not slot.hidden:
            shown = self._restored(item, call)
            data = shown if isinstance(shown, Raw) else Raw(json.encode(shown))
            self.keep(slot, "function_call", data, origin)
        if call.status == "incomplete" and call.record is not None:
            call.record.origin = Origin(model=[])  # no model could make sense of half a call
        self._on_call(call)

    def _faulty(self, call: RoundCall, fault: str) -> None:
        """A client's call that makes no sense: the model hears of it, as long as the client has not."""
        if call.slot.output_index < 0:
            call.refused = call.slot.hidden = True
            call.refusal = fault
            return
        call.status = "incomplete"
        message = f"The model's call of '{call.call.name}' is broken. {fault}"
        self._broken = ApiError(502, message, code="invalid_tool_call")

    def _reasoning_origin(self, item: ReasoningItem, trace: ReasoningTrace) -> Origin:
        details = [Raw(json.encode(detail)) for detail in trace.details]
        if self._sealer is not None:
            sealed = SealedReasoning(self._upstream, self._model, trace.text, details)
            item.encrypted_content = self._sealer.seal(sealed)
        return Origin(self._upstream, self._model, details)

    def keep_own(self, slot: Slot, data: Raw) -> None:
        """A finished item of the gateway's own making, which holds all that an `include` may ask for."""
        type_ = _head(data).type
        shown = gate(type_, data, self._include)
        self.keep(slot, type_, data, gated=None if shown is data else Raw(shown))

    def keep(
        self,
        slot: Slot,
        type_: str,
        data: Raw,
        origin: Origin | None = None,
        gated: Raw | None = None,
    ) -> None:
        """The finished item: its `done` event, and its place in the response's output."""
        item = OutputItem(slot.output_index, type_, slot.item_id, data, origin, gated)
        self.put(OutputItemDone(-1, slot.output_index, item.shown))
        self._state.output.append(item)
        if slot.call is None:
            self.round_items.append(item)
        else:
            slot.call.record = item

    def announce(self, announcement: Announcement) -> None:
        """An item that was there before the model said anything."""
        announcement.show(Slot(self, mint(announcement.id_prefix)))

    def add_item(self, data: bytes, origin: Origin | None) -> None:
        """An item that is shown whole; it brings its id."""
        head = _head(data)
        slot = Slot(self, head.id)
        self.add(slot, OutputItemAdded(-1, -1, Raw(data)))
        self.put(OutputItemDone(-1, slot.output_index, Raw(data)))
        self._state.output.append(
            OutputItem(slot.output_index, head.type, head.id, Raw(data), origin)
        )

    def finish_call(self, call: RoundCall, outcome: Outcome) -> None:
        """The outcome of a gateway-owned call, shown at once."""
        projection = call.slot.projection
        if projection is not None:
            projection.finish(outcome)
        self.flush()


class _Head(msgspec.Struct):
    type: str
    id: str


_head = json.decoder(_Head)


def _none(_: str) -> None:
    return None


def _never(_: str) -> bool:
    return False


def _ignore(_: RoundCall) -> None:
    return None
