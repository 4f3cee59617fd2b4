"""Deletes responses that have become too old, in the background."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final

import structlog

from bascule.state.store import Store

_log = structlog.stdlib.get_logger("bascule.state")

FIRST_SECONDS: Final = 60.0
"""From the start to the first look: whoever starts has other things to do."""
PERIOD_SECONDS: Final = 3600.0
BATCH: Final = 50
"""Responses in one transaction: turns wait for it no longer than for one group of theirs."""
PAUSE_SECONDS: Final = 0.1
"""Between two batches, for the turns that have come meanwhile."""

_DAY: Final = 86_400


class Retention:
    """Keeps responses for `days`, then deletes them; conversations stay until somebody deletes them.

    A fault of the database is logged, and the next round is another try. `clock` gives Unix
    seconds; `sleep` waits for some.
    """

    def __init__(
        self,
        store: Store,
        days: float,
        *,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._store = store
        self._seconds = days * _DAY
        self._clock = clock
        self._sleep = sleep
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begins to look, now and then; not at all where responses are kept for ever (0 days)."""
        if self._seconds and self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run(), name="retention")

    async def aclose(self) -> None:
        """Ends it; a batch that has begun is written by the store's own means."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
            self._task = None

    async def _run(self) -> None:
        await self._sleep(FIRST_SECONDS)
        while True:
            try:
                await self.sweep()
            except Exception as error:  # noqa: BLE001 -- the next round may go better
                _log.error("old responses could not be deleted", error=str(error))
            await self._sleep(PERIOD_SECONDS)

    async def sweep(self) -> int:
        """Deletes all that is too old now; gives the number. Raises StoreError."""
        before = int(self._clock() - self._seconds)
        deleted = 0
        while batch := await self._store.expire(before, BATCH):
            deleted += batch
            if batch < BATCH:
                break
            await self._sleep(PAUSE_SECONDS)
        if deleted:
            _log.info("deleted old responses", count=deleted)
        return deleted
