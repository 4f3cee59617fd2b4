"""The adapters that the port's suite runs against, and stores to try them on."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from bascule.state.sql import open_store
from bascule.state.store import Store

ADAPTERS: dict[str, Callable[[pytest.FixtureRequest], str]] = {
    "sqlite-file": lambda asked: (
        f"sqlite:///{asked.getfixturevalue('tmp_path')}/made/state.sqlite3?timeout=20"
    ),
    "sqlite-memory": lambda _: "sqlite://",
    "postgresql": lambda asked: f"{asked.getfixturevalue('postgres_url')}?timeout=20",
}
"""How each adapter names a new, empty database: another adapter is another line."""

SHARED = ["sqlite-file", "postgresql"]
"""Those that several processes may have open."""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(params=ADAPTERS)
def url(request: pytest.FixtureRequest) -> str:
    """Where the store is."""
    return ADAPTERS[request.param](request)


@pytest.fixture(params=SHARED)
def shared_url(request: pytest.FixtureRequest) -> str:
    """Where a store is that others may open too."""
    return ADAPTERS[request.param](request)


@pytest.fixture
async def store(url: str) -> AsyncIterator[Store]:
    """An empty store of each adapter."""
    opened = await open_store(url)
    yield opened
    await opened.aclose()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the file store's database will be."""
    return tmp_path / "state.sqlite3"


@pytest.fixture
async def file_store(path: Path) -> AsyncIterator[Store]:
    """An empty store in the file `path`."""
    opened = await open_store(f"sqlite:///{path}")
    yield opened
    await opened.aclose()
