"""A turn's calls that the gateway runs: routed, approved, executed, kept."""

from collections.abc import Iterator

from bascule.engine.accumulator import Accumulator, RoundCall
from bascule.engine.call_limit import CallLimit
from bascule.engine.calls import flat_call, flat_output
from bascule.engine.decide import why_not_run
from bascule.engine.engine import EngineSettings
from bascule.engine.resuming import Resumed
from bascule.engine.state import Origin, TurnState
from bascule.protocols.responses.items import Flat
from bascule.telemetry.observe import TurnObserver
from bascule.toolkit.approval import Ask, Forbid
from bascule.toolkit.arguments import ArgumentSchemas
from bascule.toolkit.executor import ExecutionContext
from bascule.toolkit.outcome import Failed, Outcome, Suspended, SuspendedCall
from bascule.toolkit.ownership import Binding, Owner
from bascule.toolkit.registry import ToolEntry
from bascule.toolkit.scheduler import Scheduler


class GatewayCalls:
    """One for each turn. `suspended` are the calls that the turn leaves waiting for the client."""

    def __init__(
        self,
        settings: EngineSettings,
        state: TurnState,
        accumulator: Accumulator,
        observed: TurnObserver,
        maximum: int | None,
        *,
        images: bool,
    ) -> None:
        """`maximum` is the request's `max_tool_calls`; `images` says whether the model takes them."""
        self._settings = settings
        self._state = state
        self._accumulator = accumulator
        self._observed = observed
        self._images = images
        self._limit = CallLimit(maximum)
        self._scheduler: Scheduler | None = None
        self._running: list[RoundCall] = []
        self.suspended: list[SuspendedCall] = []

    @property
    def scheduler(self) -> Scheduler:
        """Made for the first call of a turn: most turns have none."""
        if self._scheduler is None:
            settings = self._settings
            self._scheduler = Scheduler(
                settings.max_concurrent_calls, settings.max_result_bytes, self._observed
            )
        return self._scheduler

    async def stop(self) -> None:
        """Leave no task behind."""
        if self._scheduler is not None:
            await self._scheduler.cancel()

    # --- calls begin

    def route(self, call: RoundCall, schemas: ArgumentSchemas) -> None:
        """A call is complete: the gateway's own starts at once, while the model still writes."""
        entry = call.entry
        if call.status == "incomplete" or entry is None or call.refused:
            return
        if entry.ownership.owner is not Owner.GATEWAY:
            return
        self._running.append(call)
        call.fault = why_not_run(call.call, entry, schemas) or self._limit.refusal()
        binding = entry.ownership.binding
        if call.fault is not None or binding is None:
            return
        if binding.rule is not None and not self._permitted(call, entry, binding):
            return
        self.scheduler.submit(
            call.call, entry, self._context(), lambda outcome: self._show(call, outcome)
        )

    def _permitted(self, call: RoundCall, entry: ToolEntry, binding: Binding) -> bool:
        """Whether it runs now; else how it ends, or what is asked first, is noted."""
        verdict = binding.rule.verdict(call.call.arguments) if binding.rule is not None else None
        if isinstance(verdict, Ask):
            call.question = binding.executor.ask(call.call, entry.shown_identity, binding.params)
            return False
        self._accumulator.show_call(call, entry)
        if isinstance(verdict, Forbid):
            call.fault = Failed(message=verdict.reason, code="forbidden")
            return False
        return True

    def resume(self, resumed: Resumed) -> None:
        """A call that an earlier turn has suspended goes on."""
        suspended, entry, answers = resumed.suspended, resumed.entry, resumed.answers
        binding, call = entry.ownership.binding, suspended.call
        if binding is None:
            raise ValueError("the tool has no executor")
        if suspended.approval:
            call.approved_by = suspended.awaits[0]
        round_call = self._accumulator.reopen_call(call, entry)
        self._running.append(round_call)
        self._limit.resumed()
        executor, context, state = binding.executor, self._context(), suspended.state

        async def run() -> Outcome:
            if suspended.approval:
                return await executor.execute(call, binding.params, context)
            return await executor.resume(call, binding.params, state, answers, context)

        def shown(outcome: Outcome) -> None:
            self._show(round_call, outcome)

        self.scheduler.start(call, entry.identity.kind, binding, run, shown)

    def _context(self) -> ExecutionContext:
        state = self._state
        return ExecutionContext(
            state.response_id, state.round, state.owner, self._images, state.citations
        )

    def _show(self, call: RoundCall, outcome: Outcome) -> None:
        if not isinstance(outcome, Suspended):
            self._accumulator.finish_call(call, outcome)

    # --- and end

    async def outcomes(self) -> dict[RoundCall, Outcome]:
        """Each call of the round and how it ended, in the model's order; kept beside its item."""
        if not self._running:
            return {}
        results = iter(await self.scheduler.results()) if self._scheduler is not None else iter(())
        outcomes: dict[RoundCall, Outcome] = {}
        for call in self._running:
            outcomes[call] = outcome = self._outcome(call, results)
            self._record(call, outcome)
        self._running = []
        return outcomes

    def _outcome(self, call: RoundCall, results: Iterator[Outcome]) -> Outcome:
        if call.question is not None:
            return Suspended(items=[call.question.item], awaits=[call.question.key])
        if call.fault is None:
            return next(results)
        self._accumulator.finish_call(call, call.fault)
        return call.fault

    def _record(self, call: RoundCall, outcome: Outcome) -> None:
        """Keep a call's hidden pair beside its public item."""
        pair: list[Flat] = [] if call.resumed else [flat_call(call)]
        if not isinstance(outcome, Suspended):
            pair.append(flat_output(call, outcome))
            if call.record is not None:
                call.record.origin = Origin(model=pair)
            return
        for data in outcome.items:
            self._accumulator.add_item(data, Origin(model=pair))
            pair = []
        entry = call.entry
        self.suspended.append(
            SuspendedCall(
                call=call.call,
                tool=b"null" if entry is None else bytes(entry.handler.masked(entry.declaration)),
                awaits=outcome.awaits,
                state=outcome.state,
                approval=call.question is not None,
            )
        )
        self._accumulator.flush()
