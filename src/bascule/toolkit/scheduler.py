"""Stage 6: runs a round's gateway-owned calls, bounded, isolated, results in the model's order."""

import asyncio
from collections.abc import Callable
from contextvars import copy_context

from bascule.telemetry.observe import TurnObserver
from bascule.toolkit.executor import ExecutionContext, Policy
from bascule.toolkit.outcome import Call, Outcome, Output
from bascule.toolkit.ownership import Binding
from bascule.toolkit.registry import ToolEntry
from bascule.toolkit.telemetry import Run, observed

Finished = Callable[[Outcome], None]


class Scheduler:
    """One for each turn. Calls start when they are submitted, as far as the width and the tools'
    policies permit; `results` waits for all of them. `cancel` leaves no task behind."""

    def __init__(
        self, width: int, max_result_bytes: int, observed: TurnObserver | None = None
    ) -> None:
        self._observed = observed
        self._context = copy_context() if observed is None else observed.context
        self._width = asyncio.Semaphore(width)
        self._max_result_bytes = max_result_bytes
        self._by_name: dict[str, asyncio.Lock] = {}
        self._running: set[asyncio.Task[Outcome]] = set()
        self._order: list[asyncio.Task[Outcome]] = []

    def submit(
        self, call: Call, entry: ToolEntry, context: ExecutionContext, finished: Finished
    ) -> None:
        """Start a call of a tool that has a binding; `finished` is told the outcome as soon as it is
        there."""
        binding = entry.ownership.binding
        if binding is None:
            raise ValueError("the tool has no executor")
        executor, params = binding.executor, binding.params
        self.start(
            call,
            entry.identity.kind,
            binding,
            lambda: executor.execute(call, params, context),
            finished,
        )

    def start(self, call: Call, kind: str, binding: Binding, run: Run, finished: Finished) -> None:
        """The same for any coroutine of the binding's executor, such as the rest of a call that was
        suspended."""
        # Calls are submitted from an upstream's read callback: the turn's own context is given along.
        task = asyncio.get_running_loop().create_task(
            self._run(call, kind, binding, run, finished), context=self._context.copy()
        )
        self._running.add(task)
        self._order.append(task)
        task.add_done_callback(self._running.discard)

    async def _run(
        self, call: Call, kind: str, binding: Binding, run: Run, finished: Finished
    ) -> Outcome:
        async with self._turn_of(call.name, binding.policy), self._width:
            outcome = await observed(call, kind, binding, run, self._observed)
        outcome = self._bounded(outcome)
        finished(outcome)
        return outcome

    def _turn_of(self, name: str, policy: Policy) -> asyncio.Lock:
        if policy == "parallel":
            return asyncio.Lock()  # its own: nobody waits
        key = "" if policy == "exclusive" else name
        return self._by_name.setdefault(key, asyncio.Lock())

    def _bounded(self, outcome: Outcome) -> Outcome:
        if isinstance(outcome, Output) and isinstance(outcome.output, str):
            data = outcome.output.encode("utf-8", "replace")
            if len(data) > self._max_result_bytes:
                kept = data[: self._max_result_bytes].decode(errors="ignore")
                outcome.output = f"{kept}\n[cut: the result had {len(data)} bytes]"
        return outcome

    async def results(self) -> list[Outcome]:
        """The outcomes of all calls since the last time, in the order of submission."""
        order, self._order = self._order, []
        return [await task for task in order]

    async def cancel(self) -> None:
        """Stop what runs and wait until it has stopped."""
        tasks = list(self._running)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
