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
from bascule.toolkit.outcome import Outcome
from bascule.toolkit.ownership import Owner, Ownership
from bascule.toolkit.registry import ToolEntry
from bascule.toolkit.scheduler import Scheduler

if TYPE_CHECKING:
    from bascule.agent.session import Session

MAX_AT_ONCE: Final = 16
_MAX_RESULT_BYTES: Final = 64 * 1024 * 1024
"""Images are among the results."""


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
        self._scheduler: Final = Scheduler(MAX_AT_ONCE, _MAX_RESULT_BYTES, self.observed)
        self.stop: Final = asyncio.Event()
        """Set when something happened after which nothing more is asked."""

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

    async def cancel(self) -> None:
        """Stop all that runs, and wait until it has stopped."""
        await self._scheduler.cancel()

    async def settle(self) -> None:
        """A round is over: its outcomes need not be kept any longer."""
        await self._scheduler.results()


def _nobody(outcome: Outcome) -> None:
    """The call's future says it."""
