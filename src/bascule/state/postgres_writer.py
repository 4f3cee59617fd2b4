"""The writing side of a PostgreSQL database: transactions on one connection."""

from collections.abc import Sequence
from typing import Final

from sqlalchemy import Connection, Engine
from sqlalchemy.util import await_only

from bascule.state.hot import use_hot
from bascule.state.postgres import (
    Driver,
    Server,
    Uncertain,
    driver,
    is_contended,
    is_everybodys,
    is_lost,
    refusal,
)
from bascule.state.postgres_hot import PostgresHot
from bascule.state.store import StoreError
from bascule.state.writer import Job, Outcome, Writer, apply

WRITE_LOCK: Final = 0x62617363756C65
"""The advisory lock that a writing transaction holds, migrations included.

Writers take turns, those of other gateways too, as SQLite has them do: each statement sees all
that was written before, so there is one set of functions for both databases and nothing to
deadlock on. A group of turns holds it for a few round trips and one flush.
"""

_BEGIN: Final = (
    f"BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SELECT pg_advisory_xact_lock({WRITE_LOCK})"
)
_ATTEMPTS: Final = 3


class PostgresWriter(Writer):
    """Holds the writing connection. Everything here runs in a greenlet of SQLAlchemy's."""

    def __init__(self, server: Server) -> None:
        self._engine: Engine = server.engine(1)
        use_hot(self._engine, PostgresHot())
        self._connection: Connection | None = None

    def close(self) -> None:
        """Closes the connection."""
        self._drop()
        self._engine.dispose()

    def _transaction(self, jobs: Sequence[Job]) -> list[Outcome]:
        for attempt in range(1, _ATTEMPTS):
            try:
                return self._attempt(jobs)
            except Exception as error:
                # Lost before COMMIT: nothing is written. Once, since a new connection must do.
                if not (is_contended(error) or (is_lost(error) and attempt == 1)):
                    raise
        return self._attempt(jobs)

    def _attempt(self, jobs: Sequence[Job]) -> list[Outcome]:
        connection = self._connected()
        raw = driver(connection)
        try:
            await_only(raw.execute(_BEGIN))
            outcomes = list(apply(connection, jobs))
        except BaseException as error:
            self._undo(connection, raw, error)
            raise
        self._commit(raw)
        return outcomes

    def _commit(self, raw: Driver) -> None:
        try:
            await_only(raw.execute("COMMIT"))
        except BaseException as error:
            self._drop()
            if is_lost(error) or isinstance(error, TimeoutError):
                raise Uncertain(
                    "the database went away during a commit: whether it was done is not known"
                ) from None
            raise

    def _connected(self) -> Connection:
        if self._connection is None:
            self._connection = self._engine.connect()
        return self._connection

    def _undo(self, connection: Connection, raw: Driver, error: BaseException) -> None:
        if raw.is_closed() or is_lost(error) or not isinstance(error, Exception):
            self._drop()
            return
        try:
            await_only(raw.execute("ROLLBACK"))
            connection.rollback()  # for SQLAlchemy's own books: it has begun nothing
        except BaseException:
            self._drop()
            raise

    def _drop(self) -> None:
        if self._connection is None:
            return
        connection, self._connection = self._connection, None
        if not connection.invalidated:
            driver(connection).terminate()
            connection.invalidate()
        connection.close()

    def _is_everybodys(self, error: Exception) -> bool:
        return is_everybodys(error)

    def _refusal(self, error: Exception) -> StoreError:
        return refusal(error)
