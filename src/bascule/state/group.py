"""The group commit: one writer that takes all that is queued at once."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, Generic, TypeAlias, TypeVar

from bascule.state.store import StoreError

# Longer groups save nothing more and hold the database's lock longer.
_MAX_GROUP: Final = 64

Job = TypeVar("Job")
Outcomes: TypeAlias = list[int | StoreError]


class GroupWriter(Generic[Job]):
    """Hands queued jobs to `perform`, group by group, in order, never two groups at once.

    `perform` starts the work elsewhere (on a thread, in a task) and gives a future of one outcome
    per job. No task waits in here: the end of one group starts the next, so nothing that a caller
    cancels can stop the queue. A job whose caller was cancelled is performed all the same.
    """

    def __init__(self, perform: Callable[[list[Job]], "asyncio.Future[Outcomes]"]) -> None:
        self._perform = perform
        self._loop = asyncio.get_running_loop()
        self._queue: deque[tuple[Job, asyncio.Future[int]]] = deque()
        self._busy = False
        self._idle = asyncio.Event()
        self._idle.set()

    async def submit(self, job: Job) -> int:
        """The job's outcome, once its transaction has ended. Raises StoreError if it failed."""
        waiter: asyncio.Future[int] = self._loop.create_future()
        self._queue.append((job, waiter))
        if not self._busy:
            self._busy = True
            self._idle.clear()
            # Not at once: whatever else is ready in this turn of the loop joins the group.
            self._loop.call_soon(self._next)
        return await waiter

    async def drain(self) -> None:
        """Returns when nothing is queued or under way."""
        await self._idle.wait()

    def _next(self) -> None:
        if not self._queue:
            self._busy = False
            self._idle.set()
            return
        group = [self._queue.popleft() for _ in range(min(len(self._queue), _MAX_GROUP))]
        running = self._perform([job for job, _ in group])
        running.add_done_callback(partial(self._settle, [waiter for _, waiter in group]))

    def _settle(
        self,
        waiters: Sequence["asyncio.Future[int]"],
        done: "asyncio.Future[Outcomes]",
    ) -> None:
        for waiter, outcome in zip(waiters, _outcomes(done, len(waiters)), strict=True):
            if waiter.done():  # cancelled
                continue
            if isinstance(outcome, StoreError):
                waiter.set_exception(outcome)
            else:
                waiter.set_result(outcome)
        self._next()


def _outcomes(done: "asyncio.Future[Outcomes]", count: int) -> Outcomes:
    if done.cancelled():
        return [StoreError("the write was abandoned") for _ in range(count)]
    error = done.exception()
    if error is None:
        return done.result()
    return [StoreError(f"the write failed: {error}") for _ in range(count)]
