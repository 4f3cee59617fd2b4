import asyncio
import gc
import ssl
from collections.abc import AsyncIterator, Callable

import pytest
import trustme

from bascule.upstreams.client import UpstreamClient
from bascule.upstreams.http1 import Http1Client
from bascule.upstreams.proxied import ProxiedClient

MakeClient = Callable[..., UpstreamClient]


@pytest.fixture(
    params=[
        pytest.param(("asyncio", {"use_uvloop": False}), id="asyncio"),
        pytest.param(("asyncio", {"use_uvloop": True}), id="uvloop"),
    ]
)
def anyio_backend(request: pytest.FixtureRequest) -> object:
    return request.param


@pytest.fixture(params=[Http1Client, ProxiedClient], ids=["http1", "proxied"])
async def make_client(request: pytest.FixtureRequest) -> AsyncIterator[MakeClient]:
    """Makes clients of either adapter; closes them, and sees that nothing is left of them."""
    before = len(asyncio.all_tasks())
    made: list[UpstreamClient] = []

    def make(**options: object) -> UpstreamClient:
        made.append(request.param(**options))
        return made[-1]

    yield make
    for client in made:
        async with asyncio.timeout(5):
            await client.aclose()
    await asyncio.sleep(0)
    assert len(asyncio.all_tasks()) == before
    gc.collect(1)  # unclosed transports warn, and warnings are errors


@pytest.fixture
def client(make_client: MakeClient) -> UpstreamClient:
    return make_client()


@pytest.fixture(scope="session")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="session")
def server_tls(authority: trustme.CA) -> ssl.SSLContext:
    """For localhost."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    return context


@pytest.fixture(scope="session")
def client_tls(authority: trustme.CA) -> ssl.SSLContext:
    """Trusts the test authority."""
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context
