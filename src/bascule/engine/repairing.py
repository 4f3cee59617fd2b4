"""Repairs the arguments of calls where a server hands them on as the model wrote them."""

from collections.abc import Callable
from typing import Any

from bascule.engine.guard import Feed
from bascule.engine.reading import call_of, set_arguments
from bascule.protocols.responses.events import (
    ArgumentsDelta,
    ArgumentsDone,
    ItemEvent,
    OutputItemAdded,
    OutputItemDone,
    RoundEnd,
    RoundEvent,
    RoundFailed,
)
from bascule.toolkit.arguments import ArgumentsSchema

SchemaOf = Callable[[str], ArgumentsSchema | None]
"""The schema by a call's wire name; None for calls whose arguments are left alone."""

_CALLS = (ArgumentsDelta, ArgumentsDone, OutputItemAdded, OutputItemDone, RoundEnd, RoundFailed)


class ArgumentRepair:
    """A stage before the accumulator, for one answer: holds the arguments of each call until they
    are complete. Valid ones leave as they came."""

    def __init__(self, schema_of: SchemaOf, feed: Feed) -> None:
        self._schema_of = schema_of
        self._feed = feed
        self._held: dict[int, tuple[ArgumentsSchema, list[RoundEvent]]] = {}

    def feed(self, events: list[RoundEvent]) -> None:
        if not any(isinstance(event, _CALLS) for event in events):
            self._feed(events)
            return
        out: list[RoundEvent] = []
        for event in events:
            self._take(event, out)
        if out:
            self._feed(out)

    def _take(self, event: RoundEvent, out: list[RoundEvent]) -> None:
        if isinstance(event, OutputItemAdded):
            call = call_of(event.item)
            schema = self._schema_of(call.name) if call is not None else None
            if schema is not None:
                self._held[event.output_index] = (schema, [])
        elif isinstance(event, ItemEvent) and event.output_index in self._held:
            self._held[event.output_index][1].append(event)
            return
        elif isinstance(event, OutputItemDone) and event.output_index in self._held:
            schema, held = self._held.pop(event.output_index)
            out += _repaired(schema, held, event.item, event.output_index)
        elif isinstance(event, (RoundEnd, RoundFailed)):
            for _, held in self._held.values():
                out += held
            self._held = {}
        out.append(event)


def _repaired(
    schema: ArgumentsSchema, held: list[RoundEvent], item: Any, index: int
) -> list[RoundEvent]:
    """The call's events; `item` gets the arguments that they hold."""
    call = call_of(item)
    if call is None or call.status != "completed":
        return held
    text = schema.repaired(call.arguments)
    if text is None:
        return held
    set_arguments(item, text)
    return [ArgumentsDelta(-1, "", index, text), ArgumentsDone(-1, "", index, text)]
