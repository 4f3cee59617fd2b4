"""The one wrapper around every local call: approvals, boundary, events, and what became of it."""

import asyncio
import math
import time
from collections.abc import Callable
from typing import Any, Final

from msgspec import Raw

from bascule.agent.approvals.gate import Gate
from bascule.agent.calls import ToolCall, ToolOutput, aborted
from bascule.agent.events import ToolBegan, ToolEnded, ToolPrinted
from bascule.agent.handler import FatalFault, LocalHandler, ToolFault, ToolInvocation, text_of
from bascule.agent.turn import TurnContext
from bascule.telemetry.logger import Logger
from bascule.toolkit.executor import ExecutionContext, ToolExecutor
from bascule.toolkit.outcome import Call, Outcome

_log = Logger("bascule.agent")


class LocalCall(Call, kw_only=True):
    """A call with the payload that was read of it."""

    tool_call: ToolCall


class LocalContext(ExecutionContext, kw_only=True):
    turn: TurnContext


class LocalExecutor(ToolExecutor[LocalHandler]):
    """Runs handlers. Their own time limits are in their arguments."""

    policy = "exclusive"
    timeout = math.inf
    undeclared: Final = Raw(b"null")

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    async def execute(self, call: Call, params: LocalHandler, context: ExecutionContext) -> Outcome:
        if not isinstance(call, LocalCall) or not isinstance(context, LocalContext):
            raise TypeError("a local tool is called by an agent's turn")
        run = _Run(call.tool_call, params, context.turn, self._gate)
        return (await run.output()).outcome()


class _Run:
    """One call, from its arguments to its end."""

    def __init__(
        self, call: ToolCall, handler: LocalHandler, turn: TurnContext, gate: Gate
    ) -> None:
        self._call = call
        self._handler = handler
        self._turn = turn
        self._gate = gate
        self._began = time.perf_counter()
        self._shown = False
        self._invocation = ToolInvocation(
            session=turn.session,
            turn=turn,
            tracker=turn.tracker,
            sub_id=turn.id,
            call_id=call.call_id,
            payload=call.payload,
            boundary=turn.session.boundary,
            live=_live(turn, call.call_id),
        )

    async def output(self) -> ToolOutput:
        try:
            output = await self._gated()
        except ToolFault as e:
            output = aborted(str(e))
        except FatalFault as e:
            self._turn.fatal(str(e))
            output = aborted()
        except asyncio.CancelledError:
            self._end("aborted", aborted(self._turn.stopped(time.perf_counter() - self._began)))
            raise
        except Exception as e:  # noqa: BLE001 -- a handler may be the user's own
            _log.exception("a tool failed", tool=str(self._call.name))
            output = aborted(f"The tool failed: {type(e).__name__}.")
        self._end("completed" if output.success else "failed", output)
        return output

    async def _gated(self) -> ToolOutput:
        handler, invocation = self._handler, self._invocation
        action = invocation.action = await handler.action(invocation)
        if action is not None:
            invocation.boundary = await self._gate.admit(action, self._call, self._turn)
        self._begin()
        output = await handler.handle(invocation)
        if output.denied and action is not None:
            wider = await self._gate.wider(action, self._call, self._turn)
            telemetry = self._turn.session.telemetry
            telemetry.sandbox_stopped(self._turn, self._call, again=wider is not None)
            if wider is not None:
                invocation.boundary = wider
                output = await handler.handle(invocation)
        return output

    # --- what others are told

    def _begin(self) -> None:
        self._shown = True
        name, action = str(self._call.name), self._invocation.action
        self._turn.emit(ToolBegan(self._call.call_id, name, text_of(self._call.payload), action))

    def _end(self, how: Any, output: ToolOutput) -> None:
        if not self._shown:
            self._begin()
        seconds = time.perf_counter() - self._began
        self._turn.session.telemetry.tool_result(self._turn, self._call, how, output.text, seconds)
        self._turn.emit(
            ToolEnded(
                self._call.call_id,
                str(self._call.name),
                how,
                output.text,
                seconds,
                output.exit_code,
                self._invocation.action,
            )
        )


_LIVE_CHARACTERS: Final = 256 * 1024
"""Of one call that are shown while it runs: nobody reads more, and a flood would hold up the display."""


def _live(turn: TurnContext, call_id: str) -> Callable[[str], None]:
    left = _LIVE_CHARACTERS

    def live(text: str) -> None:
        nonlocal left
        if left <= 0 or not text:
            return
        if len(text) > left:
            text = text[:left] + "\n[more is printed, and not shown while it runs]\n"
        left -= len(text)
        turn.emit(ToolPrinted(call_id, text))

    return live
