"""Reads pages in a process of its own: parsing takes long, and what is parsed is a stranger's."""

import asyncio
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from contextlib import suppress
from typing import Final

from bascule.services.pages.messages import LENGTH, Extracted, Task, encode, extracted_of

_ALONE: Final = ("PATH", "LANG", "LC_ALL", "TMPDIR")
"""What the process gets of the environment: there are secrets in it."""
_FAREWELL: Final = 2.0
"""Seconds for the process to end."""


class Extractor:
    """One page at a time; the process is started when it is first needed, and again after a page that
    it did not survive. `timeout` is seconds for one page."""

    def __init__(self, timeout: float = 15.0) -> None:
        self._timeout = timeout
        self._process: Process | None = None
        self._lock = asyncio.Lock()
        self._running: set[asyncio.Task[Extracted]] = set()

    async def extract(self, task: Task) -> Extracted:
        """What a page says; `fault` is set where that cannot be told."""
        running = asyncio.create_task(self._in_turn(encode(task)))
        self._running.add(running)
        running.add_done_callback(self._done)
        # Who gives up leaves the process as it is: it is in the middle of an answer.
        return await asyncio.shield(running)

    async def aclose(self) -> None:
        for running in list(self._running):
            running.cancel()
        async with self._lock:
            await self._end()

    def _done(self, running: asyncio.Task[Extracted]) -> None:
        self._running.discard(running)
        if not running.cancelled():
            running.exception()  # told to whoever waits; nobody may

    async def _in_turn(self, data: bytes) -> Extracted:
        async with self._lock:
            try:
                async with asyncio.timeout(self._timeout):
                    return await self._exchange(data)
            except TimeoutError:
                fault = f"The page cannot be read within {self._timeout:g} s."
            except (EOFError, OSError):
                fault = "The page cannot be read: it breaks its reader."
            except asyncio.CancelledError:
                self._kill()
                raise
            self._kill()
            await self._end()
            return Extracted(fault=fault)

    async def _exchange(self, data: bytes) -> Extracted:
        process = self._process
        if process is None or process.returncode is not None:
            process = self._process = await _started()
        assert process.stdin is not None  # noqa: S101 -- a pipe was asked for
        assert process.stdout is not None  # noqa: S101
        process.stdin.write(len(data).to_bytes(LENGTH, "big"))
        process.stdin.write(data)
        await process.stdin.drain()
        head = await process.stdout.readexactly(LENGTH)
        return extracted_of(await process.stdout.readexactly(int.from_bytes(head, "big")))

    def _kill(self) -> None:
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.kill()

    async def _end(self) -> None:
        """Let the process go; it ends by itself when nobody writes to it any more."""
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None  # noqa: S101
        process.stdin.close()
        try:
            async with asyncio.timeout(_FAREWELL):
                await process.wait()
        except TimeoutError:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()


async def _started() -> Process:
    environment = {name: os.environ[name] for name in _ALONE if name in os.environ}
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-P",  # nothing of the folder in which it runs
        "-m",
        "bascule.services.pages.worker",
        stdin=PIPE,
        stdout=PIPE,
        stderr=DEVNULL,
        env={**environment, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        cwd="/",
    )
