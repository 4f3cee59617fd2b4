"""The gateway that the tests share."""

from collections.abc import AsyncGenerator

import pytest

from tests.conformance.asking import shared_gateway


@pytest.fixture(scope="session", autouse=True)
async def _one_gateway(anyio_backend: str) -> AsyncGenerator[None]:
    async with shared_gateway():
        yield
