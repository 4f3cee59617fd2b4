"""Stage 6: runs a round's gateway-owned calls, bounded, isolated, results in the model's order."""

import asyncio
from collections.abc import Callable
from contextvars import copy_context
from typing import Any, Final

from bascule.telemetry.observe import TurnObserver
from bascule.toolkit.admission import Admission
from bascule.toolkit.execution import GRACE, Execution, Run
from bascule.toolkit.executor import ExecutionContext
from bascule.toolkit.outcome import Call, Outcome
from bascule.toolkit.ownership import Binding
from bascule.toolkit.registry import ToolEntry
from bascule.toolkit.telemetry import Record

Finished = Callable[[Outcome], None]

_MARGIN: Final = 0.2
"""Seconds for what is torn down to be gone."""

_strays: Final[set[asyncio.Task[Any]]] = set()
"""Tasks that cannot be ended: they wait for a task of the executor's own that does not stop."""


class Scheduler:
    """One for each turn. Calls start when they are submitted, as far as the window and the tools'
    policies permit; `results` waits for all of them. `cancel` leaves no task behind."""

    def __init__(
        self,
        width: int,
        max_result_bytes: int,
        observed: TurnObserver | None = None,
        *,
        grace: float = GRACE,
    ) -> None:
        """`width` calls run at once at most; `grace` are the seconds that each has to stop."""
        self._observed = observed
        self._context = copy_context() if observed is None else observed.context
        self._max_result_bytes = max_result_bytes
        self._grace = grace
        self._admission: Admission[Execution] = Admission(width)
        self._order: list[Execution] = []
        self._tasks: dict[asyncio.Task[Any], Execution] = {}
        self._closed = False

    def submit(
        self, call: Call, entry: ToolEntry, context: ExecutionContext, finished: Finished
    ) -> asyncio.Future[Outcome]:
        """Start a call of a tool that has a binding; `finished` is told the outcome as soon as it is
        there. Gives the same outcome, cancelled for a call that `cancel` has stopped."""
        binding = entry.ownership.binding
        if binding is None:
            raise ValueError("the tool has no executor")
        executor, params = binding.executor, binding.params
        return self.start(
            call,
            entry.identity.kind,
            binding,
            lambda: executor.execute(call, params, context),
            finished,
        )

    def start(
        self, call: Call, kind: str, binding: Binding, run: Run, finished: Finished
    ) -> asyncio.Future[Outcome]:
        """The same for any coroutine of the binding's executor, such as the rest of a call that was
        suspended."""
        execution = Execution(
            call,
            binding,
            run,
            record=Record(call, kind, binding, self._observed),
            context=self._context,
            max_result_bytes=self._max_result_bytes,
            grace=self._grace,
            finished=finished,
            gone=self._gone,
        )
        self._order.append(execution)
        if self._closed:
            execution.cancel()
        else:
            self._admission.join(execution)
            self._admit()
        return execution.outcome

    async def results(self) -> list[Outcome]:
        """The outcomes of all calls since the last time, in the order of submission."""
        order, self._order = self._order, []
        return [await execution.outcome for execution in order]

    async def cancel(self) -> None:
        """Stop what runs and wait until it has stopped: for the grace period at most. What is
        submitted later does not run."""
        self._closed = True
        for execution in (*self._admission.waiting, *self._admission.running):
            execution.cancel()
        if not self._tasks:
            return
        torn = all(execution.torn for execution in self._tasks.values())
        limit = _MARGIN if torn else self._grace + _MARGIN
        _, left = await asyncio.wait(tuple(self._tasks), timeout=limit)
        for task in left:
            self._tasks.pop(task, None)
            _strays.add(task)
            task.add_done_callback(_strays.discard)

    def _admit(self) -> None:
        for execution in self._admission.admit():
            execution.begin()
            if execution.task is not None:
                self._tasks[execution.task] = execution
                execution.task.add_done_callback(self._forget)

    def _gone(self, execution: Execution) -> None:
        self._admission.leave(execution)
        if not self._closed:
            self._admit()

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._tasks.pop(task, None)
