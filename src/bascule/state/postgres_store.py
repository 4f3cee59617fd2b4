"""The store on PostgreSQL."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, TypeVar

from sqlalchemy import Connection
from sqlalchemy.util import await_only, greenlet_spawn

from bascule.state import postgres_hot as hot
from bascule.state.group import GroupWriter, Outcomes
from bascule.state.migration import is_current
from bascule.state.postgres import Server, driver, is_lost, refusal
from bascule.state.postgres_migration import migrate
from bascule.state.postgres_writer import PostgresWriter
from bascule.state.sql import SqlStore
from bascule.state.store import ItemRow, ResponseRow, StoreError
from bascule.state.text import check_keys, storable
from bascule.state.writer import Job

_READERS: Final = 8
_BEGIN: Final = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"

T = TypeVar("T")


class PostgresStore(SqlStore):
    """The `Store` on PostgreSQL.

    All of it runs on the event loop: one connection writes, group by group, and a few read. The
    functions that both databases share are synchronous; a greenlet waits for the driver in them.
    A connection that was lost is replaced: a read is tried once more, and so is a transaction of
    which COMMIT was not said yet.
    """

    def __init__(self, server: Server) -> None:
        self._server = server
        self._loop = asyncio.get_running_loop()
        self._writer = PostgresWriter(server)
        self._engine = server.engine(_READERS)
        self._reads = 0
        self._quiet = asyncio.Event()
        self._quiet.set()
        super().__init__(GroupWriter[Job](self._perform))

    def _perform(self, jobs: list[Job]) -> "asyncio.Future[Outcomes]":
        return self._loop.create_task(greenlet_spawn(self._writer.perform, jobs))

    async def open(self) -> None:
        """Once, before all else. Raises StoreError, and leaves nothing open then."""
        try:
            if not await self._run_read(is_current):
                await asyncio.to_thread(migrate, self._server)
        except BaseException:
            await self.aclose()
            raise

    async def response(self, owner: str, response_id: str) -> ResponseRow | None:
        """See the port."""
        self._refuse_if_closed()
        if not storable(response_id):
            return None
        return await self._run(partial(hot.read_response, owner=owner, response_id=response_id))

    async def items(self, owner: str, keys: Sequence[str]) -> list[ItemRow]:
        """See the port."""
        self._refuse_if_closed()
        check_keys(keys)
        return await self._run(partial(hot.read_items, owner=owner, keys=keys))

    async def _close(self) -> None:
        await self._quiet.wait()
        await greenlet_spawn(self._writer.close)
        await greenlet_spawn(self._engine.dispose)

    async def _run_read(self, read: Callable[[Connection], T]) -> T:
        return await self._run(partial(_with_snapshot, read))

    async def _run(self, read: Callable[[Connection], T]) -> T:
        self._reads += 1
        self._quiet.clear()
        try:
            return await greenlet_spawn(partial(self._try_twice, read))
        except Exception as error:  # noqa: BLE001 -- whatever it is, it is the database's
            raise refusal(error) from None
        finally:
            self._reads -= 1
            if not self._reads:
                self._quiet.set()

    def _try_twice(self, read: Callable[[Connection], T]) -> T:
        try:
            return self._read_once(read)
        except Exception as error:
            if not is_lost(error):
                raise
        return self._read_once(read)

    def _read_once(self, read: Callable[[Connection], T]) -> T:
        with self._engine.connect() as connection:
            try:
                return read(connection)
            except StoreError:
                raise
            except BaseException:
                # Cut short, it may be in the middle of anything: it is not used again.
                if not connection.invalidated:
                    driver(connection).terminate()
                raise


def _with_snapshot(read: Callable[[Connection], T], connection: Connection) -> T:
    """All statements of the function see the same."""
    raw = driver(connection)
    await_only(raw.execute(_BEGIN))
    try:
        result = read(connection)
    except StoreError:
        await_only(raw.execute("ROLLBACK"))
        raise
    await_only(raw.execute("COMMIT"))
    return result
