"""The proxies themselves; all else about this adapter is in the port's suite."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncGenerator

import pytest
from tests.upstreams.scripted import Peer, Record, Server, answer, serve

from bascule.upstreams.client import UpstreamRequest
from bascule.upstreams.proxied import ProxiedClient

pytestmark = pytest.mark.anyio


async def model(peer: Peer) -> None:
    while True:
        await peer.request()
        await peer.send(answer(b"from the model"))


async def proxy(peer: Peer) -> None:
    """Answers plain requests itself; tunnels CONNECT to where it points."""
    request = await peer.request()
    if not request.startswith(b"CONNECT "):
        await peer.send(answer(b"from the proxy"))
        return
    host, port = request.split()[1].decode().rsplit(":", 1)
    reader, writer = await asyncio.open_connection(host, int(port))
    await peer.send(b"HTTP/1.1 200 Connected\r\n\r\n")
    try:
        await asyncio.gather(pump(peer.reader, writer), pump(reader, peer.writer))
    finally:
        writer.transport.abort()


async def pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await source.read(65536):
            sink.write(data)
            await sink.drain()
    sink.close()


@contextlib.asynccontextmanager
async def closing(client: ProxiedClient) -> AsyncGenerator[ProxiedClient]:
    try:
        yield client
    finally:
        await client.aclose()


async def get(client: ProxiedClient, url: str) -> Record:
    record = Record()
    client.send(UpstreamRequest(url=url, headers=[(b"x-mine", b"1")]), record)
    return await record.finish()


async def test_plain() -> None:
    async with serve(proxy) as server:
        url = f"http://user:pass@localhost:{server.port}"
        async with closing(ProxiedClient(proxy=url)) as client:
            record = await get(client, "http://model.invalid/v1/models?x=1")
    assert record.body == b"from the proxy"
    head = server.requests[0].lower()
    assert head.startswith(b"post http://model.invalid/v1/models?x=1 http/1.1\r\n")
    assert b"\r\nx-mine: 1\r\n" in head
    assert b"\r\nproxy-authorization: basic dxnlcjpwyxnz\r\n" in head


async def test_tls_goes_through_a_tunnel(
    server_tls: ssl.SSLContext, client_tls: ssl.SSLContext
) -> None:
    async with serve(model, server_tls) as upstream, serve(proxy) as server:
        client = ProxiedClient(proxy=f"http://localhost:{server.port}", ssl_context=client_tls)
        async with closing(client):
            for _ in range(2):
                record = await get(client, upstream.url)
                assert (record.failure, record.body) == (None, b"from the model")
    assert server.requests[0].startswith(b"CONNECT localhost:%d " % upstream.port)
    assert b"x-mine" not in server.requests[0]
    assert len(server.requests) == len(upstream.peers) == 1


async def test_the_model_behind_the_tunnel_is_verified(server_tls: ssl.SSLContext) -> None:
    async with (
        serve(model, server_tls) as upstream,
        serve(proxy) as server,
        closing(ProxiedClient(proxy=f"http://localhost:{server.port}")) as client,
    ):
        record = await get(client, upstream.url)
        assert await record.failed() == ("connect", False)
    assert not upstream.requests


async def refuse(peer: Peer) -> None:
    await peer.request()
    await peer.send(answer(b"", status=b"407 Proxy Authentication Required"))


async def test_a_proxy_that_refuses() -> None:
    async with serve(refuse) as server:
        url = f"http://localhost:{server.port}"
        async with closing(ProxiedClient(proxy=url)) as client:
            assert await (await get(client, "https://a.invalid/")).failed() == ("connect", False)


async def test_a_proxy_that_is_not_there() -> None:
    async with serve(refuse) as server:
        pass
    async with closing(ProxiedClient(proxy=f"http://localhost:{server.port}")) as client:
        for url in ("http://a.invalid/", "https://a.invalid/"):
            assert await (await get(client, url)).failed() == ("connect", False)


async def test_the_environment_names_the_proxy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with serve(model) as direct, serve(proxy) as server:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("http_proxy", f"http://localhost:{server.port}")
        monkeypatch.setenv("no_proxy", "localhost")
        assert await bodies(direct, trust_env=True) == [b"from the proxy", b"from the model"]
        assert await bodies(direct, trust_env=False) == [b"", b"from the model"]


async def bodies(direct: Server, *, trust_env: bool) -> list[bytes]:
    async with closing(ProxiedClient(trust_env=trust_env)) as client:
        urls = ["http://model.invalid/", direct.url]
        return [(await get(client, url)).body for url in urls]


async def test_headers_must_be_text() -> None:
    async with closing(ProxiedClient()) as client:
        with pytest.raises(ValueError, match="decode"):
            client.send(UpstreamRequest(url="http://a/", headers=[(b"x", b"\xff")]), Record())
