"""A call asked for again in the place of one that did not match its tool's grammar."""

from collections.abc import Sequence

from bascule.engine.grammar_guard import BadCall, EntryOf, grammar_not_followed, is_ours
from bascule.engine.reading import CallRead, call_of, text_of
from bascule.protocols.ids import mint
from bascule.protocols.responses.events import (
    ItemEvent,
    OutputItemAdded,
    OutputItemDone,
    ReasoningTrace,
    RoundEnd,
    RoundEvent,
    RoundFailed,
)
from bascule.protocols.responses.items import Flat, FunctionCall, FunctionCallOutput

_INDEXED = (ItemEvent, OutputItemAdded, OutputItemDone, ReasoningTrace)


def retold(bad: BadCall) -> Sequence[Flat]:
    """What is put behind the history: the call as the model made it, and what was wrong with it."""
    call = FunctionCall(mint("call"), bad.entry.wire, bad.grammar.arguments(bad.text))
    told = f"Not run: {bad.fault} Call `{bad.entry.wire}` again, with an input that matches."
    return [call, FunctionCallOutput(call.call_id, told)]


class SecondAnswer:
    """Collects an answer of which the first call of the tool is wanted, and the reasoning before it."""

    def __init__(self) -> None:
        self._events: list[RoundEvent] = []

    def feed(self, events: list[RoundEvent]) -> None:
        self._events += events

    @property
    def end(self) -> RoundEnd | RoundFailed | None:
        last = self._events[-1] if self._events else None
        return last if isinstance(last, (RoundEnd, RoundFailed)) else None

    def take(self, bad: BadCall, entry_of: EntryOf, first_index: int) -> list[RoundEvent]:
        """The events for the client, with indexes from `first_index` on. Raises ApiError when the call
        is missing or wrong again."""
        kept: set[int] = set()
        found: tuple[int, CallRead] | None = None
        for event in self._events:
            if not isinstance(event, OutputItemDone):
                continue
            call = call_of(event.item)
            if call is None and text_of(event.item) is None:
                kept.add(event.output_index)
            elif call is not None and found is None and is_ours(event.item):
                entry = entry_of(call.name)
                if entry is not None and entry.wire == bad.entry.wire:
                    found = event.output_index, call
        if found is None:
            raise grammar_not_followed(bad.entry, "Asked again, it did not call the tool.")
        index, call = found
        check = bad.grammar.check() if call.status == "completed" else None
        fault = None if check is None else check.finish(call.arguments)
        if fault is not None:
            raise grammar_not_followed(bad.entry, fault)
        return self._shifted({*kept, index}, first_index)

    def next_index(self, first_index: int) -> int:
        """An index that none of these events has."""
        indexes = [e.output_index for e in self._events if isinstance(e, OutputItemAdded)]
        return first_index + len(indexes) if not indexes else max(indexes) + 1 + first_index

    def _shifted(self, kept: set[int], first_index: int) -> list[RoundEvent]:
        events: list[RoundEvent] = []
        for event in self._events:
            if isinstance(event, _INDEXED) and event.output_index in kept:
                event.output_index += first_index
                events.append(event)
        return events
