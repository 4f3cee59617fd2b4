"""A look at a database from outside the store."""

import sqlite3
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from tests import postgres

TABLES = ("responses", "items", "borrowed_items", "conversations", "conversation_items")


@contextmanager
def foreign(path: Path) -> Generator[sqlite3.Connection]:
    """A connection that is none of the store's."""
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        yield connection
    finally:
        connection.close()


def counts(url: str) -> dict[str, int]:
    """Rows in each table of a file or a server's database."""
    statements = [f"SELECT count(*) FROM {table}" for table in TABLES]
    if url.startswith("postgres"):
        numbers = [rows[0][0] for rows in postgres.run(_bare(url), *statements)]
    else:
        with foreign(_path(url)) as database:
            numbers = [database.execute(statement).fetchone()[0] for statement in statements]
    return dict(zip(TABLES, numbers, strict=True))


def is_sound(place: Path | str) -> bool:
    """SQLite's own checks, foreign keys included; a PostgreSQL server has nobody else check it."""
    if isinstance(place, str) and place.startswith("postgres"):
        return True
    with foreign(place if isinstance(place, Path) else _path(place)) as database:
        return (
            database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            and not database.execute("PRAGMA foreign_key_check").fetchall()
        )


def _bare(url: str) -> str:
    return url.partition("?")[0]


def _path(url: str) -> Path:
    return Path(_bare(url).removeprefix("sqlite:///"))
