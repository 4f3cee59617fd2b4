"""Where a PostgreSQL database is, and how it is opened."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, Protocol, cast

import asyncpg
import msgspec
from asyncpg.exceptions import (
    DeadlockDetectedError,
    InsufficientResourcesError,
    InterfaceError,
    InternalClientError,
    LockNotAvailableError,
    OperatorInterventionError,
    PostgresConnectionError,
    QueryCanceledError,
    ReadOnlySQLTransactionError,
    SerializationError,
)
from sqlalchemy import Connection, Engine, event
from sqlalchemy.exc import DBAPIError, DisconnectionError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.ext.asyncio import create_async_engine

from bascule.config import Secret
from bascule.state import url as urls
from bascule.state.store import StoreError

# What libpq knows in a URL and asyncpg reads; the rest of a name is a server's setting to asyncpg.
_OPTIONS: Final = frozenset(
    [
        "application_name",
        "connect_timeout",
        "database",
        "dbname",
        "host",
        "krbsrvname",
        "passfile",
        "password",
        "port",
        "service",
        "sslcert",
        "sslcrl",
        "sslkey",
        "sslmode",
        "sslnegotiation",
        "sslpassword",
        "sslrootcert",
        "ssl_max_protocol_version",
        "ssl_min_protocol_version",
        "target_session_attrs",
        "user",
    ]
)
_connect: Final = cast("Callable[..., Awaitable[Any]]", cast("Any", asyncpg).connect)
_SSL_MODES: Final = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")
_CONNECT_SECONDS: Final = 10.0
# Nothing of ours takes that long: a network that swallows packets must not hold a turn for ever.
_COMMAND_SECONDS: Final = 60.0


class Server(msgspec.Struct, frozen=True, kw_only=True):
    """A PostgreSQL database.

    A COMMIT is durable as the server is set up (`synchronous_commit`, on by default: flushed to
    disk), so no kill of the gateway can lose it.
    """

    dsn: Secret
    name: str
    """The URL for people to read."""
    timeout: float = urls.DEFAULT_TIMEOUT
    """Seconds to wait for another connection's lock."""
    connect_timeout: float = _CONNECT_SECONDS

    @classmethod
    def from_url(cls, url: str) -> "Server":
        """Reads `postgresql://USER:PASSWORD@HOST:PORT/DATABASE`, or `postgres://`.

        A socket's folder is given as `?host=/run/postgresql`. `sslmode` and its relatives,
        `application_name`, `connect_timeout`, `passfile`, `service` and `target_session_attrs` mean
        what they mean to libpq, as do its variables (PGUSER and others). `?timeout=SECONDS` sets
        how long to wait for a lock. Raises ValueError, without the URL's password, for anything
        else.
        """
        parsed = urls.parse(url)
        name = urls.shown(parsed)
        if parsed.drivername not in {"postgresql", "postgres"}:
            raise ValueError(f"no state storage for {name}: use postgresql://HOST/DATABASE")
        options = dict(parsed.query)
        timeout = urls.seconds(options.pop("timeout", urls.DEFAULT_TIMEOUT))
        wait = urls.seconds(options.get("connect_timeout", _CONNECT_SECONDS), "connect_timeout")
        unknown = sorted(set(options) - _OPTIONS)
        if unknown:
            raise ValueError(f"unknown option in {name}: {', '.join(unknown)}")
        if options.get("sslmode", "prefer") not in _SSL_MODES:
            raise ValueError(f"sslmode in {name} must be one of: {', '.join(_SSL_MODES)}")
        options.pop("connect_timeout", None)
        dsn = parsed.set(drivername="postgresql", query=options)
        return cls(
            dsn=Secret(dsn.render_as_string(hide_password=False)),
            name=name,
            timeout=timeout,
            connect_timeout=wait or _CONNECT_SECONDS,
        )

    async def connect(self) -> "Driver":
        """A new connection. Raises what the driver raises."""
        connection = cast(
            "Driver",
            await _connect(
                self.dsn.reveal(), timeout=self.connect_timeout, command_timeout=_COMMAND_SECONDS
            ),
        )
        try:
            # Statements rather than start-up parameters: poolers in between refuse those.
            await connection.execute(
                f"SET lock_timeout = {max(1, int(self.timeout * 1000))};"
                f"SET idle_in_transaction_session_timeout = {int(_COMMAND_SECONDS * 1000)};"
                "SET jit = off"
            )
        except BaseException:
            connection.terminate()
            raise
        return connection

    def engine(self, connections: int) -> Engine:
        """An engine that begins no transaction of its own: a statement is one, unless somebody
        says BEGIN to the driver. To be used in a greenlet of SQLAlchemy's only."""
        engine = create_async_engine(
            "postgresql+asyncpg://",
            async_creator=self.connect,
            isolation_level="AUTOCOMMIT",
            pool_size=connections,
            max_overflow=0,
            pool_use_lifo=True,
            pool_timeout=_COMMAND_SECONDS,
            pool_reset_on_return=None,
            hide_parameters=True,
        ).sync_engine

        def checked_out(connection: Any, _record: Any, _proxy: Any) -> None:
            # The driver has heard of a server that hung up: no ping is needed.
            if connection.driver_connection.is_closed():
                raise DisconnectionError

        event.listen(engine, "checkout", checked_out)
        return engine


class Driver(Protocol):
    """What is used of asyncpg's connection, which has few types."""

    async def execute(self, query: str, *values: Any) -> str: ...

    async def fetch(self, query: str, *values: Any) -> Sequence[Any]: ...

    async def fetchrow(self, query: str, *values: Any) -> Any: ...

    def is_closed(self) -> bool: ...

    def terminate(self) -> None: ...


def driver(connection: Connection) -> Driver:
    """What is under SQLAlchemy's connection: for the hot statements, which need nothing of it."""
    return cast("Driver", connection.connection.driver_connection)


class Uncertain(StoreError):
    """The connection went during COMMIT: only the server knows whether it was done."""


def cause_of(error: BaseException) -> BaseException:
    """The driver's own error, which SQLAlchemy wraps, and its adapter within."""
    if isinstance(error, DBAPIError) and error.orig is not None:
        return error.orig.__cause__ or error.orig
    return error


def is_lost(error: BaseException) -> bool:
    """Whether it was the connection that failed, not the statement: another may do."""
    cause = cause_of(error)
    if isinstance(cause, (TimeoutError, QueryCanceledError)):
        return False
    lost = (PostgresConnectionError, OperatorInterventionError, InternalClientError)
    return isinstance(cause, (*lost, InterfaceError, OSError))


def is_contended(error: BaseException) -> bool:
    """Whether the server had this transaction give way to another: it may be tried again."""
    return isinstance(cause_of(error), (SerializationError, DeadlockDetectedError))


def is_everybodys(error: BaseException) -> bool:
    """Whether any other transaction would meet the same fault now."""
    state = (LockNotAvailableError, InsufficientResourcesError, ReadOnlySQLTransactionError)
    kinds = (*state, QueryCanceledError, TimeoutError, PoolTimeout, Uncertain)
    return is_lost(error) or isinstance(cause_of(error), kinds)


def refusal(error: BaseException) -> StoreError:
    """What the caller is told, and all that is kept: what the driver says besides its message may
    hold values or a password, so there is no cause."""
    if isinstance(error, StoreError):
        return type(error)(*error.args)
    return StoreError(f"the database could not be used: {_said(cause_of(error))}")


def _said(cause: BaseException) -> str:
    if isinstance(cause, asyncpg.PostgresError) and getattr(cause, "severity", None):
        return str(cause.args[0])  # the server's; the driver's own may hold the value at fault
    if isinstance(cause, (TimeoutError, asyncio.TimeoutError, PoolTimeout)):
        return "it did not answer in time"
    if isinstance(cause, OSError):
        return cause.strerror or str(cause)
    if isinstance(cause, InterfaceError):
        return str(cause)
    return type(cause).__name__
