import asyncio
from collections.abc import AsyncIterator

import pytest
from tests.upstreams.scripted import CHUNKED, PATIENCE, Peer, Script, answer, chunk, serve

from bascule.upstreams.client import Timeouts, UpstreamFailure, UpstreamRequest
from bascule.upstreams.fetch import fetch, stream
from bascule.upstreams.http1 import Http1Client

pytestmark = pytest.mark.anyio


@pytest.fixture
async def client() -> AsyncIterator[Http1Client]:
    client = Http1Client()
    yield client
    await client.aclose()


def play(*pieces: bytes, closed: asyncio.Event | None = None) -> Script:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(*pieces)
        if closed is not None:
            await peer.gone()
            closed.set()

    return script


async def test_fetch(client: Http1Client) -> None:
    async with serve(play(answer(b'{"data":[]}', b"x-a: b", status=b"404 x"))) as server:
        result = await fetch(client, UpstreamRequest(url=server.url, method="GET"))
    assert (result.status, result.body) == (404, b'{"data":[]}')
    assert (b"x-a", b"b") in result.headers


async def test_fetch_has_a_limit(client: Http1Client) -> None:
    closed = asyncio.Event()
    async with serve(play(CHUNKED, chunk(b"x" * 1001), closed=closed)) as server:
        with pytest.raises(UpstreamFailure) as caught:
            await fetch(client, UpstreamRequest(url=server.url), max_bytes=1000)
        assert (caught.value.kind, caught.value.answered) == ("malformed", True)
        async with asyncio.timeout(PATIENCE):
            await closed.wait()


@pytest.mark.parametrize("sent", [b"", CHUNKED + chunk(b"x")], ids=["before", "after"])
async def test_failures_are_raised(client: Http1Client, sent: bytes) -> None:
    async with serve(play(sent)) as server:
        with pytest.raises(UpstreamFailure) as caught:
            await fetch(client, UpstreamRequest(url=server.url))
    assert (caught.value.kind, caught.value.answered) == ("closed", bool(sent))


@pytest.mark.parametrize("sent", [b"", CHUNKED + chunk(b"x")], ids=["before", "after"])
async def test_cancelling_drops_the_exchange(client: Http1Client, sent: bytes) -> None:
    closed = asyncio.Event()
    async with serve(play(sent, closed=closed)) as server:
        task = asyncio.create_task(fetch(client, UpstreamRequest(url=server.url)))
        async with asyncio.timeout(PATIENCE):
            while not server.requests:
                await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        async with asyncio.timeout(0.1):
            await closed.wait()


async def test_leaving_a_stream_early_drops_the_exchange(client: Http1Client) -> None:
    closed = asyncio.Event()
    async with serve(play(CHUNKED, chunk(b"x"), closed=closed)) as server:
        async with stream(client, UpstreamRequest(url=server.url)) as result:
            assert result.status == 200
            async for piece in result:
                assert piece == b"x"
                break
        async with asyncio.timeout(0.1):
            await closed.wait()


async def test_what_came_before_a_failure_is_read_first(client: Http1Client) -> None:
    async with (
        serve(play(CHUNKED + chunk(b"x"))) as server,
        stream(client, UpstreamRequest(url=server.url)) as result,
    ):
        await asyncio.sleep(0.05)
        pieces = aiter(result)
        assert await anext(pieces) == b"x"
        with pytest.raises(UpstreamFailure):
            await anext(pieces)


async def test_a_slow_reader_holds_the_server_back(client: Http1Client) -> None:
    block, count = 1024 * 1024, 40
    sent = 0

    async def script(peer: Peer) -> None:
        nonlocal sent
        await peer.request()
        await peer.send(CHUNKED)
        for number in range(count):
            await peer.send(chunk(b"%02d" % number * (block // 2)))
            sent += 1
        await peer.send(b"0\r\n\r\n")

    async with serve(script) as server:
        request = UpstreamRequest(url=server.url, timeouts=Timeouts(idle=0.2))
        async with stream(client, request) as result:
            await asyncio.sleep(0.5)  # longer than idle: not reading is not the server's fault
            assert sent < count
            body = b"".join([piece async for piece in result])
    assert len(body) == block * count
    assert [body[i : i + 2] for i in range(0, len(body), block)] == [
        b"%02d" % number for number in range(count)
    ]
