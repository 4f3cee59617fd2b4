"""Where a SQLite database is, and how it is opened."""

import os
import sqlite3
import time
from pathlib import Path
from typing import Any, Final, cast

import msgspec
from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.exc import DisconnectionError
from sqlalchemy.pool import QueuePool, StaticPool

from bascule.state import url as urls

_WAL_RETRY_SECONDS: Final = 0.02
_FILE: Final = "bascule.file"

# Checkpoints (the only fsyncs) are rarer than SQLite's default of 1000 pages; cache in KiB.
_PRAGMAS: Final = (
    "PRAGMA synchronous = NORMAL",
    "PRAGMA foreign_keys = ON",
    "PRAGMA wal_autocheckpoint = 4000",
    "PRAGMA cache_size = -16000",
)


class Location(msgspec.Struct, frozen=True, kw_only=True):
    """A SQLite database: a file, or one in memory that lives as long as its connection.

    Files are in WAL mode with `synchronous = NORMAL`. A COMMIT has then written its frames to the
    log with write(2); they belong to the kernel, so no kill of the process can lose them, and the
    next one to open the file replays them. What NORMAL leaves out is the fsync per commit: after a
    power loss the last commits may be missing, while the database stays whole. FULL would pay an
    fsync per transaction for that case only.
    """

    path: Path | None
    timeout: float = urls.DEFAULT_TIMEOUT
    """Seconds to wait for another connection's lock."""

    @classmethod
    def from_url(cls, url: str) -> "Location":
        """Reads `sqlite:///PATH` (relative), `sqlite:////PATH` (absolute) or `sqlite://` (memory).

        `?timeout=SECONDS` sets how long to wait for a lock. Raises ValueError, without the URL's
        password, for anything else.
        """
        parsed = urls.parse(url)
        if parsed.drivername != "sqlite" or parsed.host is not None:
            raise ValueError(f"no state storage for {urls.shown(parsed)}: use sqlite:///PATH")
        options = dict(parsed.query)
        timeout = options.pop("timeout", str(urls.DEFAULT_TIMEOUT))
        if options:
            raise ValueError(
                f"unknown option in {urls.shown(parsed)}: {', '.join(sorted(options))}"
            )
        path = parsed.database
        return cls(
            path=None if path in {None, "", ":memory:"} else Path(str(path)).absolute(),
            timeout=urls.seconds(timeout),
        )

    def create(self) -> None:
        """Makes the file (mode 0600) and its parent folders (0700) where they are missing."""
        if self.path is None:
            return
        for folder in reversed(self.path.parents):
            folder.mkdir(mode=0o700, exist_ok=True)
        # SQLite gives the log files beside it the same mode.
        os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))

    def writer(self) -> Engine:
        """An engine of one connection, whose transactions take the write lock at once."""
        pool = StaticPool if self.path is None else QueuePool
        sizes = {} if self.path is None else {"pool_size": 1, "max_overflow": 0}
        engine = create_engine(
            "sqlite://", creator=self._connect, poolclass=pool, hide_parameters=True, **sizes
        )
        self._watch(engine)
        _begin_with(engine, "BEGIN IMMEDIATE")
        return engine

    def reader(self, connections: int) -> Engine:
        """An engine for reads, each of one snapshot. Of no use to a database in memory."""
        engine = create_engine(
            "sqlite://",
            creator=self._connect,
            poolclass=QueuePool,
            pool_size=connections,
            pool_use_lifo=True,  # a connection that was just used has its pages in cache
            max_overflow=0,
            hide_parameters=True,
        )
        self._watch(engine)
        _begin_with(engine, "BEGIN")
        return engine

    def is_gone(self, connection: Connection) -> bool:
        """Whether the file that the connection has open is no longer at its place: SQLite would go
        on writing into what nobody can open again."""
        return self.path is not None and connection.info[_FILE] != _identity(self.path)

    def _watch(self, engine: Engine) -> None:
        path = self.path
        if path is None:
            return

        def connected(_connection: Any, record: Any) -> None:
            record.info[_FILE] = _identity(path)

        def checked_out(_connection: Any, record: Any, _proxy: Any) -> None:
            if record.info[_FILE] != _identity(path):
                raise DisconnectionError

        event.listen(engine, "connect", connected)
        event.listen(engine, "checkout", checked_out)

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            # `create` makes the file: one that has gone since is a fault, not a new database.
            ":memory:" if self.path is None else f"{self.path.as_uri()}?mode=rw",
            uri=True,
            timeout=self.timeout,
            isolation_level=None,  # the engine says BEGIN, not the driver
            check_same_thread=False,  # the pool closes what a thread of ours opened
        )
        try:
            if self.path is not None:
                self._enter_wal(connection)
            for pragma in _PRAGMAS:
                connection.execute(pragma)
        except BaseException:
            connection.close()
            raise
        return connection

    def _enter_wal(self, connection: sqlite3.Connection) -> None:
        # SQLite does not wait for a lock here when two connections switch a new file at once.
        deadline = time.monotonic() + self.timeout
        while True:
            try:
                connection.execute("PRAGMA journal_mode = WAL")
            except sqlite3.OperationalError as error:
                if not is_busy(error) or time.monotonic() > deadline:
                    raise
                time.sleep(_WAL_RETRY_SECONDS)
            else:
                return


def driver(connection: Connection) -> sqlite3.Connection:
    """What is under SQLAlchemy's connection: for the hot statements, which need nothing of it."""
    return cast("sqlite3.Connection", connection.connection.driver_connection)


def is_busy(error: BaseException | None) -> bool:
    """Whether another connection's lock outlasted the timeout."""
    return (
        isinstance(error, sqlite3.OperationalError)
        and error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY
    )


def is_everybodys(error: BaseException | None) -> bool:
    """Whether any other transaction would meet the same fault now."""
    kinds = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY)
    return isinstance(error, sqlite3.OperationalError) and error.sqlite_errorcode & 0xFF in kinds


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _begin_with(engine: Engine, statement: str) -> None:
    def begin(connection: Connection) -> None:
        driver(connection).execute(statement)

    event.listen(engine, "begin", begin)
