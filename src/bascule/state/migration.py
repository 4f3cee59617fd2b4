"""Brings a database to the newest schema."""

import threading
from pathlib import Path
from typing import Final

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection

_SCRIPTS: Final = Path(__file__).parent / "migrations"

# Alembic keeps the running environment in module globals.
_ONE_AT_A_TIME: Final = threading.Lock()


def migrate(connection: Connection) -> None:
    """Runs what is missing inside the transaction that `connection` has open.

    That transaction must hold the database's write lock: of two processes that start on one empty
    database, the second then waits and finds nothing left to do.

    Raises alembic's CommandError when the database is newer than this code.
    """
    config = Config()
    config.set_main_option("script_location", str(_SCRIPTS).replace("%", "%%"))
    config.attributes["connection"] = connection
    with _ONE_AT_A_TIME:
        command.upgrade(config, "head")
