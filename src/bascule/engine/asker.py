"""One question to the model: encoded, sent, and its answer pushed through the stages that the server
makes necessary."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from bascule.engine import observe
from bascule.engine.guard import Feed
from bascule.engine.inference import Inference
from bascule.engine.recovery import TextCalls
from bascule.engine.repairing import ArgumentRepair
from bascule.engine.sinks import Notes, Sink
from bascule.engine.state import TurnState
from bascule.engine.truncation import fitted
from bascule.protocols.function import WireChoice
from bascule.protocols.responses.items import Flat
from bascule.protocols.responses.request import TurnRequest
from bascule.protocols.responses.response import Usage
from bascule.telemetry.observe import TurnObserver
from bascule.toolkit.arguments import ArgumentsSchema
from bascule.toolkit.plan import ToolPlan
from bascule.upstreams.target import Target

UNREADABLE: Final = frozenset({400, 422, 500})
"""Statuses of servers that cannot make sense of a request which the gateway put together."""


class Asker:
    """Asks any number of times for one round's answer.

    `opened` is called when a server has accepted a request. `notes` takes what the client is to be
    told; None when it cannot be told any more.
    """

    def __init__(
        self,
        request: TurnRequest,
        target: Target,
        plan: ToolPlan,
        *,
        state: TurnState,
        sink: Sink,
        observed: TurnObserver,
        max_reasks: int,
        notes: Notes | None,
        opened: Callable[[], None],
    ) -> None:
        self.request = request
        self.target = target
        self.plan = plan
        self.state = state
        self.asked = 0
        """How often the model was asked again."""
        self._sink = sink
        self._max_reasks = max_reasks
        self._observed = observed
        self._notes = notes
        self._opened = opened
        self._body = b""

    @property
    def may_ask_again(self) -> bool:
        return self.asked < self._max_reasks

    def note_reask(self, fault: str) -> None:
        """The model is asked again; `fault` is one of the code's own few words."""
        self.asked += 1
        target = self.target
        observe.reasked(target.upstream, target.model, fault=fault, times=self.asked)
        self._observed.reasked(fault)

    def tools(self) -> bytes:
        """The list as the server is told it."""
        target = self.target
        return self.plan.encoded(
            target.flags, lambda tools: target.protocol.encode_tools(tools, target.flags)
        )

    def check_prompt(self, usage: Usage | None, notes: Notes) -> None:
        """Say so when the usage of the last answer shows that the server read part of the request
        only."""
        if observe.looks_cut(self._body, usage):
            observe.prompt_cut(self.target.upstream, self.target.model)
            self._observed.prompt_cut()
            notes.warnings.append(observe.PROMPT_CUT)

    async def ask(
        self,
        items: list[Flat],
        tools: bytes,
        feed: Feed,
        choice: WireChoice,
    ) -> None:
        """Calls are repaired, and found in text, where the profile says so. Raises ApiError when the
        server refused or failed before its answer began."""
        flags = self.target.flags
        if tools and flags.repair_arguments:
            feed = ArgumentRepair(self._schema_of, feed).feed
        if tools and flags.text_tool_calls and choice.mode != "none":
            names = frozenset(self.plan.function_names)
            feed = TextCalls(names, feed).feed
        await self.send(self.request, items, tools, feed, choice)

    async def send(
        self,
        request: TurnRequest,
        items: list[Flat],
        tools: bytes,
        feed: Feed,
        choice: WireChoice,
        members: Mapping[str, Any] | None = None,
    ) -> None:
        """The answer as it comes. `members` are more of the request's, for this server."""
        target = self.target
        encoded = target.protocol.encode_request(
            request,
            model=target.model,
            items=fitted(items, request, target, tools, self._notes),
            tools=tools,
            choice=choice if tools else WireChoice(),
            flags=target.flags,
            constraint=members,
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
        entry = self.plan.registry.lookup(wire)
        if entry is None or entry.lenient:
            return None
        return self.plan.schemas.of(entry.wire)
