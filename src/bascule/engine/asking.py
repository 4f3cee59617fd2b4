"""One round of inference: the model is asked, again where its answer does not follow the tool choice,
and in the end with the call forced."""

from collections.abc import Callable
from typing import Final

from bascule.engine import observe
from bascule.engine.choice import ChoiceRule, Violation, not_followed, rule_for
from bascule.engine.forcing import ForcedAnswer, demand, forcing
from bascule.engine.guard import Feed, Guard
from bascule.engine.inference import Inference
from bascule.engine.recovery import TextCalls
from bascule.engine.repairing import ArgumentRepair
from bascule.engine.sinks import Notes, Sink
from bascule.engine.state import TurnState
from bascule.engine.truncation import fitted
from bascule.protocols.errors import ApiError
from bascule.protocols.function import WireChoice
from bascule.protocols.responses.items import Flat
from bascule.protocols.responses.request import TurnRequest
from bascule.protocols.responses.response import Usage
from bascule.telemetry.observe import TurnObserver
from bascule.toolkit.arguments import ArgumentsSchema
from bascule.toolkit.plan import ToolPlan
from bascule.upstreams.target import Target

_NOT_TAKEN: Final = frozenset({400, 422, 500})
"""Statuses of servers that cannot make sense of a request which the gateway put together."""


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
        self._request = request
        self._target = target
        self._plan = plan
        self._choice = choice
        self._state = state
        self._sink = sink
        self._max_reasks = max_reasks
        self._observed = observed
        self._notes = notes
        self._opened = opened
        self._feed = feed
        self._body = b""

    async def run(self) -> None:
        """Raises ApiError when the server refused or failed before its answer began, and when no
        answer followed the choice. The usage of discarded answers is added to the state's."""
        names = self._plan.function_names
        parallel = self._request.parallel_tool_calls
        rule = rule_for(self._choice, self._target.flags, names, parallel=parallel)
        if rule is None:
            await self._ask(self._request, self._state.model_items, self._tools(), self._feed)
            return
        violation = await self._guarded(rule, None)
        asked = 0
        while violation is not None and asked < self._max_reasks:
            asked += 1
            observe.reasked(
                self._target.upstream, self._target.model, fault=violation.fault, times=asked
            )
            self._observed.reasked(violation.fault)
            violation = await self._again(rule, violation)
        if violation is not None:
            await self._last_resort(rule, violation, asked)

    def check_prompt(self, usage: Usage | None, notes: Notes) -> None:
        """Say so when the usage of the last answer shows that the server read part of the request
        only."""
        if observe.looks_cut(self._body, usage):
            observe.prompt_cut(self._target.upstream, self._target.model)
            self._observed.prompt_cut()
            notes.warnings.append(observe.PROMPT_CUT)

    def _tools(self) -> bytes:
        target = self._target
        return self._plan.encoded(
            target.flags, lambda tools: target.protocol.encode_tools(tools, target.flags)
        )

    # --- asked again

    async def _guarded(self, rule: ChoiceRule, before: Violation | None) -> Violation | None:
        items = self._state.model_items
        tools = self._tools()
        if before is not None:
            items = [*items, *before.retold(rule)]
            if rule.never:
                tools = b""
        guard = Guard(rule, self._plan.canonical, self._feed)
        await self._ask(self._request, items, tools, guard.feed)
        if guard.violation is not None:
            self._state.add_usage(guard.violation.usage)
        return guard.violation

    async def _again(self, rule: ChoiceRule, before: Violation) -> Violation | None:
        try:
            return await self._guarded(rule, before)
        except ApiError as e:
            if e.status not in _NOT_TAKEN:
                raise
            return Violation("error")

    # --- forced

    async def _last_resort(self, rule: ChoiceRule, violation: Violation, asked: int) -> None:
        if rule.never or not self._target.flags.structured_output:
            raise not_followed(rule, f"asked {asked + 1} times, it did otherwise each time")
        observe.forced(
            self._target.upstream, self._target.model, fault=violation.fault, reasks=asked
        )
        functions = [spec for spec in self._plan.functions if spec.name in rule.must]
        names = [spec.name for spec in functions]
        forced = ForcedAnswer(names, self._plan.schemas, self._feed)
        items = [*self._state.model_items, demand(functions)]
        try:
            await self._send(forcing(self._request, functions), items, b"", forced.feed)
        except ApiError as e:
            if e.status not in _NOT_TAKEN:
                raise
            raise not_followed(rule, f"structured output was refused: {e.message}") from e
        if forced.fault is not None:
            if forced.end is not None:
                self._state.add_usage(forced.end.usage)
            raise not_followed(rule, forced.fault)

    # --- one inference

    async def _ask(self, request: TurnRequest, items: list[Flat], tools: bytes, feed: Feed) -> None:
        flags = self._target.flags
        if tools and flags.repair_arguments:
            feed = ArgumentRepair(self._schema_of, feed).feed
        if tools and flags.text_tool_calls and self._choice.mode != "none":
            names = frozenset(self._plan.function_names)
            feed = TextCalls(names, feed).feed
        await self._send(request, items, tools, feed)

    async def _send(
        self, request: TurnRequest, items: list[Flat], tools: bytes, feed: Feed
    ) -> None:
        target = self._target
        encoded = target.protocol.encode_request(
            request,
            model=target.model,
            items=fitted(items, request, target, tools, self._notes),
            tools=tools,
            choice=self._choice if tools else WireChoice(),
            flags=target.flags,
        )
        if self._notes is not None:
            self._notes.ignored += encoded.ignored
            self._notes = None
        self._body = encoded.body
        decoder = target.protocol.decoder(
            summarise=request.reasoning.asked_summary is not None, logprobs=request.wants_logprobs
        )
        inference = Inference(
            target,
            decoder,
            opened=self._opened,
            feed=feed,
            observed=self._observed.round(target.url, target.headers, encoded.body),
        )
        await inference.run(encoded.body, self._sink)

    def _schema_of(self, wire: str) -> ArgumentsSchema | None:
        entry = self._plan.registry.lookup(wire)
        if entry is None or entry.lenient:
            return None
        return self._plan.schemas.of(entry.wire)
