"""A round in which calls have to match grammars: by the server where it can, else checked and asked again."""

import msgspec

from bascule.engine.asker import UNREADABLE, Asker
from bascule.engine.constrained import ConstrainedCall, constrained, text_demand
from bascule.engine.grammar_guard import BadCall, GrammarGuard, grammar_not_followed
from bascule.engine.guard import Feed
from bascule.engine.second_call import SecondAnswer, retold
from bascule.protocols.errors import ApiError
from bascule.protocols.function import WireChoice
from bascule.protocols.grammar import constraint
from bascule.protocols.responses.events import RoundEnd, RoundFailed
from bascule.protocols.responses.items import Flat
from bascule.toolkit.grammar import TextGrammar
from bascule.toolkit.registry import ToolEntry


class GrammarRound:
    """`feed` takes what is shown or run: calls without a fault, and all else that was answered.

    What has left stays. A call that does not match is asked for once more, alone, and takes its place
    in the same round.
    """

    def __init__(self, asker: Asker, choice: WireChoice, feed: Feed) -> None:
        self._asker = asker
        self._choice = choice
        self._public = feed
        self._unconstrained = False
        """Whether the server has refused to hold its text to a grammar."""
        self._guard = GrammarGuard(self._checked_entry, feed)

    @property
    def checked(self) -> Feed:
        """Where the round's answer goes; `mend` then sees to the calls that were taken out."""
        return self._guard.feed

    def _checked_entry(self, wire: str) -> ToolEntry | None:
        """The tool of a call that will be shown or run."""
        entry = self._asker.plan.registry.lookup(wire)
        allowed = self._choice.allowed
        return None if entry is None or (allowed and entry.wire not in allowed) else entry

    async def choice_constrained(self) -> bool:
        """Ask for the text of a tool that has to be called, where the server holds it to the grammar.
        False where the call has to be asked for in the ordinary way."""
        entry = self._asker.plan.registry.lookup(self._choice.name or "")
        if entry is None or entry.grammar is None:
            return False
        call = await self._constrained(entry, entry.grammar, self._asker.state.model_items, 0)
        if call is None:
            return False
        if call.fault is not None and isinstance(call.end, RoundEnd):
            self._asker.state.add_usage(call.end.usage)
            self._public([RoundFailed(grammar_not_followed(entry, call.fault))])
        elif call.end is not None:
            self._public([call.end])
        return True

    async def _constrained(
        self, entry: ToolEntry, grammar: TextGrammar, items: list[Flat], first_index: int
    ) -> ConstrainedCall | None:
        """None where the server cannot be asked so."""
        members = (
            None if self._unconstrained else constraint(grammar.grammar, self._asker.target.flags)
        )
        if members is None:
            return None
        spec = next(spec for spec in self._asker.plan.functions if spec.name == entry.wire)
        call = ConstrainedCall(entry.wire, grammar, first_index, self._public)
        told = [*items, text_demand(spec)]
        try:
            await self._asker.send(
                constrained(self._asker.request), told, b"", call.feed, self._choice, members
            )
        except ApiError as e:
            if e.status not in UNREADABLE:
                raise
            self._unconstrained = True
            return None
        return call

    async def mend(self) -> None:
        """Ask once more for each call that was taken out; the rest of the answer has left, and its end
        follows. Ends in RoundFailed where no call takes the place of one."""
        guard, end = self._guard, self._guard.end
        if end is None:
            return
        index, incomplete = guard.next_index, end.incomplete_reason
        try:
            for bad in guard.bad:
                if not self._asker.may_ask_again:
                    raise grammar_not_followed(bad.entry, bad.fault)
                self._asker.note_reask("grammar")
                second, index = await self._second(bad, index)
                self._asker.state.add_usage(second.usage)
                incomplete = incomplete or second.incomplete_reason
        except ApiError as e:
            self._asker.state.add_usage(end.usage)
            self._public([RoundFailed(e)])
            return
        self._public([msgspec.structs.replace(end, incomplete_reason=incomplete)])

    async def _second(self, bad: BadCall, index: int) -> tuple[RoundEnd, int]:
        """The end of the answer whose call takes the bad one's place, and the next free index. Raises
        ApiError when there is none."""
        items = [*self._asker.state.model_items, *retold(bad)]
        call = await self._constrained(bad.entry, bad.grammar, items, index)
        if call is not None:
            end = self._ended(call.end)
            if call.fault is not None:
                self._asker.state.add_usage(end.usage)
                raise grammar_not_followed(bad.entry, call.fault)
            return end, call.next_index
        answer = SecondAnswer()
        choice = WireChoice("required", bad.entry.wire)
        await self._asker.ask(items, self._asker.tools(), answer.feed, choice)
        end = self._ended(answer.end)
        try:
            events = answer.take(bad, self._asker.plan.registry.lookup, index)
        except ApiError:
            self._asker.state.add_usage(end.usage)
            raise
        self._public(events)
        return end, answer.next_index(index)

    def _ended(self, end: RoundEnd | RoundFailed | None) -> RoundEnd:
        """Raises ApiError for an answer that failed."""
        if isinstance(end, RoundFailed):
            raise end.error
        if end is None:
            raise ApiError(502, "The model server's answer had no end.", code="server_error")
        return end
