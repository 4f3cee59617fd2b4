"""One turn: history, tools, rounds of inference and execution, and the commit.

The loop knows no tool type: it routes calls by the turn's registry, and what a tool needs to be shown,
run, suspended or declared is its handler's business.
"""

import asyncio
import time
from collections.abc import Callable, Sequence

import structlog
from msgspec import Raw

from bascule.engine.accumulator import Accumulator, RoundCall
from bascule.engine.asking import Asking
from bascule.engine.calls import flat_call, flat_output, is_client, note_calls
from bascule.engine.chain import NO_CHAIN, check_names, lost, make_commit, write
from bascule.engine.choice import relaxed
from bascule.engine.decide import LoopDecision, Step, classify_round
from bascule.engine.engine import Engine
from bascule.engine.gateway_calls import GatewayCalls
from bascule.engine.history import Flattener
from bascule.engine.observe import note_citations
from bascule.engine.preparing import as_declared, prepare_turn
from bascule.engine.resuming import Resumed
from bascule.engine.sinks import Notes, Sink
from bascule.engine.state import OutputItem, TurnState
from bascule.protocols.errors import ApiError
from bascule.protocols.function import WireChoice
from bascule.protocols.ids import mint
from bascule.protocols.responses import door
from bascule.protocols.responses.echo import echo
from bascule.protocols.responses.events import (
    ErrorEvent,
    Event,
    ResponseEvent,
    RoundFailed,
)
from bascule.protocols.responses.items import Flat, FunctionCallOutput
from bascule.protocols.responses.request import TurnRequest
from bascule.protocols.responses.response import ResponseError, ResponseStatus, Snapshot
from bascule.state.store import StoreError
from bascule.telemetry.observe import EndStatus, TurnObserver, TurnStatus
from bascule.toolkit.discovery import ALONE, Discovery
from bascule.toolkit.handler import Brought
from bascule.toolkit.names import Ledger
from bascule.toolkit.outcome import Outcome, Output, Suspended
from bascule.toolkit.ownership import Owner
from bascule.toolkit.plan import EMPTY, ToolPlan
from bascule.toolkit.prepare import prepare
from bascule.upstreams.target import Target

_log = structlog.stdlib.get_logger("bascule.turn")


async def run_turn(
    engine: Engine,
    request: TurnRequest,
    target: Target,
    owner: str,
    sink: Sink,
    observed: TurnObserver | None = None,
) -> None:
    """Run a turn to its end and close the sink.

    A fault before the first event leaves is the sink's to `refuse`; later ones end in
    `response.failed`. Cancellation means that the client has gone (the turn ends as `cancelled`), or
    that the engine is closing (it fails).
    """
    observed = observed or engine.observer.turn(target, stream=request.stream)
    turn = _Turn(engine, request, target, owner, sink, observed)
    try:
        await turn.run()
    except ApiError as e:
        await turn.fail(e)
    except asyncio.CancelledError:
        if not engine.closing:
            await turn.abandon()
            raise
        await turn.fail(ApiError(503, "The server is shutting down.", code="server_error"))
    except StoreError as e:
        _log.error("the store failed", response_id=turn.state.response_id, error=str(e))
        await turn.fail(ApiError(500, "The stored state cannot be reached.", code="server_error"))
    except Exception as e:  # noqa: BLE001 -- the client must hear of it, whatever it was
        _log.exception("turn failed", response_id=turn.state.response_id, exc_info=e)
        await turn.fail(ApiError(500, "The server had an internal error.", code="server_error"))
    finally:
        try:
            await turn.calls.stop()
        finally:
            turn.release()
            observed.end(turn.ended_as, turn.state.usage, turn.error)


class _Turn:
    """The parts of one turn while it runs; what outlives a round is in `state`."""

    def __init__(
        self,
        engine: Engine,
        request: TurnRequest,
        target: Target,
        owner: str,
        sink: Sink,
        observed: TurnObserver,
    ) -> None:
        self._observed = observed
        self._engine = engine
        self._request = request
        self._target = target
        self._sink = sink
        self.state = TurnState(response_id=mint("resp"), owner=owner)
        observed.response_id = self.state.response_id
        self.ended_as: TurnStatus = "refused"
        self.error: str | None = None
        self._accumulator = Accumulator(
            self.state,
            emit=sink.emit,
            sealer=engine.sealer if request.wants_encrypted_reasoning else None,
            upstream=target.upstream,
            model=target.model,
            include=request.include,
        )
        self.calls = GatewayCalls(
            engine.settings,
            self.state,
            self._accumulator,
            observed,
            request.max_tool_calls,
            images=target.flags.image_input,
        )
        self._discovery = ALONE
        self._later: list[Brought] = []
        self._chain = NO_CHAIN
        self._unlock: Callable[[], None] | None = None
        self._lost = False
        self._names = Ledger()
        self._plan: ToolPlan = EMPTY
        self._choice = WireChoice()
        self._snapshot: Snapshot | None = None
        # A server that speaks Responses is given the fields that nobody here knows.
        self._notes = Notes([] if target.surface.items else list(request.ignored), [])
        self._begun = False
        self._resumed: list[Resumed] = []
        self._writing: asyncio.Future[None] | None = None
        self._ended = False

    def release(self) -> None:
        """Let go of the conversation, and break the references in circles, so that the turn goes
        without a collection."""
        if self._unlock is not None:
            self._unlock()
        note_citations(self._observed, self._accumulator.unknown_citations)
        self._accumulator.release()

    # --- the way of a turn

    async def run(self) -> None:
        await self._prepare()
        decision = await self._round_zero()
        while decision.step is Step.CONTINUE:
            self.state.round += 1
            await self._infer()
            decision = await self._settle()
            await self._engine.checkpoint(self.state)
        if decision.step is Step.INCOMPLETE:
            await self._finish("incomplete", reason=decision.reason)
        else:
            await self._finish("completed")

    async def _prepare(self) -> None:
        engine, request, owner = self._engine, self._request, self.state.owner
        if request.store or request.conversation is not None:
            check_names(request.model, request.input)
        if request.conversation is not None:
            self._unlock = engine.locks.take(owner, request.conversation)
        prepared = await prepare_turn(engine, request, self._target, owner)
        self._chain, self._names, self._plan = prepared.chain, prepared.names, prepared.plan
        self._choice, self._resumed = prepared.choice, prepared.resumed
        self._discovery, self._later = prepared.discovery, prepared.later
        self.state.model_items = prepared.items
        self.state.take(prepared.chain.continuation)
        self._notes.warnings += [*prepared.warnings, *prepared.plan.warnings]
        self._notes.ignored += prepared.ignored
        self._snapshot = Snapshot(
            self.state.response_id,
            self.state.created_at,
            echo(request, request.model, self._plan.echo),
        )

    # --- round zero: what was suspended goes on

    async def _round_zero(self) -> LoopDecision:
        if not self._resumed:
            return LoopDecision(Step.CONTINUE)
        self._begin()
        self._accumulator.begin_round(self._plan.registry.lookup, lambda _: False, self._route)
        for resumed in self._resumed:
            self.calls.resume(resumed)
        return await self._settle()

    # --- a round

    async def _infer(self) -> None:
        accumulator = self._accumulator
        accumulator.begin_round(self._plan.registry.lookup, self._is_refused, self._route)
        asking = Asking(
            self._request,
            self._target,
            self._plan,
            self._choice,
            state=self.state,
            sink=self._sink,
            observed=self._observed,
            max_reasks=self._engine.settings.max_reasks,
            notes=None if self._begun else self._notes,
            opened=self._begin,
            feed=accumulator.feed,
        )
        await asking.run()
        end = accumulator.end
        if isinstance(end, RoundFailed):
            await self._settle()
            raise end.error
        if end is None:
            raise ApiError(502, "The model server's answer had no end.", code="server_error")
        self.state.add_usage(end.usage)
        if self._snapshot is not None and end.members:
            self._snapshot.extra = end.members
        self.state.set_tier(end.service_tier)
        asking.check_prompt(end.usage, self._notes)
        self._choice = relaxed(self._choice)

    def _is_refused(self, wire: str) -> bool:
        allowed, entry = self._choice.allowed, self._plan.registry.lookup(wire)
        if allowed is not None and wire not in allowed:
            return True
        return entry is not None and not entry.offered and entry.ownership.owner is Owner.CLIENT

    def _route(self, call: RoundCall) -> None:
        self.calls.route(call, self._plan.schemas)

    async def _settle(self) -> LoopDecision:
        """Wait for the round's executions, keep what they left, and decide."""
        outcomes = await self.calls.outcomes()
        for outcome in outcomes.values():
            if isinstance(outcome, Output) and outcome.declare:
                await self._declare(outcome.declare)
        calls = self._accumulator.calls
        refused = [call for call in calls if call.refused and call.status != "incomplete"]
        note_calls(self._observed, calls)
        decision = classify_round(
            client_calls=sum(map(is_client, calls)),
            gateway_calls=len(outcomes) + len(refused),
            suspended=sum(isinstance(outcome, Suspended) for outcome in outcomes.values()),
            incomplete_reason=getattr(self._accumulator.end, "incomplete_reason", None),
            rounds_left=self._engine.settings.max_rounds - self.state.round,
        )
        if decision.step is Step.CONTINUE:
            self._to_model(outcomes, refused)
        return decision

    def _to_model(self, outcomes: dict[RoundCall, Outcome], refused: list[RoundCall]) -> None:
        """What the next round's model reads of this one: its items, then the outputs."""
        said = self.state.model_items
        for part in self._accumulator.round_items:
            if isinstance(part, OutputItem):
                said += self._flat(part)
            elif not part.resumed:
                said.append(flat_call(part))
        for call, outcome in outcomes.items():
            if not isinstance(outcome, Suspended):
                said.append(flat_output(call, outcome))
        for call in refused:
            why = call.refusal or f"The tool {call.call.name} may not be called in this turn."
            said.append(FunctionCallOutput(call.call.call_id, why))

    def _flat(self, part: OutputItem) -> list[Flat]:
        engine, target = self._engine, self._target
        flattener = Flattener(engine.handlers, self._names, engine.sealer, target)
        return flattener.flatten([flattener.stored(part.item(), part.origin)], "output").items()

    async def _declare(self, tools: Sequence[Raw]) -> None:
        """Tools for the rounds to come."""
        self.state.declared += tools
        so_far = [part.item() for part in self.state.output]
        self._plan = await prepare(
            self._request.tools(),
            self._engine.handlers,
            self._names,
            self._engine.settings.tool_limits,
            [*self._later, *as_declared(self.state.declared)],
            surface=self._target.surface,
            discovery=Discovery(self._discovery.owner, [*self._discovery.earlier, *so_far]),
        )
        self._announce()

    # --- the beginning and the end

    def _begin(self) -> None:
        if self._begun:
            return
        self._begun = True
        self._sink.begin(self._notes)
        accumulator = self._accumulator
        if self._sink.streams:
            snapshot = self._current("in_progress")
            accumulator.put(ResponseEvent(-1, "response.created", snapshot))
            accumulator.put(ResponseEvent(-1, "response.in_progress", snapshot))
            # Not at once: what was read together with the head goes out in the same write.
            asyncio.get_running_loop().call_soon(accumulator.flush)
        self._announce()

    def _announce(self) -> None:
        """What was found out about the tools comes before what the model says."""
        for announcement in self._plan.announced:
            self._accumulator.announce(announcement)

    def _current(self, status: ResponseStatus) -> Snapshot:
        if self._snapshot is None:
            raise RuntimeError("the turn is not prepared")
        snapshot = self._snapshot.copy()
        snapshot.status = status
        snapshot.output = [bytes(item.shown) for item in sorted(self.state.output, key=_by_index)]
        snapshot.usage = self.state.usage
        snapshot.service_tier = self.state.service_tier
        return snapshot

    async def _finish(
        self,
        status: EndStatus,
        *,
        reason: str | None = None,
        error: ApiError | None = None,
    ) -> None:
        """Commit, then say so."""
        snapshot = self._current(status)
        if status == "completed":
            snapshot.completed_at = int(time.time())
        snapshot.incomplete_reason = reason
        events: list[Event] = []
        if error is not None:
            snapshot.error = ResponseError(error.code or "server_error", error.message)
            events.append(ErrorEvent(-1, door.error_body(error)))
        events.append(ResponseEvent(-1, f"response.{status}", snapshot))
        if not self._lost:
            await self._store(snapshot, required=error is None)
        for event in events:
            self._accumulator.put(event)
        self._accumulator.flush()
        self._ended = True
        self.ended_as = status
        self._sink.close()

    async def _store(self, snapshot: Snapshot, *, required: bool) -> None:
        """A failed turn is told to the client whether or not it can be stored."""
        try:
            await self._commit(snapshot)
        except StoreError as e:
            told = lost(e, self._request) if required else None
            if told is not None:
                self._lost = True
                raise told from e
            _log.error("a turn could not be stored", response_id=snapshot.id, error=str(e))
            if required:
                raise ApiError(500, "The response could not be stored.", code="server_error") from e

    async def _commit(self, snapshot: Snapshot) -> None:
        request = self._request
        if not request.store and request.conversation is None:
            return
        bare = snapshot.copy()
        bare.output = ()
        continuation = self.state.continuation(self.calls.suspended, self._names.table())
        self.state.output.sort(key=_by_index)
        commit = make_commit(
            self.state,
            model=request.model,
            previous_response_id=request.previous_response_id,
            chain=self._chain,
            inputs=request.input,
            status=snapshot.status,
            snapshot=bare.encode(),
            continuation=continuation,
            handlers=self._engine.handlers,
        )
        self._writing = asyncio.ensure_future(write(self._engine.store, commit, keep=request.store))
        self._observed.commits(self._writing)
        await asyncio.shield(self._writing)

    async def fail(self, error: ApiError) -> None:
        """End in `response.failed`, or refuse where the client has seen nothing of the turn."""
        self.error = error.code or error.type
        self.ended_as = "failed" if self._begun else "refused"
        if self._begun and self._sink.streams:
            await self._finish("failed", error=error)
        else:
            self._sink.refuse(error)

    async def abandon(self) -> None:
        """The client has gone: what there is, is kept as cancelled."""
        await self.calls.stop()
        if self._writing is not None:  # it was over but for the client's hearing of it
            await asyncio.wait([self._writing])
            if (fault := self._writing.exception()) is not None:
                _log.error("a turn could not be stored", error=str(fault))
            return
        if self._ended:
            return
        self.ended_as = "cancelled"
        if self._begun and self._sink.streams:
            await asyncio.shield(self._store(self._current("cancelled"), required=False))


def _by_index(item: OutputItem) -> int:
    return item.index
