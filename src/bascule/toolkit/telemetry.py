"""The one wrapper around every execution: time limit, isolation, and what is recorded of it."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any

import structlog

from bascule.telemetry.observe import TurnObserver
from bascule.toolkit.outcome import Call, Failed, Outcome, Output, Suspended
from bascule.toolkit.ownership import Binding

Run = Callable[[], Coroutine[Any, Any, Outcome]]
"""Begins the execution."""

_log = structlog.stdlib.get_logger("bascule.tools")


async def observed(
    call: Call, kind: str, binding: Binding, run: Run, turn: TurnObserver | None = None
) -> Outcome:
    """Run an execution: whatever goes wrong in it becomes that call's error result. `kind` is the
    declared tool type."""
    began = time.perf_counter()
    span = None if turn is None else turn.tool_span(kind, call.name, call.call_id)
    ended = "cancelled"
    try:
        outcome = await _isolated(binding, run)
        ended = type(outcome).__name__.lower()
        return outcome
    finally:
        seconds = time.perf_counter() - began
        if turn is not None:
            turn.tool_call(kind, ended, seconds)
        if span is not None:
            span.end_tool(ended)
        _log.info(
            "tool call",
            type=kind,
            executor=type(binding.executor).__name__,
            outcome=ended,
            seconds=round(seconds, 4),
        )


async def _isolated(binding: Binding, run: Run) -> Outcome:
    try:
        async with asyncio.timeout(binding.timeout):
            outcome = await run()
    except TimeoutError:
        return Failed(message=f"The tool did not answer in {binding.timeout:g} s.", code="timeout")
    except Exception as e:  # noqa: BLE001 -- one call's fault must not reach its siblings
        _log.warning("tool failed", executor=type(binding.executor).__name__, exc_info=e)
        return Failed(message=f"The tool failed: {type(e).__name__}.")
    if not isinstance(outcome, (Output, Failed, Suspended)):  # pyright: ignore[reportUnnecessaryIsInstance]
        _log.error("tool gave no outcome", executor=type(binding.executor).__name__)
        return Failed(message="The tool gave a result of the wrong kind.")
    return outcome
