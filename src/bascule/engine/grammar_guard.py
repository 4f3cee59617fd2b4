"""Holds calls whose text has to match a grammar until it is known that it does."""

from collections.abc import Callable
from typing import Any

import msgspec

from bascule.engine.guard import Feed
from bascule.engine.reading import call_of
from bascule.protocols.errors import ApiError
from bascule.protocols.responses.events import (
    ArgumentsDelta,
    ItemEvent,
    OutputItemAdded,
    OutputItemDone,
    RoundEnd,
    RoundEvent,
    RoundFailed,
)
from bascule.protocols.responses.items import OpenItem
from bascule.toolkit.grammar import GrammarCheck, TextGrammar
from bascule.toolkit.registry import ToolEntry

EntryOf = Callable[[str], ToolEntry | None]
"""The tool that a model calls by a name; None for one whose calls are not to be checked."""


class BadCall(msgspec.Struct):
    """A call that was taken out of an answer."""

    entry: ToolEntry
    grammar: TextGrammar
    text: str
    fault: str
    """In words for the model."""


class _Held(msgspec.Struct):
    entry: ToolEntry
    grammar: TextGrammar
    check: GrammarCheck
    events: list[RoundEvent]


class GrammarGuard:
    """A stage before the accumulator, for one answer.

    Only such a call is held, from its beginning to its end. One that does not match is taken out; then
    the answer's end is held too, for whoever sees to a call in its place.
    """

    def __init__(self, entry_of: EntryOf, feed: Feed) -> None:
        self._entry_of = entry_of
        self._feed = feed
        self._held: dict[int, _Held] = {}
        self.bad: list[BadCall] = []
        self.end: RoundEnd | None = None
        """The end, where it is held."""
        self.next_index = 0
        """An output index that no item of the answer has."""

    def feed(self, events: list[RoundEvent]) -> None:
        out: list[RoundEvent] = []
        for event in events:
            if isinstance(event, ItemEvent):
                held = self._held.get(event.output_index) if self._held else None
                if held is None:
                    out.append(event)
                    continue
                held.events.append(event)
                if isinstance(event, ArgumentsDelta):
                    held.check.feed(event.delta)
            else:
                self._other(event, out)
        if out:
            self._feed(out)

    def _other(self, event: RoundEvent, out: list[RoundEvent]) -> None:
        if isinstance(event, OutputItemAdded):
            self.next_index = max(self.next_index, event.output_index + 1)
            held = self._begun(event)
            if held is not None:
                self._held[event.output_index] = held
                return
        elif isinstance(event, OutputItemDone) and event.output_index in self._held:
            out += self._done(self._held.pop(event.output_index), event)
            return
        elif isinstance(event, RoundEnd) and self.bad:
            self.end = event
            return
        elif isinstance(event, RoundFailed):
            self._held = {}  # not whole, and never checked
        out.append(event)

    def _begun(self, event: OutputItemAdded) -> _Held | None:
        call = call_of(event.item)
        entry = self._entry_of(call.name) if call is not None and is_ours(event.item) else None
        if entry is None or entry.grammar is None:
            return None
        check = entry.grammar.check()
        return None if check is None else _Held(entry, entry.grammar, check, [event])

    def _done(self, held: _Held, event: OutputItemDone) -> list[RoundEvent]:
        call = call_of(event.item)
        if call is None or call.status != "completed":
            return [*held.events, event]  # cut by a limit: the response says so itself
        fault = held.check.finish(call.arguments)
        if fault is None:
            return [*held.events, event]
        self.bad.append(BadCall(held.entry, held.grammar, held.check.text, fault))
        return []


def is_ours(item: Any) -> bool:
    """Whether a call can be one of a tool declared here: a server that keeps namespaces itself has its
    own."""
    return not isinstance(item, OpenItem) or "namespace" not in item.members


def grammar_not_followed(entry: ToolEntry, fault: str) -> ApiError:
    """What the response fails with when nothing has helped."""
    identity = entry.identity
    name = f"{identity.namespace}.{identity.name}" if identity.namespace else identity.name
    return ApiError(
        502,
        f"The model did not follow the grammar of the tool '{name}'. {fault}",
        code="tool_grammar_not_followed",
        param="tools",
    )
