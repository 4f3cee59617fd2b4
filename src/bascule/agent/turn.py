"""`TurnContext`: one turn of a session, from a prompt to an answer. It converts and delegates."""

import asyncio
import dataclasses
import time
from typing import TYPE_CHECKING, Final

import msgspec

from bascule.agent.calls import ToolCall
from bascule.agent.events import Event, TurnStatus, Usage
from bascule.agent.turn_diff import TurnDiffTracker
from bascule.protocols.ids import mint
from bascule.telemetry.logger import settle
from bascule.toolkit.outcome import Outcome
from bascule.toolkit.ownership import Owner, Ownership
from bascule.toolkit.registry import ToolEntry

if TYPE_CHECKING:
    from bascule.agent.session import Session
    from bascule.toolkit.scheduler import Scheduler


class TurnContext:
    """What belongs to one turn: its id, the diff of its patches, and its scheduler."""

    def __init__(self, session: "Session") -> None:
        self.id: Final = mint("turn")
        self.session: Final = session
        self.tracker: Final = TurnDiffTracker()
        self.usage: Final = Usage()
        self.began: Final = time.monotonic()
        self.status: TurnStatus = "completed"
        self.error: str | None = None
        self.rounds = 0
        self.observed: Final = session.telemetry.turn(session)
        self._made: Scheduler | None = None
        self._fault: str | None = None
        self.stop: Final = asyncio.Event()
        """Set when something happened after which nothing more is asked."""

    @property
    def _scheduler(self) -> "Scheduler":
        """Made for the first call: what it needs to log takes long to load."""
        if self._made is None:
            settle()

            from bascule.agent.scheduling import make_scheduler

            self._made = make_scheduler(self.observed)
        return self._made

    def submit(self, call: ToolCall, entry: ToolEntry) -> asyncio.Future[Outcome]:
        """Start a call as soon as those before it permit."""
        from bascule.agent.executor import LocalCall, LocalContext  # it knows turns
        from bascule.agent.handler import text_of

        local = LocalCall(
            call_id=call.call_id,
            name=entry.wire,
            arguments=text_of(call.payload),
            tool_call=call,
        )
        context = LocalContext(response_id=self.id, round=self.rounds, turn=self)
        binding = entry.ownership.binding
        if binding is not None and binding.params.alone(call.payload):
            alone = dataclasses.replace(binding, policy="exclusive")
            entry = msgspec.structs.replace(entry, ownership=Ownership(Owner.LOCAL, alone))
        return self._scheduler.submit(local, entry, context, _nobody)

    def emit(self, event: Event) -> None:
        self.session.emit(event)

    def fatal(self, message: str) -> None:
        """End the turn when the calls that run have ended."""
        self.end("failed", message)

    def end(self, status: TurnStatus, error: str) -> None:
        """The first word counts."""
        if not self.stop.is_set():
            self.status, self.error = status, error
            self.stop.set()

    def stopped(self, seconds: float) -> str:
        """What the model reads of a call that did not come to its end."""
        if self._fault is not None:
            return f"aborted after {seconds:.1f}s: {self._fault}"
        return f"aborted by user after {seconds:.1f}s"

    async def cancel(self, fault: str | None = None) -> None:
        """Stop all that runs, and wait until it has stopped. `fault` is why, where no user did it."""
        self._fault = fault
        if self._made is not None:
            await self._made.cancel()

    async def settle(self) -> None:
        """A round is over: its outcomes need not be kept any longer."""
        if self._made is not None:
            await self._made.results()


def _nobody(outcome: Outcome) -> None:
    """The call's future says it."""
