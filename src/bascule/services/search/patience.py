"""Waits as long as an engine asks to be left alone."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from bascule.services.search.port import SearchEngine, SearchError, SearchOptions, SearchResult

MAX_WAIT: Final = 15.0
"""Seconds that a search waits; an engine that wants longer is not asked, and the model is told when to try
again."""
_DEFAULT: Final = 1.0
"""Seconds, if the engine does not say."""


class Patient(SearchEngine):
    """An engine that nobody asks before it allows it. What it said to one search holds for all."""

    def __init__(
        self,
        engine: SearchEngine,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._engine = engine
        self._clock = clock
        self._sleep = sleep
        self._until = 0.0
        self.calls = 0
        self.failures = 0
        self.error: str | None = None
        """What was wrong with the last search."""

    @property
    def limited(self) -> bool:
        """Whether the engine wants to be left alone now."""
        return self._until > self._clock()

    async def search(self, query: str, options: SearchOptions) -> Sequence[SearchResult]:
        self.calls += 1
        try:
            found = await self._asked(query, options)
        except SearchError as e:
            self.failures += 1
            self.error = e.message
            raise
        self.error = None
        return found

    async def aclose(self) -> None:
        await self._engine.aclose()

    async def _asked(self, query: str, options: SearchOptions) -> Sequence[SearchResult]:
        await self._wait()
        try:
            return await self._engine.search(query, options)
        except SearchError as e:
            if e.code != "rate_limited":
                raise
            self._limit(e)
        await self._wait()
        try:
            return await self._engine.search(query, options)
        except SearchError as e:
            if e.code == "rate_limited":
                self._limit(e)
                raise self._refused() from None
            raise

    def _limit(self, error: SearchError) -> None:
        wait = _DEFAULT if error.retry_after is None else error.retry_after
        self._until = max(self._until, self._clock() + wait)

    async def _wait(self) -> None:
        left = self._until - self._clock()
        if left > MAX_WAIT:
            raise self._refused()
        if left > 0:
            await self._sleep(left)

    def _refused(self) -> SearchError:
        left = max(1, round(self._until - self._clock()))
        told = f"The search engine allows no more searches now. Try again in {left} s."
        return SearchError("rate_limited", told, float(left))
