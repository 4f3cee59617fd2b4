"""The commands of a session that outlive the calls which started them."""

import asyncio
import secrets
from typing import Final

from bascule.agent.processes.output import Cleaner
from bascule.agent.processes.process import Heard, Process, Streams, end_marked, start
from bascule.services.sandbox import Prepared

MAX_RUNNING: Final = 64


class TooMany(Exception):
    """As many commands run as may."""

    loggable = True


class Running:
    """One command under its number."""

    def __init__(self, number: int, process: Process) -> None:
        self.number: Final = number
        self.process: Final = process
        self.cleaner: Final = Cleaner()
        self.confined = True
        """Whether it runs within the boundary of the session."""
        self.empty_polls = 0
        """How often in a row nothing was there."""


class Commands:
    """Holds those that run, by number. `aclose` leaves none behind."""

    def __init__(self, limit: int = MAX_RUNNING) -> None:
        self._limit = limit
        self._mark = secrets.token_hex(8)
        self._running: dict[int, Running] = {}
        self._starting = 0
        self._last = 0
        self._ended: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._running)

    async def start(
        self, prepared: Prepared, streams: Streams, *, heard: Heard | None = None
    ) -> Running:
        """Raises TooMany, OSError."""
        if len(self._running) + self._starting >= self._limit:
            prepared.release()
            raise TooMany(f"{self._limit} commands run already: wait for some of them to end.")
        self._starting += 1
        self._last += 1
        number = self._last
        try:
            mark = f"{self._mark}.{number}"
            process = await start(prepared, streams, heard=heard, mark=mark)
        finally:
            self._starting -= 1
        running = self._running[number] = Running(number, process)
        return running

    def get(self, number: int) -> Running | None:
        """None for a number that was never given, or whose command has ended and been heard of."""
        return self._running.get(number)

    def exit_code_of(self, number: int) -> int | None:
        """How a command ended that is forgotten otherwise."""
        return self._ended.get(number)

    def forget(self, running: Running) -> None:
        """It has ended, and whoever asked knows."""
        if self._running.pop(running.number, None) is not None:
            self._ended[running.number] = running.process.exit_code or 0

    async def aclose(self) -> None:
        running = list(self._running.values())
        self._running.clear()
        await asyncio.gather(*(one.process.stop() for one in running))
        if self._last:
            await end_marked(self._mark)
