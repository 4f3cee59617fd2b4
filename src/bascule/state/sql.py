"""The SQL store. SQLite so far; the statements are portable but for how they are run."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from sqlalchemy import Connection, Engine

from bascule.state.conversation_methods import ConversationMethods, storable
from bascule.state.group import GroupWriter
from bascule.state.reading import find_items, read_items, read_response
from bascule.state.sqlite import Location
from bascule.state.store import Commit, ItemRow, ResponseRow, Store, StoreError
from bascule.state.writer import Change, Deletion, Job, Writer, refusal

_READERS: Final = 4

T = TypeVar("T")


async def open_store(url: str) -> Store:
    """Opens the store at `url`, making the file and its tables where they are missing.

    `sqlite:///PATH` (relative to the working folder), `sqlite:////PATH` (absolute), each with
    `?timeout=SECONDS` for the wait on another process's lock (default 5), or `sqlite://`: in
    memory, gone when closed. Several processes may have one file open.

    Raises ValueError for another URL, StoreError when the database cannot be opened.
    """
    store = SqliteStore(Location.from_url(url))
    await store.open()
    return store


class SqliteStore(ConversationMethods):
    """The `Store` on SQLite.

    Nothing here blocks the event loop: one thread writes, group by group, and a few read. They
    drive the synchronous driver, one hop to a thread for a whole read or group; an asynchronous
    one hops for each statement.
    """

    def __init__(self, location: Location) -> None:
        self._location = location
        self._loop = asyncio.get_running_loop()
        self._writer = Writer(location)
        self._write_thread = ThreadPoolExecutor(1, "bascule-state-write")
        self._queue: GroupWriter[Job] = GroupWriter(self._write_thread, self._writer.perform)
        self._closing: asyncio.Task[None] | None = None
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

    async def commit(self, turn: Commit) -> None:
        """See the port."""
        await self._submit(turn)

    async def delete_response(self, owner: str, response_id: str) -> bool:
        """See the port."""
        return storable(response_id) and await self._submit(Deletion(owner, response_id))

    async def response(self, owner: str, response_id: str) -> ResponseRow | None:
        """See the port."""
        if not storable(response_id):
            return None
        return await self._read(lambda database: read_response(database, owner, response_id))

    async def items(self, owner: str, keys: Sequence[str]) -> list[ItemRow]:
        """See the port."""
        return await self._read(lambda database: read_items(database, owner, keys))

    async def find(self, owner: str, ids: Sequence[str]) -> dict[str, ItemRow]:
        """See the port."""
        known = [public_id for public_id in ids if storable(public_id)]
        return await self._read(lambda database: find_items(database, owner, known))

    async def aclose(self) -> None:
        """Writes what is queued, ends the threads and closes the database. Again: no harm."""
        if self._closing is None:
            self._closing = self._loop.create_task(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        await self._queue.drain()
        await self._loop.run_in_executor(self._write_thread, self._close_connections)
        self._write_thread.shutdown()

    def _close_connections(self) -> None:
        # On the writer's thread, after all writes: waiting for the reads blocks no one here.
        if self._read_threads is not self._write_thread:
            self._read_threads.shutdown()
            self._read_engine.dispose()
        self._writer.close()

    async def _change(self, run: Callable[[Connection], bool]) -> bool:
        return await self._submit(Change(run))

    async def _submit(self, job: Job) -> bool:
        self._refuse_if_closed()
        return await self._queue.submit(job)

    async def _read(self, read: Callable[[Connection], T]) -> T:
        self._refuse_if_closed()
        return await self._loop.run_in_executor(
            self._read_threads, _read_with, self._read_engine, read
        )

    def _refuse_if_closed(self) -> None:
        if self._closing is not None:
            raise StoreError("the store is closed")


def _read_with(engine: Engine, read: Callable[[Connection], T]) -> T:
    try:
        with engine.connect() as connection:
            return read(connection)
    except StoreError:
        raise
    except Exception as error:
        raise refusal(error) from error
