"""The writing side of a SQLite database: transactions on one thread and one connection."""

import sqlite3
from collections.abc import Sequence

from sqlalchemy import Connection, Engine

from bascule.state.hot import use_hot
from bascule.state.migration import migrate
from bascule.state.sqlite import Location, is_busy, is_everybodys
from bascule.state.sqlite_hot import SqliteHot
from bascule.state.writer import Job, Outcome, Writer, apply, cause_of


class SqliteWriter(Writer):
    """Holds the writing connection. Everything here runs on the writer's thread."""

    def __init__(self, location: Location) -> None:
        self._location = location
        self.engine: Engine = location.writer()
        use_hot(self.engine, SqliteHot())
        self._connection: Connection | None = None

    def open(self) -> None:
        """Makes the file where there is none, and brings its tables up to date."""
        self._location.create()
        migrate(self.engine)

    def close(self) -> None:
        """Gives the connection back; one in memory takes the database with it."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        self.engine.dispose()

    def _transaction(self, jobs: Sequence[Job]) -> list[Outcome]:
        try:
            if self._connection is not None and self._location.is_gone(self._connection):
                self._reconnect()
            if self._connection is None:
                self._connection = self.engine.connect()
            with self._connection.begin():
                return list(apply(self._connection, jobs))
        except Exception as error:
            cause = cause_of(error)
            if isinstance(cause, sqlite3.OperationalError) and not is_busy(cause):
                self._reconnect()
            raise

    def _is_everybodys(self, error: Exception) -> bool:
        return is_everybodys(cause_of(error))

    def _reconnect(self) -> None:
        # A full disk or a lost file may leave the connection unusable after the cause is gone.
        if self._connection is not None and self._location.path is not None:
            self._connection.invalidate()
            self._connection.close()
            self._connection = None
