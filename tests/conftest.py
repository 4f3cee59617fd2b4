import pytest
from hypothesis import settings

# A busy machine is no fault of the code: tests that mean a time limit say so.
settings.register_profile("bascule", deadline=None, print_blob=True)
settings.load_profile("bascule")


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"
