"""A look at a database file from outside the store."""

import sqlite3
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

TABLES = ("responses", "items", "borrowed_items", "conversations", "conversation_items")


@contextmanager
def foreign(path: Path) -> Generator[sqlite3.Connection]:
    """A connection that is none of the store's."""
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        yield connection
    finally:
        connection.close()


def counts(path: Path) -> dict[str, int]:
    """Rows in each table."""
    with foreign(path) as database:
        return {
            table: database.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
            for table in TABLES
        }


def is_sound(path: Path) -> bool:
    """SQLite's own checks, foreign keys included."""
    with foreign(path) as database:
        return (
            database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            and not database.execute("PRAGMA foreign_key_check").fetchall()
        )
