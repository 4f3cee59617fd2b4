"""The schema: made from nothing, once, by however many processes, and never unmade."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy.ext.asyncio import create_async_engine

from bascule.state.migration import migrate, newest
from bascule.state.schema import METADATA
from bascule.state.sql import open_store
from bascule.state.store import StoreError
from tests.state.database import foreign, is_sound
from tests.state.rows import a_turn, commit, whole

pytestmark = pytest.mark.anyio

OPEN = """
import asyncio, sys
from bascule.state.sql import open_store
from tests.state.rows import a_turn, commit, whole

async def main(url):
    print("ready", flush=True)
    sys.stdin.readline()
    store = await open_store(url)
    assert await whole(store, await commit(store, a_turn()))
    await store.aclose()

asyncio.run(main(sys.argv[1]))
"""

LOADED = """
import asyncio, sys
from bascule.state.sql import open_store

async def main(url):
    await (await open_store(url)).aclose()

asyncio.run(main(sys.argv[1]))
print("alembic" in sys.modules)
"""


def test_migrations_lead_to_the_schema() -> None:
    engine = sa.create_engine("sqlite://")
    migrate(engine)
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, METADATA) == []
        assert context.get_current_revision() == newest()
    engine.dispose()


async def test_migrations_lead_to_the_schema_on_postgresql(postgres_url: str) -> None:
    def differences(connection: sa.Connection) -> list[object]:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert context.get_current_revision() == newest()
        return compare_metadata(context, METADATA)

    engine = create_async_engine(postgres_url.replace("postgresql", "postgresql+asyncpg", 1))
    async with engine.connect() as connection:
        assert await connection.run_sync(differences) == []
    await engine.dispose()


async def test_opening_again_changes_nothing(path: Path) -> None:
    store = await open_store(f"sqlite:///{path}")
    row = await commit(store, a_turn())
    await store.aclose()
    schema = _schema(path)
    store = await open_store(f"sqlite:///{path}")
    assert await whole(store, row)
    await store.aclose()
    assert _schema(path) == schema


@pytest.mark.timeout(180)
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_alembic_is_not_loaded_for_a_database_that_is_up_to_date(
    kind: str, path: Path, request: pytest.FixtureRequest
) -> None:
    url = f"sqlite:///{path}" if kind == "sqlite" else request.getfixturevalue("bare_postgres_url")
    for loaded in (True, False):
        done = subprocess.run(
            [sys.executable, "-c", LOADED, url],
            capture_output=True,
            text=True,
            timeout=150,
            check=True,
        )
        assert done.stdout == f"{loaded}\n"


async def test_a_newer_database_is_refused(path: Path) -> None:
    store = await open_store(f"sqlite:///{path}")
    await store.aclose()
    with foreign(path) as database:
        database.execute("UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(StoreError, match="9999"):
        await open_store(f"sqlite:///{path}")


@pytest.mark.timeout(180)
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
async def test_processes_may_start_on_one_empty_database_at_once(
    kind: str, path: Path, request: pytest.FixtureRequest
) -> None:
    url = f"sqlite:///{path}" if kind == "sqlite" else request.getfixturevalue("bare_postgres_url")
    processes = [
        subprocess.Popen(
            [sys.executable, "-W", "error", "-c", OPEN, f"{url}?timeout=30"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    for process in processes:
        _, errors = await asyncio.to_thread(process.communicate, timeout=150)
        assert process.returncode == 0, errors
    assert is_sound(url)


def _schema(path: Path) -> list[tuple[str, str]]:
    with foreign(path) as database:
        return database.execute("SELECT name, sql FROM sqlite_master ORDER BY name").fetchall()
