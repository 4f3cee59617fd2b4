"""The adapters that the port's suite runs against, and stores to try them on."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from bascule.state.sql import open_store
from bascule.state.store import Store

ADAPTERS: dict[str, Callable[[Path], str]] = {
    "sqlite-file": lambda folder: f"sqlite:///{folder}/made/state.sqlite3?timeout=20",
    "sqlite-memory": lambda _: "sqlite://",
}
"""How each adapter names a new, empty database: another adapter is another line."""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(params=ADAPTERS)
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    """An empty store of each adapter."""
    opened = await open_store(ADAPTERS[request.param](tmp_path))
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
