"""The one wrapper around every execution: time limit, isolation, and what is recorded of it."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any

import structlog

from bascule.toolkit.handler import ToolExecutor
from bascule.toolkit.outcome import Call, Failed, Outcome, Output, Suspended

Run = Callable[[], Coroutine[Any, Any, Outcome]]
"""Begins the execution."""

_log = structlog.stdlib.get_logger("bascule.tools")


async def observed(
    call: Call,
    executor: ToolExecutor[Any],
    run: Run,
) -> Outcome:
    """Run an execution: whatever goes wrong in it becomes that call's error result."""
    began = time.perf_counter()
    outcome = await _isolated(executor, run)
    _log.info(
        "tool call",
        executor=type(executor).__name__,
        outcome=type(outcome).__name__.lower(),
        seconds=round(time.perf_counter() - began, 4),
    )
    return outcome


async def _isolated(executor: ToolExecutor[Any], run: Run) -> Outcome:
    try:
        async with asyncio.timeout(executor.timeout):
            outcome = await run()
    except TimeoutError:
        return Failed(message=f"The tool did not answer in {executor.timeout:g} s.", code="timeout")
    except Exception as e:  # noqa: BLE001 -- one call's fault must not reach its siblings
        _log.warning("tool failed", executor=type(executor).__name__, exc_info=e)
        return Failed(message=f"The tool failed: {type(e).__name__}.")
    if not isinstance(outcome, (Output, Failed, Suspended)):  # pyright: ignore[reportUnnecessaryIsInstance]
        _log.error("tool gave no outcome", executor=type(executor).__name__)
        return Failed(message="The tool gave a result of the wrong kind.")
    return outcome
