"""The one wrapper around every execution: what an operator is told of it.

A span, a counter by type and outcome, a time and a log line; the tool's name, its arguments and its
result only where `[telemetry]` says so.
"""

import time
from typing import TYPE_CHECKING, Any

import structlog

from bascule.protocols import json
from bascule.telemetry.logs import lines
from bascule.telemetry.observe import TurnObserver
from bascule.toolkit.outcome import Call, Failed, Outcome, Output
from bascule.toolkit.ownership import Binding

if TYPE_CHECKING:
    from bascule.telemetry.tracing import Span

_log = structlog.stdlib.get_logger("bascule.tools")


class Record:
    """Of one execution. `kind` is the declared tool type; the executor is named by its class."""

    __slots__ = (
        "_began",
        "_binding",
        "_blocked",
        "_call",
        "_kind",
        "_span",
        "_submitted",
        "_turn",
    )

    def __init__(self, call: Call, kind: str, binding: Binding, turn: TurnObserver | None) -> None:
        self._call = call
        self._kind = kind
        self._binding = binding
        self._turn = turn
        self._submitted = time.perf_counter()
        self._began: float | None = None
        self._span: Span | None = None
        self._blocked = False

    def begin(self) -> None:
        """It runs from now on; until now it waited for its turn."""
        self._began = time.perf_counter()
        if self._turn is not None:
            call = self._call
            self._span = self._turn.tool_span(self._kind, call.name, call.call_id, call.arguments)

    def end(self, how: str, outcome: Outcome | None) -> None:
        """`how`: output, failed, suspended, timeout, cancelled. Called once, also for a call that never
        began."""
        seconds = None if self._began is None else time.perf_counter() - self._began
        if self._turn is not None:
            self._turn.tool_call(self._kind, how, seconds)
        if seconds is None or self._began is None:
            return
        fields: dict[str, Any] = {
            "type": self._kind,
            "executor": type(self._binding.executor).__name__,
            "outcome": how,
            "seconds": round(seconds, 4),
            "waited": round(self._began - self._submitted, 4),
        }
        detail = None if self._turn is None else self._turn.tool_detail
        if detail is not None:
            fields |= detail.of_call(self._call.name, self._call.call_id, self._call.arguments)
            if detail.content and outcome is not None:
                result = detail.shown(_text(outcome, detail.limit))
                fields["result"] = result
                if self._span is not None:
                    self._span.tool_result(result)
        if self._span is not None:
            self._span.end_tool(how)
        lines.info("tool call", fields)

    # --- what went wrong with it

    def failed(self, fault: BaseException) -> None:
        """The executor raised."""
        _log.warning("tool failed", **self._who(), exc_info=fault)

    def wrong(self, fault: Exception) -> None:
        """It gave back what is no outcome."""
        _log.error("tool gave no outcome", **self._who(), exc_info=fault)

    def unshown(self, fault: Exception) -> None:
        """The outcome is kept, but its item could not be written."""
        _log.error("a tool's outcome could not be shown", **self._who(), exc_info=fault)

    def public_left_out(self, size: int) -> None:
        """The public part was over the limit for results."""
        _log.warning("a tool's public part was too large", **self._who(), bytes=size)

    def blocked(self, seconds: float) -> None:
        """It held the event loop. A metric counts each time, the log tells of the first."""
        if self._turn is not None:
            self._turn.tool_blocked(self._kind)
        if not self._blocked:
            self._blocked = True
            _log.warning("a tool blocked the event loop", **self._who(), seconds=round(seconds, 3))

    def stuck(self, seconds: float, place: str) -> None:
        """It holds the event loop still, which may never end. Called in another thread."""
        self._blocked = True
        _log.warning(
            "a tool blocks the event loop", **self._who(), seconds=round(seconds, 3), at=place
        )

    def unstopped(self) -> None:
        """It went on although it was cancelled, and is torn down."""
        if self._turn is not None:
            self._turn.tool_unstopped(self._kind)
        _log.warning("a tool did not stop when told to", **self._who())

    def _who(self) -> dict[str, Any]:
        return {"type": self._kind, "executor": type(self._binding.executor).__name__}


def _text(outcome: Outcome, limit: int) -> str:
    """What the model is told, or its beginning."""
    if isinstance(outcome, Failed):
        return outcome.message
    if not isinstance(outcome, Output):
        return ""
    if isinstance(outcome.output, str):
        return outcome.output
    shown: list[str] = []
    for part in outcome.output:
        shown.append(part.text if part.text is not None else json.encode(part).decode())
        limit -= len(shown[-1])
        if limit <= 0:
            break
    return "\n".join(shown)
