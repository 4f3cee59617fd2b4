"""One round of inference: the model is asked, again where its answer does not follow the tool choice,
and in the end with the call forced."""

from collections.abc import Callable

from bascule.engine import observe
from bascule.engine.asker import UNREADABLE, Asker
from bascule.engine.choice import ChoiceRule, Violation, not_followed, rule_for
from bascule.engine.forcing import ForcedAnswer, demand, forcing
from bascule.engine.grammar_round import GrammarRound
from bascule.engine.guard import Feed, Guard
from bascule.engine.sinks import Notes, Sink
from bascule.engine.state import TurnState
from bascule.protocols.errors import ApiError
from bascule.protocols.function import WireChoice
from bascule.protocols.responses.request import TurnRequest
from bascule.protocols.responses.response import Usage
from bascule.telemetry.observe import TurnObserver
from bascule.toolkit.plan import ToolPlan
from bascule.upstreams.target import Target


class Asking:
    """Asks for one round's answer; what follows the choice goes to `feed`, batch by batch.

    `opened` is called when a server has accepted a request. `notes` takes what the client is to be
    told; None when it cannot be told any more.
    """

    def __init__(
        self,
        request: TurnRequest,
        target: Target,
        plan: ToolPlan,
        choice: WireChoice,
        *,
        state: TurnState,
        sink: Sink,
        observed: TurnObserver,
        max_reasks: int,
        notes: Notes | None,
        opened: Callable[[], None],
        feed: Feed,
    ) -> None:
        self._asker = Asker(
            request,
            target,
            plan,
            state=state,
            sink=sink,
            observed=observed,
            max_reasks=max_reasks,
            notes=notes,
            opened=opened,
        )
        self._choice = choice
        self._feed = feed

    async def run(self) -> None:
        """Raises ApiError when the server refused or failed before its answer began, and when no
        answer followed the choice. The usage of discarded answers is added to the state's."""
        if not self._asker.plan.registry.has_grammars:
            await self._answer()
            return
        grammars = GrammarRound(self._asker, self._choice, self._feed)
        if await grammars.choice_constrained():
            return
        self._feed = grammars.checked
        await self._answer()
        await grammars.mend()

    async def _answer(self) -> None:
        asker = self._asker
        names = asker.plan.function_names
        parallel = asker.request.parallel_tool_calls
        rule = rule_for(self._choice, asker.target.flags, names, parallel=parallel)
        if rule is None:
            await asker.ask(asker.state.model_items, asker.tools(), self._feed, self._choice)
            return
        violation = await self._guarded(rule, None)
        while violation is not None and asker.may_ask_again:
            asker.note_reask(violation.fault)
            violation = await self._again(rule, violation)
        if violation is not None:
            await self._last_resort(rule, violation, asker.asked)

    def check_prompt(self, usage: Usage | None, notes: Notes) -> None:
        """Say so when the usage of the last answer shows that the server read part of the request
        only."""
        self._asker.check_prompt(usage, notes)

    # --- asked again

    async def _guarded(self, rule: ChoiceRule, before: Violation | None) -> Violation | None:
        items = self._asker.state.model_items
        tools = self._asker.tools()
        if before is not None:
            items = [*items, *before.retold(rule)]
            if rule.never:
                tools = b""
        guard = Guard(rule, self._asker.plan.canonical, self._feed)
        await self._asker.ask(items, tools, guard.feed, self._choice)
        if guard.violation is not None:
            self._asker.state.add_usage(guard.violation.usage)
        return guard.violation

    async def _again(self, rule: ChoiceRule, before: Violation) -> Violation | None:
        try:
            return await self._guarded(rule, before)
        except ApiError as e:
            if e.status not in UNREADABLE:
                raise
            return Violation("error")

    # --- forced

    async def _last_resort(self, rule: ChoiceRule, violation: Violation, asked: int) -> None:
        target = self._asker.target
        if rule.never or not target.flags.structured_output:
            raise not_followed(rule, f"asked {asked + 1} times, it did otherwise each time")
        observe.forced(target.upstream, target.model, fault=violation.fault, reasks=asked)
        functions = [spec for spec in self._asker.plan.functions if spec.name in rule.must]
        names = [spec.name for spec in functions]
        forced = ForcedAnswer(names, self._asker.plan.schemas, self._feed)
        items = [*self._asker.state.model_items, demand(functions)]
        try:
            request = forcing(self._asker.request, functions)
            await self._asker.send(request, items, b"", forced.feed, self._choice)
        except ApiError as e:
            if e.status not in UNREADABLE:
                raise
            raise not_followed(rule, f"structured output was refused: {e.message}") from e
        if forced.fault is not None:
            if forced.end is not None:
                self._asker.state.add_usage(forced.end.usage)
            raise not_followed(rule, forced.fault)
