"""The store on a SQL database: all that does not depend on which one it is."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TypeVar

from sqlalchemy import Connection

from bascule.state import url as urls
from bascule.state.conversation_methods import ConversationMethods
from bascule.state.group import GroupWriter
from bascule.state.reading import find_items, read_items, read_response
from bascule.state.store import Commit, ItemRow, ResponseRow, Store, StoreError
from bascule.state.text import check_keys, check_text, storable
from bascule.state.writer import Change, Deletion, Expiry, Job

T = TypeVar("T")


async def open_store(url: str) -> Store:
    """Opens the store at `url`, making its tables (and a file) where they are missing.

    `sqlite:///PATH` (relative to the working folder), `sqlite:////PATH` (absolute) or `sqlite://`:
    in memory, gone when closed. `postgresql://USER:PASSWORD@HOST:PORT/DATABASE`: see
    `postgres.Server`. Each with `?timeout=SECONDS` for the wait on another process's lock (default
    5). Several processes may have one database open.

    Raises ValueError for another URL, StoreError when the database cannot be opened.
    """
    store = _store(url)
    await store.open()
    return store


def check_url(url: str) -> None:
    """Raises ValueError for a URL that `open_store` would not take."""
    if urls.is_postgres(url):
        from bascule.state.postgres import Server

        Server.from_url(url)
    else:
        from bascule.state.sqlite import Location

        Location.from_url(url)


def _store(url: str) -> "SqlStore":
    # Each adapter with its driver is loaded for who uses it only.
    if urls.is_postgres(url):
        from bascule.state.postgres import Server
        from bascule.state.postgres_store import PostgresStore

        return PostgresStore(Server.from_url(url))
    from bascule.state.sqlite import Location
    from bascule.state.sqlite_store import SqliteStore

    return SqliteStore(Location.from_url(url))


class SqlStore(ConversationMethods, ABC):
    """The `Store` by functions on a SQLAlchemy connection; an adapter says how they are run.

    Writes are jobs in the queue of the group commit; reads go beside them.
    """

    def __init__(self, queue: GroupWriter[Job]) -> None:
        self._queue = queue
        self._closing: asyncio.Task[None] | None = None

    @abstractmethod
    async def open(self) -> None:
        """Once, before all else. Raises StoreError, and leaves nothing open then."""

    async def commit(self, turn: Commit) -> None:
        """See the port."""
        check_text(turn)
        await self._submit(turn)

    async def delete_response(self, owner: str, response_id: str) -> bool:
        """See the port."""
        return storable(response_id) and bool(await self._submit(Deletion(owner, response_id)))

    async def response(self, owner: str, response_id: str) -> ResponseRow | None:
        """See the port."""
        if not storable(response_id):
            return None
        return await self._read(lambda database: read_response(database, owner, response_id))

    async def items(self, owner: str, keys: Sequence[str]) -> list[ItemRow]:
        """See the port."""
        check_keys(keys)
        return await self._read(lambda database: read_items(database, owner, keys))

    async def find(self, owner: str, ids: Sequence[str]) -> dict[str, ItemRow]:
        """See the port."""
        known = [public_id for public_id in ids if storable(public_id)]
        return await self._read(lambda database: find_items(database, owner, known))

    async def expire(self, before: int, limit: int) -> int:
        """See the port."""
        return await self._submit(Expiry(before, limit))

    async def aclose(self) -> None:
        """Writes what is queued, then closes all that is open. Again: no harm."""
        if self._closing is None:
            self._closing = asyncio.get_running_loop().create_task(self._end())
        await asyncio.shield(self._closing)

    async def _end(self) -> None:
        await self._queue.drain()
        await self._close()

    @abstractmethod
    async def _close(self) -> None:
        """Nothing is queued any more: waits for the reads, closes connections, ends threads."""

    async def _change(self, run: Callable[[Connection], bool]) -> bool:
        return bool(await self._submit(Change(run)))

    async def _submit(self, job: Job) -> int:
        self._refuse_if_closed()
        return await self._queue.submit(job)

    async def _read(self, read: Callable[[Connection], T]) -> T:
        self._refuse_if_closed()
        return await self._run_read(read)

    @abstractmethod
    async def _run_read(self, read: Callable[[Connection], T]) -> T:
        """Runs the function on a connection that sees one snapshot. Raises StoreError."""

    def _refuse_if_closed(self) -> None:
        if self._closing is not None:
            raise StoreError("the store is closed")
