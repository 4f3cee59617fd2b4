"""One turn: history, tools, rounds of inference and execution, and the commit.

The loop knows no tool type: it routes calls by the turn's registry, and what a tool needs to be shown,
run, suspended or declared is its handler's business.
"""

import asyncio
import time
from collections.abc import Sequence

import structlog
from msgspec import Raw

from bascule.engine.accumulator import Accumulator, RoundCall, flat_call
from bascule.engine.chain import NO_CHAIN, check_names, load_chain, make_commit
from bascule.engine.decide import LoopDecision, Step, classify_round
from bascule.engine.engine import NAME_LIMIT, Engine
from bascule.engine.history import Flattener
from bascule.engine.inference import Inference
from bascule.engine.sinks import Notes, Sink
from bascule.engine.state import Continuation, Origin, OutputItem, TurnState
from bascule.protocols import json
from bascule.protocols.errors import ApiError, invalid
from bascule.protocols.function import WireChoice
from bascule.protocols.ids import mint
from bascule.protocols.responses import door
from bascule.protocols.responses.events import (
    ErrorEvent,
    Event,
    ResponseEvent,
    RoundFailed,
)
from bascule.protocols.responses.items import Flat, FunctionCallOutput, Item
from bascule.protocols.responses.request import TurnRequest
from bascule.protocols.responses.response import ResponseError, ResponseStatus, Snapshot
from bascule.state.store import StoreError
from bascule.toolkit.handler import ExecutionContext
from bascule.toolkit.names import Ledger
from bascule.toolkit.outcome import Failed, Outcome, Output, Suspended, SuspendedCall
from bascule.toolkit.prepare import EMPTY, ToolPlan, plan_tools, prepare
from bascule.toolkit.registry import Owner
from bascule.toolkit.scheduler import Scheduler
from bascule.upstreams.target import Target

_log = structlog.stdlib.get_logger("bascule.turn")


async def run_turn(
    engine: Engine, request: TurnRequest, target: Target, owner: str, sink: Sink
) -> None:
    """Run a turn to its end and close the sink.

    A fault before the first event leaves is the sink's to `refuse`; later ones end in
    `response.failed`. Cancellation means that the client has gone: the turn ends as `cancelled`.
    """
    turn = _Turn(engine, request, target, owner, sink)
    try:
        await turn.run()
    except ApiError as e:
        await turn.fail(e)
    except asyncio.CancelledError:
        await turn.abandon()
        raise
    except StoreError as e:
        _log.error("the store failed", response_id=turn.state.response_id, error=str(e))
        await turn.fail(ApiError(500, "The stored state cannot be reached.", code="server_error"))
    except Exception as e:  # noqa: BLE001 -- the client must hear of it, whatever it was
        _log.exception("turn failed", response_id=turn.state.response_id, exc_info=e)
        await turn.fail(ApiError(500, "The server had an internal error.", code="server_error"))
    finally:
        await turn.stop_calls()
        turn.release()


class _Turn:
    """The parts of one turn while it runs; what outlives a round is in `state`."""

    def __init__(
        self, engine: Engine, request: TurnRequest, target: Target, owner: str, sink: Sink
    ) -> None:
        self._engine = engine
        self._request = request
        self._target = target
        self._sink = sink
        self.state = TurnState(response_id=mint("resp"), owner=owner)
        self._scheduler: Scheduler | None = None
        self._accumulator = Accumulator(
            self.state,
            emit=sink.emit,
            sealer=engine.sealer if request.wants_encrypted_reasoning else None,
            upstream=target.upstream,
            model=target.model,
        )
        self._chain = NO_CHAIN
        self._names = Ledger(NAME_LIMIT)
        self._plan: ToolPlan = EMPTY
        self._choice = WireChoice()
        self._snapshot: Snapshot | None = None
        self._notes = Notes(list(request.ignored), [])
        self._begun = False
        self._running: list[RoundCall] = []
        self._suspended: list[SuspendedCall] = []
        self._writing: asyncio.Future[None] | None = None
        self._ended = False

    @property
    def scheduler(self) -> Scheduler:
        """Made for the first call of a turn: most turns have none."""
        if self._scheduler is None:
            settings = self._engine.settings
            self._scheduler = Scheduler(settings.max_concurrent_calls, settings.max_result_bytes)
        return self._scheduler

    async def stop_calls(self) -> None:
        """Leave no task behind."""
        if self._scheduler is not None:
            await self._scheduler.cancel()

    def release(self) -> None:
        """Break the references in circles, so that the turn goes without a collection."""
        self._accumulator.release()

    # --- the way of a turn

    async def run(self) -> None:
        await self._load()
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

    async def _load(self) -> None:
        request = self._request
        if request.store:
            check_names(request.model, request.input)
        if request.previous_response_id is not None:
            self._chain = await load_chain(
                self._engine.store, self.state.owner, request.previous_response_id
            )
        self._names = Ledger(NAME_LIMIT, self._chain.continuation.name_table())

    async def _prepare(self) -> None:
        engine, request, target = self._engine, self._request, self._target
        flattener = Flattener(
            engine.handlers, self._names, engine.sealer, target.upstream, target.model
        )
        earlier = [flattener.stored(item, origin) for item, origin in self._chain.items]
        inputs = self._claimed(request.input)
        flat = flattener.flatten(earlier, "previous_response_id")
        flat += flattener.flatten(inputs)
        self.state.model_items = flat
        self._notes.warnings += flattener.warnings
        self._plan = await self._plan_for(request)
        self._choice = self._plan.resolve(request.tool_choice)
        self._snapshot = Snapshot(
            self.state.response_id,
            self.state.created_at,
            door.echo(request, request.model, self._plan.echo),
        )

    async def _plan_for(self, request: TurnRequest) -> ToolPlan:
        engine, limit = self._engine, self._engine.settings.max_tools
        declared = self._chain.continuation.declared
        if declared:
            self.state.declared = list(declared)
            return await prepare(request.tools(), engine.handlers, self._names, limit, declared)
        return await plan_tools(
            bytes(request.raw.get("tools", b"")),
            request.tools,
            handlers=engine.handlers,
            names=self._names,
            name_limit=NAME_LIMIT,
            max_tools=limit,
            cache=engine.plans,
        )

    # --- round zero: what was suspended goes on

    def _claimed(self, inputs: Sequence[Item]) -> list[Item]:
        """The input, in which answers to suspended calls say nothing to the model themselves."""
        awaited = {key for call in self._chain.continuation.suspended for key in call.awaits}
        if not awaited:
            return list(inputs)
        answered: set[str] = set()
        for item in inputs:
            key = self._answer_key(item)
            if key in awaited:
                item.model = []
                answered.add(key)
        missing = sorted(awaited - answered)
        if missing:
            raise invalid(f"No tool output found for function call {missing[0]}.", "input")
        return list(inputs)

    def _answer_key(self, item: Item) -> str:
        handler = self._engine.handlers.for_item(item.type)
        return (handler.answers(item) if handler is not None else None) or ""

    async def _round_zero(self) -> LoopDecision:
        suspended = self._chain.continuation.suspended
        if not suspended:
            return LoopDecision(Step.CONTINUE)
        answers = {self._answer_key(item): item for item in self._request.input}
        self._begin()
        self._accumulator.begin_round(self._plan.registry.lookup, _nothing_refused, self._route)
        for call in suspended:
            await self._resume(call, [answers[key] for key in call.awaits])
        return await self._settle()

    async def _resume(self, suspended: SuspendedCall, answers: list[Item]) -> None:
        # The declaration may be missing from this request: the call still runs under its own.
        names = Ledger(NAME_LIMIT, self._names.table())
        plan = await prepare([Raw(suspended.tool)], self._engine.handlers, names, 1 << 30)
        entry = next(e for e in plan.registry if e.wire == suspended.call.name)
        round_call = self._accumulator.reopen_call(suspended.call, entry)
        binding = entry.ownership.binding
        if binding is None:
            raise ApiError(500, "A suspended call has no executor any more.", code="server_error")
        context = self._context()
        executor, call = binding.executor, suspended.call
        self._running.append(round_call)
        self.scheduler.start(
            call,
            binding,
            lambda: executor.resume(call, binding.params, suspended.state, answers, context),
            lambda outcome: self._show(round_call, outcome),
        )

    # --- a round

    async def _infer(self) -> None:
        request, target = self._request, self._target
        tools = self._plan.encoded(
            target.flags, lambda specs: target.protocol.encode_functions(specs, target.flags)
        )
        encoded = target.protocol.encode_request(
            request,
            model=target.model,
            items=self.state.model_items,
            tools=tools,
            choice=self._choice,
            flags=target.flags,
        )
        if not self._begun:
            self._notes.ignored += encoded.ignored
        decoder = target.protocol.decoder(summarise=request.reasoning.summary is not None)
        self._accumulator.begin_round(self._plan.registry.lookup, self._is_refused, self._route)
        inference = Inference(target, decoder, opened=self._begin, feed=self._accumulator.feed)
        await inference.run(encoded.body, self._sink)
        end = self._accumulator.end
        if isinstance(end, RoundFailed):
            await self._settle()
            raise end.error
        if end is None:
            raise ApiError(502, "The model server's answer had no end.", code="server_error")
        self.state.add_usage(end.usage)
        # A choice that is fulfilled must not force the next round too, or the loop never ends.
        self._choice = WireChoice(allowed=self._choice.allowed)

    def _is_refused(self, wire: str) -> bool:
        allowed = self._choice.allowed
        return allowed is not None and wire not in allowed

    def _route(self, call: RoundCall) -> None:
        """A call is complete: the gateway's own starts at once, while the model still writes."""
        entry = call.entry
        if call.status == "incomplete" or entry is None or call.refused:
            return
        if entry.ownership.owner is not Owner.GATEWAY:
            return
        self._running.append(call)
        binding = entry.ownership.binding
        if binding is None:
            return
        self.scheduler.submit(
            call.call, binding, self._context(), lambda outcome: self._show(call, outcome)
        )

    def _context(self) -> ExecutionContext:
        return ExecutionContext(self.state.response_id, self.state.round)

    def _show(self, call: RoundCall, outcome: Outcome) -> None:
        if not isinstance(outcome, Suspended):
            self._accumulator.finish_call(call, outcome)

    async def _settle(self) -> LoopDecision:
        """Wait for the round's executions, keep what they left, and decide."""
        outcomes = await self._outcomes() if self._running else {}
        suspended = 0
        for call, outcome in outcomes.items():
            suspended += self._record(call, outcome)
            if isinstance(outcome, Output) and outcome.declare:
                await self._declare(outcome.declare)
        calls = self._accumulator.calls
        refused = [call for call in calls if call.refused and call.status != "incomplete"]
        decision = classify_round(
            client_calls=sum(map(_is_client, calls)),
            gateway_calls=len(outcomes) + len(refused),
            suspended=suspended,
            incomplete_reason=getattr(self._accumulator.end, "incomplete_reason", None),
            rounds_left=self._engine.settings.max_rounds - self.state.round,
        )
        if decision.step is Step.CONTINUE:
            self._to_model(outcomes, refused)
        return decision

    async def _outcomes(self) -> dict[RoundCall, Outcome]:
        """Each gateway-owned call and how it ended, in the model's order."""
        results = iter(await self.scheduler.results())
        outcomes: dict[RoundCall, Outcome] = {}
        for call in self._running:
            entry = call.entry
            if entry is not None and entry.ownership.binding is not None:
                outcomes[call] = next(results)
            else:
                outcome = Failed(message="This server has no executor for the tool.")
                outcomes[call] = outcome
                self._accumulator.finish_call(call, outcome)
        self._running = []
        return outcomes

    def _record(self, call: RoundCall, outcome: Outcome) -> int:
        """Keep a call's hidden pair beside its public item; 1 for a suspended call."""
        pair: list[Flat] = [] if call.resumed else [flat_call(call)]
        if not isinstance(outcome, Suspended):
            pair.append(_flat_output(call, outcome))
            if call.record is not None:
                call.record.origin = Origin(model=pair)
            return 0
        for data in outcome.items:
            self._accumulator.add_item(data, Origin(model=pair))
            pair = []
        entry = call.entry
        tool = bytes(entry.declaration) if entry is not None else b"{}"
        self._suspended.append(
            SuspendedCall(call=call.call, tool=tool, awaits=outcome.awaits, state=outcome.state)
        )
        self._accumulator.flush()
        return 1

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
                said.append(_flat_output(call, outcome))
        for call in refused:
            text = f"The tool {call.call.name} may not be called in this turn."
            said.append(FunctionCallOutput(call.call.call_id, text))

    def _flat(self, part: OutputItem) -> list[Flat]:
        engine, target = self._engine, self._target
        flattener = Flattener(
            engine.handlers, self._names, engine.sealer, target.upstream, target.model
        )
        return flattener.flatten([flattener.stored(part.item(), part.origin)], "output")

    async def _declare(self, tools: Sequence[Raw]) -> None:
        """Tools for the rounds to come."""
        self.state.declared += tools
        self._plan = await prepare(
            self._request.tools(),
            self._engine.handlers,
            self._names,
            self._engine.settings.max_tools,
            self.state.declared,
        )

    # --- the beginning and the end

    def _begin(self) -> None:
        if self._begun:
            return
        self._begun = True
        self._sink.begin(self._notes)
        if not self._sink.streams:
            return
        snapshot = self._current("in_progress")
        accumulator = self._accumulator
        accumulator.put(ResponseEvent(-1, "response.created", snapshot))
        accumulator.put(ResponseEvent(-1, "response.in_progress", snapshot))
        # Not at once: what was read together with the head goes out in the same write.
        asyncio.get_running_loop().call_soon(accumulator.flush)

    def _current(self, status: ResponseStatus) -> Snapshot:
        if self._snapshot is None:
            raise RuntimeError("the turn is not prepared")
        snapshot = self._snapshot.copy()
        snapshot.status = status
        snapshot.output = [bytes(item.data) for item in sorted(self.state.output, key=_by_index)]
        snapshot.usage = self.state.usage
        return snapshot

    async def _finish(
        self,
        status: ResponseStatus,
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
        if self._request.store:
            await self._store(snapshot, required=error is None)
        for event in events:
            self._accumulator.put(event)
        self._accumulator.flush()
        self._ended = True
        self._sink.close()

    async def _store(self, snapshot: Snapshot, *, required: bool) -> None:
        """A failed turn is told to the client whether or not it can be stored."""
        try:
            await self._commit(snapshot)
        except StoreError as e:
            _log.error("a turn could not be stored", response_id=snapshot.id, error=str(e))
            if required:
                raise ApiError(500, "The response could not be stored.", code="server_error") from e

    async def _commit(self, snapshot: Snapshot) -> None:
        request = self._request
        bare = snapshot.copy()
        bare.output = ()
        continuation = Continuation(suspended=self._suspended, declared=self.state.declared)
        continuation.set_names(self._names.table())
        self.state.output.sort(key=_by_index)
        commit = make_commit(
            self.state,
            model=request.model,
            previous_response_id=request.previous_response_id,
            history=self._chain.keys,
            inputs=request.input,
            status=snapshot.status,
            snapshot=bare.encode(),
            continuation=continuation,
        )
        self._writing = asyncio.ensure_future(self._engine.store.commit(commit))
        await asyncio.shield(self._writing)

    async def fail(self, error: ApiError) -> None:
        """End in `response.failed`, or refuse where the client has seen nothing of the turn."""
        if self._begun and self._sink.streams:
            await self._finish("failed", error=error)
        else:
            self._sink.refuse(error)

    async def abandon(self) -> None:
        """The client has gone: what there is, is kept as cancelled."""
        await self.stop_calls()
        if self._writing is not None:
            # It was over but for the client's hearing of it.
            await asyncio.wait([self._writing])
            if (fault := self._writing.exception()) is not None:
                _log.error("a turn could not be stored", error=str(fault))
            return
        if self._ended:
            return
        if self._begun and self._sink.streams and self._request.store:
            await asyncio.shield(self._store(self._current("cancelled"), required=False))


def _flat_output(call: RoundCall, outcome: Output | Failed) -> FunctionCallOutput:
    if isinstance(outcome, Output):
        return FunctionCallOutput(call.call.call_id, outcome.output)
    return FunctionCallOutput(call.call.call_id, json.encode({"error": outcome.message}).decode())


def _is_client(call: RoundCall) -> bool:
    if call.refused or call.status == "incomplete":
        return False
    return call.entry is None or call.entry.ownership.owner is not Owner.GATEWAY


def _by_index(item: OutputItem) -> int:
    return item.index


def _nothing_refused(_: str) -> bool:
    return False
