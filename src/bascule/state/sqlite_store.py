"""The store on SQLite."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final, TypeVar

from sqlalchemy import Connection, Engine

from bascule.state.group import GroupWriter
from bascule.state.sql import SqlStore
from bascule.state.sqlite import Location
from bascule.state.sqlite_writer import SqliteWriter
from bascule.state.store import StoreError
from bascule.state.writer import Job, refusal

_READERS: Final = 4

T = TypeVar("T")


class SqliteStore(SqlStore):
    """The `Store` on SQLite.

    Nothing here blocks the event loop: one thread writes, group by group, and a few read. They
    drive the synchronous driver, one hop to a thread for a whole read or group; an asynchronous
    one hops for each statement.
    """

    def __init__(self, location: Location) -> None:
        self._location = location
        self._loop = asyncio.get_running_loop()
        self._writer = SqliteWriter(location)
        self._write_thread = ThreadPoolExecutor(1, "bascule-state-write")
        super().__init__(
            GroupWriter[Job](
                partial(self._loop.run_in_executor, self._write_thread, self._writer.perform)
            )
        )
        self._read_threads = self._write_thread
        self._read_engine = self._writer.engine
        if location.path is not None:
            self._read_threads = ThreadPoolExecutor(_READERS, "bascule-state-read")
            self._read_engine = location.reader(_READERS)

    async def open(self) -> None:
        """Once, before all else. Raises StoreError, and leaves nothing open then."""
        try:
            await self._loop.run_in_executor(self._write_thread, self._writer.open)
        except Exception as error:
            await self.aclose()
            raise refusal(error) from error
        except BaseException:
            # Cancelled: the thread is still opening, and closes when it is done.
            self._write_thread.submit(self._close_connections)
            self._write_thread.shutdown(wait=False)
            raise

    async def _close(self) -> None:
        await self._loop.run_in_executor(self._write_thread, self._close_connections)
        self._write_thread.shutdown()

    def _close_connections(self) -> None:
        # On the writer's thread, after all writes: waiting for the reads blocks no one here.
        if self._read_threads is not self._write_thread:
            self._read_threads.shutdown()
            self._read_engine.dispose()
        self._writer.close()

    async def _run_read(self, read: Callable[[Connection], T]) -> T:
        return await self._loop.run_in_executor(
            self._read_threads, _read_with, self._read_engine, read
        )


def _read_with(engine: Engine, read: Callable[[Connection], T]) -> T:
    try:
        with engine.connect() as connection:
            return read(connection)
    except StoreError:
        raise
    except Exception as error:
        raise refusal(error) from error
