"""Brings a PostgreSQL database to the newest schema."""

import asyncio
from typing import Any

from sqlalchemy import text
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool

from bascule.state.migration import ONE_AT_A_TIME, upgrade
from bascule.state.postgres import Server, refusal
from bascule.state.postgres_writer import WRITE_LOCK
from bascule.state.store import StoreError


def migrate(server: Server) -> None:
    """Runs what is missing, in one transaction under the lock of all writers: of two processes that
    start on one empty database, the second waits and finds nothing left to do.

    Blocks, and runs a loop of its own: alembic is synchronous, and takes a while to import.
    Raises StoreError.
    """
    # Not at the top: a database that is up to date needs nothing of alembic.
    from alembic.util import CommandError

    with ONE_AT_A_TIME:
        try:
            asyncio.run(_migrate(server))
        except CommandError as error:
            raise StoreError(f"the database could not be used: {error}") from None
        except Exception as error:  # noqa: BLE001 -- whatever it is, it is the database's
            raise refusal(error) from None


async def _migrate(server: Server) -> None:
    async def connect() -> Any:
        connection = await server.connect()
        # Another process may be at it: longer than a turn would wait.
        await connection.execute("SET lock_timeout = '60s'")
        return connection

    engine = create_async_engine(
        "postgresql+asyncpg://", async_creator=connect, poolclass=NullPool, hide_parameters=True
    )
    try:
        async with engine.begin() as connection:
            statement = text("SELECT pg_advisory_xact_lock(:lock)")
            await connection.execute(statement, {"lock": WRITE_LOCK})
            await connection.run_sync(upgrade)
    finally:
        await engine.dispose()
