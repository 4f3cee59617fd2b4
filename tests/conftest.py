import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import settings
from sqlalchemy import make_url

from bascule.state.postgres import Server
from bascule.state.postgres_migration import migrate
from tests import postgres
from tests.conformance import manifest, schema
from tests.recordings import keys

# A busy machine is no fault of the code: tests that mean a time limit say so.
settings.register_profile("bascule", deadline=None, print_blob=True)
settings.load_profile("bascule")

pytest_plugins = ["pytester"]


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("bascule")
    group.addoption("--real", action="store_true", help="the scenarios before a real model server")
    group.addoption("--upstream", help="with --real: the base URL of a server that runs already")
    group.addoption("--model", help="with --real: one of its models")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """A real model server is for those who ask for it, and then alone."""
    real = config.getoption("real")
    chosen = [item for item in items if (item.get_closest_marker("real") is not None) == real]
    kept = set(chosen)
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = chosen


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "real: before a real model server, with --real only")
    config.addinivalue_line(
        "markers", "requirement(*ids): what the test proves, by ids of the requirements manifest"
    )
    enforcement = manifest.Enforcement(manifest.load(), [schema.stale_differences, keys.stale])
    config.pluginmanager.register(enforcement, "requirements")


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """The URL of a PostgreSQL server: the one that a variable names, else one of our own."""
    given = os.environ.get(postgres.VARIABLE)
    if given:
        yield given
        return
    server = postgres.Server()
    try:
        server.start()
        yield server.url
    finally:
        server.remove()


@pytest.fixture(scope="session")
def postgres_template(postgres_server: str) -> Iterator[str]:
    """The name of a database with all tables and no rows: a copy is made faster than they are."""
    url = postgres.create_database(postgres_server)
    with ThreadPoolExecutor(1) as thread:  # whoever asks for this may have a loop running
        thread.submit(migrate, Server.from_url(url)).result(60)
    yield str(make_url(url).database)
    postgres.drop_database(postgres_server, url)


@pytest.fixture
def postgres_url(postgres_server: str, postgres_template: str) -> Iterator[str]:
    """A new, empty database with all tables."""
    url = postgres.create_database(postgres_server, postgres_template)
    yield url
    postgres.drop_database(postgres_server, url)


@pytest.fixture
def bare_postgres_url(postgres_server: str) -> Iterator[str]:
    """A new database without tables."""
    url = postgres.create_database(postgres_server)
    yield url
    postgres.drop_database(postgres_server, url)
