"""The writing side of a SQL store: runs groups of jobs as transactions."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import msgspec
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from bascule.state.deletion import delete_response, expire_responses
from bascule.state.store import Commit, StoreError
from bascule.state.writing import write_turns


class Deletion(msgspec.Struct, frozen=True):
    """A response to delete."""

    owner: str
    response_id: str


class Expiry(msgspec.Struct, frozen=True):
    """Responses to delete for their age."""

    before: int
    limit: int


class Change(msgspec.Struct, frozen=True):
    """Any other write: a function of state/, which says whether there was something to do."""

    run: Callable[[Connection], bool]


Job: TypeAlias = Commit | Deletion | Expiry | Change
Outcome: TypeAlias = int | StoreError
"""A number, or yes and no; what a job gives is its own."""


class Writer(ABC):
    """How groups are written, whatever the database: an adapter says what a transaction is.

    Everything here blocks; an adapter runs it where that holds nobody up.
    """

    def perform(self, jobs: Sequence[Job]) -> list[Outcome]:
        """One outcome per job, from one transaction for all; if that fails, from one for each, so
        that a bad job fails alone. What holds for every job is waited for once, not by each."""
        try:
            return self._transaction(jobs)
        except Exception as error:  # noqa: BLE001 -- whatever it is, the waiters must hear of it
            if len(jobs) == 1 or self._is_everybodys(error):
                return [self._refusal(error) for _ in jobs]
        return self._one_by_one(jobs)

    def _one_by_one(self, jobs: Sequence[Job]) -> list[Outcome]:
        outcomes: list[Outcome] = []
        for job in jobs:
            try:
                outcomes += self._transaction([job])
            except Exception as error:  # noqa: BLE001 -- as above
                if self._is_everybodys(error):
                    return outcomes + [self._refusal(error) for _ in jobs[len(outcomes) :]]
                outcomes.append(self._refusal(error))
        return outcomes

    @abstractmethod
    def _transaction(self, jobs: Sequence[Job]) -> list[Outcome]:
        """What `apply` gives, committed. When it raises, nothing is written."""

    @abstractmethod
    def _is_everybodys(self, error: Exception) -> bool:
        """Whether any other job would meet the same fault now: a lock, a server that is gone."""

    def _refusal(self, error: Exception) -> StoreError:
        return refusal(error)


def apply(connection: Connection, jobs: Sequence[Job]) -> Iterator[Outcome]:
    """Does the jobs in order, in the transaction that the connection has open."""
    turns: list[Commit] = []
    for job in jobs:
        if isinstance(job, Commit):
            turns.append(job)
            continue
        yield from _write(connection, turns)
        turns = []
        if isinstance(job, Change):
            yield job.run(connection)
        elif isinstance(job, Expiry):
            yield expire_responses(connection, job.before, job.limit)
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
    refused = StoreError(f"the database could not be used: {cause_of(error)}")
    refused.__cause__ = error
    return refused


def cause_of(error: Exception) -> BaseException:
    """The driver's own error, which SQLAlchemy wraps where it ran the statement."""
    return error.orig or error if isinstance(error, DBAPIError) else error
