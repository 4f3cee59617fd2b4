import pytest
from hypothesis import settings

from tests.conformance import manifest, schema
from tests.recordings import keys

# A busy machine is no fault of the code: tests that mean a time limit say so.
settings.register_profile("bascule", deadline=None, print_blob=True)
settings.load_profile("bascule")

pytest_plugins = ["pytester"]


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "requirement(*ids): what the test proves, by ids of the requirements manifest"
    )
    enforcement = manifest.Enforcement(manifest.load(), [schema.stale_differences, keys.stale])
    config.pluginmanager.register(enforcement, "requirements")


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"
