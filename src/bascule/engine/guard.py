"""Holds an answer to its tool choice: drops what may not leave, holds what may have to be replaced."""

from collections.abc import Callable

from bascule.engine.choice import ChoiceRule, Fault, Violation
from bascule.engine.reading import call_of, text_of
from bascule.protocols import json
from bascule.protocols.responses.events import (
    ItemEvent,
    OutputItemAdded,
    OutputItemDone,
    OutputTextDelta,
    ReasoningTrace,
    RefusalDelta,
    RoundEnd,
    RoundEvent,
    RoundFailed,
)

Feed = Callable[[list[RoundEvent]], None]
"""Takes one batch of an answer's events."""

_INDEXED = (ItemEvent, OutputItemAdded, OutputItemDone, ReasoningTrace)
_ENDS = (RoundEnd, RoundFailed)


class Guard:
    """A stage before the accumulator, for one answer.

    With `must` the whole answer is held and judged when it is complete. With `never` it is held until
    there is text. With `single` alone nothing is: a second call is dropped as it comes, and the model
    makes it again when it has read the result of the first.
    """

    def __init__(self, rule: ChoiceRule, canonical: Callable[[str], str], feed: Feed) -> None:
        """`canonical` gives the wire name of the tool that the model means by a name."""
        self._rule = rule
        self._canonical = canonical
        self._feed = feed
        self._held: list[RoundEvent] = []
        self._holding = bool(rule.must) or rule.never
        self._dropped: set[int] = set()
        self._has_call = False
        self.violation: Violation | None = None
        """Set at the end of an answer of which nothing has passed."""

    def feed(self, events: list[RoundEvent]) -> None:
        if not self._holding:
            self._pass(events)
            return
        self._held += events
        last = events[-1]
        if isinstance(last, _ENDS):
            self.violation = self._judged(last)
            if self.violation is None:
                self._release()
        elif self._rule.never and any(map(_is_visible, events)):
            self._release()

    def _release(self) -> None:
        self._holding = False
        held, self._held = self._held, []
        self._pass(held)

    def _pass(self, events: list[RoundEvent]) -> None:
        kept = [event for event in events if self._keeps(event)]
        if kept:
            self._feed(kept)

    def _keeps(self, event: RoundEvent) -> bool:
        if not isinstance(event, _INDEXED):
            return True
        call = call_of(event.item) if isinstance(event, OutputItemAdded) else None
        if call is not None and not self._may_stay(self._canonical(call.name)):
            self._dropped.add(event.output_index)
        return event.output_index not in self._dropped

    def _may_stay(self, name: str) -> bool:
        rule = self._rule
        if rule.never:
            return False
        counts = rule.counts(name)
        if rule.must and not counts and (rule.only or rule.single):
            return False
        if rule.single and counts:
            first = not self._has_call
            self._has_call = True
            return first
        return True

    def _judged(self, end: RoundEnd | RoundFailed) -> Violation | None:
        if isinstance(end, RoundFailed) or end.incomplete_reason == "content_filter":
            return None
        calls: list[tuple[str, str]] = []
        texts: list[str] = []
        for event in self._held:
            if not isinstance(event, OutputItemDone):
                continue
            call = call_of(event.item)
            if call is not None:
                calls.append((self._canonical(call.name), call.arguments))
            else:
                texts.append(text_of(event.item) or "")
        if self._rule.never:
            # Without text, but cut before it could come, or empty: that is no call.
            followed = not calls or end.incomplete_reason is not None
            fault: Fault = "called"
        else:
            # A call that the token limit cut is one that was made: the response says so itself.
            followed = any(self._rule.counts(name) for name, _ in calls)
            fault = _fault(end, calls, texts)
        if followed:
            return None
        wrong = [call for call in calls if json.is_object(call[1])]
        if fault == "other_tool" and not wrong:
            fault = "empty"  # a history with broken arguments is refused by many servers
        return Violation(fault, "".join(texts), wrong, end.usage)


def _fault(end: RoundEnd, calls: list[tuple[str, str]], texts: list[str]) -> Fault:
    if end.incomplete_reason is not None:
        return "limit"
    if calls:
        return "other_tool"
    return "text" if "".join(texts).strip() else "empty"


def _is_visible(event: RoundEvent) -> bool:
    return isinstance(event, (OutputTextDelta, RefusalDelta)) and bool(event.delta.strip())
