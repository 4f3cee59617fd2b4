"""Waiting for a fact, without sleeping."""

import asyncio
from collections.abc import Callable


class Watch:
    """Wakes those who wait for a fact each time something has changed."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def changed(self) -> None:
        """Something has changed: waiting facts are tried again."""
        self._event.set()
        self._event = asyncio.Event()

    async def until(self, fact: Callable[[], bool], what: str, seconds: float) -> None:
        """Return when the fact holds. Raises `TimeoutError`, saying what did not happen."""
        try:
            async with asyncio.timeout(seconds):
                while not fact():
                    await self._event.wait()
        except TimeoutError as error:
            raise TimeoutError(f"waited {seconds:g} s in vain for {what}") from error

    async def change(self) -> None:
        """Return at the next change."""
        await self._event.wait()
