"""The writing side of a SQLite database: runs groups of jobs as transactions, on one thread."""

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import msgspec
from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError

from bascule.state.deletion import delete_response
from bascule.state.migration import migrate
from bascule.state.sqlite import Location, is_busy
from bascule.state.store import Commit, StoreError
from bascule.state.writing import write_turns


class Deletion(msgspec.Struct, frozen=True):
    """A response to delete."""

    owner: str
    response_id: str


class Change(msgspec.Struct, frozen=True):
    """Any other write: a function of state/, which says whether there was something to do."""

    run: Callable[[Connection], bool]


Job: TypeAlias = Commit | Deletion | Change
Outcome: TypeAlias = bool | StoreError


class Writer:
    """Holds the writing connection. Everything here runs on the writer's thread."""

    def __init__(self, location: Location) -> None:
        self._location = location
        self.engine: Engine = location.writer()
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

    def perform(self, jobs: Sequence[Job]) -> list[Outcome]:
        """One outcome per job, from one transaction for all; if that fails, from one for each, so
        that a bad job fails alone. A lock is waited for once, not by each."""
        try:
            return self._transaction(jobs)
        except Exception as error:  # noqa: BLE001 -- whatever it is, the waiters must hear of it
            if len(jobs) == 1 or _locked(error):
                return [refusal(error) for _ in jobs]
        return self._one_by_one(jobs)

    def _one_by_one(self, jobs: Sequence[Job]) -> list[Outcome]:
        outcomes: list[Outcome] = []
        for job in jobs:
            try:
                outcomes += self._transaction([job])
            except Exception as error:  # noqa: BLE001 -- as above
                if _locked(error):
                    return outcomes + [refusal(error) for _ in jobs[len(outcomes) :]]
                outcomes.append(refusal(error))
        return outcomes

    def _transaction(self, jobs: Sequence[Job]) -> list[Outcome]:
        try:
            if self._connection is None:
                self._connection = self.engine.connect()
            with self._connection.begin():
                return list(_apply(self._connection, jobs))
        except Exception as error:
            cause = _cause(error)
            if isinstance(cause, sqlite3.OperationalError) and not is_busy(cause):
                self._reconnect()
            raise

    def _reconnect(self) -> None:
        # A full disk or a lost file may leave the connection unusable after the cause is gone.
        if self._connection is not None and self._location.path is not None:
            self._connection.invalidate()
            self._connection.close()
            self._connection = None


def _apply(connection: Connection, jobs: Sequence[Job]) -> Iterator[Outcome]:
    turns: list[Commit] = []
    for job in jobs:
        if isinstance(job, Commit):
            turns.append(job)
            continue
        yield from _write(connection, turns)
        turns = []
        if isinstance(job, Change):
            yield job.run(connection)
        else:
            yield delete_response(connection, job.owner, job.response_id)
    yield from _write(connection, turns)


def _write(connection: Connection, turns: Sequence[Commit]) -> Iterator[bool]:
    if turns:
        write_turns(connection, turns)
    for _ in turns:
        yield True


def refusal(error: Exception) -> StoreError:
    """What the caller is told: the driver's words, not the statement with its parameters."""
    if isinstance(error, StoreError):
        return type(error)(*error.args)
    refused = StoreError(f"the database could not be used: {_cause(error)}")
    refused.__cause__ = error
    return refused


def _locked(error: Exception) -> bool:
    return is_busy(_cause(error))


def _cause(error: Exception) -> BaseException:
    # The driver's own error, which SQLAlchemy wraps where it ran the statement.
    return error.orig or error if isinstance(error, DBAPIError) else error
