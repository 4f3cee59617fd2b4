"""Brings a database to the newest schema."""

import threading
from pathlib import Path
from typing import Final

from sqlalchemy import Connection, Engine, inspect

_SCRIPTS: Final = Path(__file__).parent / "migrations"

# Alembic keeps the running environment in module globals.
ONE_AT_A_TIME: Final = threading.Lock()
"""Held by whoever calls `upgrade`, for as long."""


def migrate(engine: Engine) -> None:
    """Runs what is missing, in one transaction.

    The engine's transactions must take the database's write lock as they begin: of two processes
    that start on one empty database, the second then waits and finds nothing left to do.

    Raises alembic's CommandError when the database is newer than this code.
    """
    with engine.connect() as connection:
        current = is_current(connection)
    if not current:
        with ONE_AT_A_TIME, engine.begin() as connection:
            upgrade(connection)


def newest() -> str:
    """The newest revision: what the names of the migrations' files begin with."""
    return max(script.name for script in (_SCRIPTS / "versions").glob("[0-9]*.py"))[:4]


def is_current(connection: Connection) -> bool:
    """Whether nothing is missing."""
    if not inspect(connection).has_table("alembic_version"):
        return False
    statement = "SELECT version_num FROM alembic_version"
    return connection.exec_driver_sql(statement).scalar() == newest()


def upgrade(connection: Connection) -> None:
    """Runs what is missing, in the transaction that the connection has open; one thread at a time.

    Raises alembic's CommandError when the database is newer than this code.
    """
    # Alembic takes as long to import as all else here: not for a database that is up to date.
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(_SCRIPTS).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
