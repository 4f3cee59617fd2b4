"""What only the small client promises, or does better than the port asks."""

import asyncio
import gc
import socket
import weakref
from collections.abc import AsyncIterator

import pytest
from tests.upstreams.scripted import (
    CHUNKED,
    PATIENCE,
    Peer,
    Record,
    Server,
    answer,
    chunk,
    serve,
)

from bascule.upstreams.client import Timeouts, UpstreamRequest
from bascule.upstreams.http1 import Http1Client
from bascule.upstreams.http1_connection import Http1Exchange
from bascule.upstreams.wire import parse_target

pytestmark = pytest.mark.anyio


@pytest.fixture
async def client() -> AsyncIterator[Http1Client]:
    client = Http1Client(keep_idle=0.2)
    yield client
    await client.aclose()


async def get(client: Http1Client, server: Server, **options: object) -> Record:
    fields: dict[str, object] = {"url": server.url, **options}
    record = Record()
    client.send(UpstreamRequest(**fields), record)  # pyright: ignore[reportArgumentType]
    return await record.finish()


async def forever(peer: Peer) -> None:
    while True:
        await peer.request()
        await peer.send(answer(b"x"))


async def test_the_path_goes_out_as_it_is(client: Http1Client) -> None:
    async with serve(forever) as server:
        for path in ("/a%2Fb/../c?d=%2F&e=%41&&", "?x", "", "/#fragment", "//x"):
            await get(client, server, url=f"HTTP://LocalHost:{server.port}{path}", method="GET")
    lines = [request.split(b"\r\n")[:2] for request in server.requests]
    assert [line.split()[1] for line, _ in lines] == [
        b"/a%2Fb/../c?d=%2F&e=%41&&",
        b"/?x",
        b"/",
        b"/",
        b"//x",
    ]
    assert {host for _, host in lines} == {b"host: localhost:%d" % server.port}
    assert len(server.peers) == 1


async def test_an_unasked_answer_closes_the_connection(client: Http1Client) -> None:
    closed = asyncio.Event()
    first_over = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(answer(b"x"))
        if peer.number == 0:
            await first_over.wait()
            await peer.send(answer(b"forged"))
            await peer.gone()
            closed.set()

    async with serve(script) as server:
        assert (await get(client, server)).ended
        first_over.set()
        async with asyncio.timeout(PATIENCE):
            await closed.wait()
        assert (await get(client, server)).body == b"x"
    assert len(server.peers) == 2


@pytest.mark.parametrize(
    "extra", [b"garbage", b"HTTP/1.1 200 OK\r\n", b"0\r\n\r\n", answer(b"forged")]
)
@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_bytes_beyond_the_answer(client: Http1Client, extra: bytes, method: str) -> None:
    whole = answer(b"x") if method == "GET" else b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n"

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(whole + extra)
        await peer.gone()

    async with serve(script) as server:
        for _ in range(2):
            record = await get(client, server, method=method)
            assert (record.body, record.ended) == (b"x" if method == "GET" else b"", True)
    assert len(server.peers) == 2


@pytest.mark.parametrize(
    "after",
    [
        b"xyz\r\n",
        b"2\r\nabc\r\n",
        b"1;" + b"e" * 100_000,
        b"0\r\n" + b"t: " + b"e" * 100_000,
        b"0\r\n" + b"t: e\r\n" * 20_000,
    ],
    ids=["size", "overlong", "extension", "trailer", "trailers"],
)
async def test_a_malformed_body(client: Http1Client, after: bytes) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(CHUNKED, chunk(b"good"))
        await peer.send(after)
        await peer.gone()

    async with serve(script) as server:
        record = await get(client, server)
        assert await record.failed() == ("malformed", True)
    assert record.body.startswith(b"good")


@pytest.mark.parametrize(
    "piece", [b"HTTP/1.1 103 Hint\r\n\r\n", b"x: " + b"y" * 100 + b"\r\n"], ids=["1xx", "header"]
)
async def test_an_endless_head(client: Http1Client, piece: bytes) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        if piece.startswith(b"x"):
            await peer.send(b"HTTP/1.1 200 OK\r\n")
        while True:
            await peer.send(piece)

    async with serve(script) as server:
        record = await get(client, server)
        assert await record.failed() == ("malformed", False)


async def test_switching_protocols_is_malformed(client: Http1Client) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(
            b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\nxxx"
        )
        await peer.gone()

    async with serve(script) as server:
        record = await get(client, server)
        assert await record.failed() == ("malformed", False)


async def test_an_unused_connection_is_closed_after_a_while(client: Http1Client) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(answer(b"x"))
        await peer.gone()
        closed.set()

    closed = asyncio.Event()
    async with serve(script) as server:
        await get(client, server, timeouts=Timeouts(idle=0.1))
        async with asyncio.timeout(PATIENCE):
            await closed.wait()


async def test_a_server_that_does_not_read_is_idle(client: Http1Client) -> None:
    async def script(peer: Peer) -> None:
        peer.writer.transport.pause_reading()  # pyright: ignore[reportAttributeAccessIssue]
        await released.wait()

    released = asyncio.Event()
    async with serve(script) as server:
        timeouts = Timeouts(idle=0.2, first_byte=60)
        record = await get(client, server, body=b"x" * 40_000_000, timeouts=timeouts)
        assert await record.failed() == ("idle_timeout", False)
        released.set()


async def test_the_clock_of_the_first_byte_starts_when_the_request_is_out(
    client: Http1Client,
) -> None:
    """A server that takes its time over a large body."""

    async def script(peer: Peer) -> None:
        await peer.reader.readuntil(b"\r\n\r\n")
        for _ in range(20):
            await asyncio.sleep(0.02)
            await peer.reader.readexactly(2_000_000)
        await peer.send(answer(b"x"))

    async with serve(script) as server:
        timeouts = Timeouts(idle=5, first_byte=0.25)
        record = await get(client, server, body=b"x" * 40_000_000, timeouts=timeouts)
        await record.succeeded()


async def test_an_answer_to_half_a_request_ends_the_connection(client: Http1Client) -> None:
    async def script(peer: Peer) -> None:
        await peer.reader.readuntil(b"\r\n\r\n")
        await peer.send(answer(b"too large", status=b"413 Content Too Large"))
        await peer.gone()

    async with serve(script) as server:
        for _ in range(2):
            record = await get(client, server, body=b"x" * 40_000_000)
            assert record.status == 413
    assert len(server.peers) == 2


async def test_small_writes_leave_at_once(client: Http1Client) -> None:
    async with serve(forever) as server:
        await get(client, server)
        (connection,) = client._open
        sock = connection.transport.get_extra_info("socket")
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


async def test_nothing_holds_on_to_what_is_over(client: Http1Client) -> None:
    """No cycle is left for the garbage collector, and the request's body goes with its answer's head."""

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(CHUNKED + chunk(b"x"))
        await more.wait()
        await peer.send(b"0\r\n\r\n")
        await peer.gone()

    more = asyncio.Event()
    gc.disable()
    try:
        async with serve(script) as server:
            records = [Record()]
            exchange = client.send(UpstreamRequest(url=server.url, body=b"x" * 1000), records[0])
            await records[0].until(lambda: records[0].pieces)
            assert isinstance(exchange, Http1Exchange)
            assert exchange.body == b""
            more.set()
            await records[0].succeeded()
            left = weakref.ref(records.pop())
            assert left() is None
    finally:
        gc.enable()


async def test_a_receiver_whose_fail_raises(client: Http1Client) -> None:
    class Hopeless(Record):
        def fail(self, failure: object) -> None:
            raise ZeroDivisionError

    async def script(peer: Peer) -> None:
        await peer.request()

    heard: list[dict[str, object]] = []
    told = asyncio.Event()

    def handler(_: object, context: dict[str, object]) -> None:
        heard.append(context)
        told.set()

    loop = asyncio.get_running_loop()
    loop.set_exception_handler(handler)
    try:
        async with serve(script) as server:
            client.send(UpstreamRequest(url=server.url), Hopeless())
            async with asyncio.timeout(PATIENCE):
                await told.wait()
    finally:
        loop.set_exception_handler(None)
    assert isinstance(heard[0]["exception"], ZeroDivisionError)


async def test_an_ipv6_literal(client: Http1Client) -> None:
    server = Server(forever)
    try:
        listener = await asyncio.start_server(server._serve, "::1", 0)
    except OSError:
        pytest.skip("no IPv6 here")
    port = listener.sockets[0].getsockname()[1]
    async with listener:
        record = await get(client, server, url=f"http://[::1]:{port}/")
        await client.aclose()
    assert record.ended
    assert b"host: [::1]:%d\r\n" % port in server.requests[0]


async def test_a_kept_connection_that_is_closing_is_passed_over(client: Http1Client) -> None:
    async with serve(forever) as server:
        await get(client, server)
        (connection,) = client._open
        connection.transport.abort()
        assert (await get(client, server)).ended
    assert len(server.peers) == 2


async def test_a_fresh_connection_that_is_closing_fails(client: Http1Client) -> None:
    """The loop may report its loss before the exchange gets it, and never again."""
    async with serve(forever) as server:
        await get(client, server)
        (connection,) = client._open
        connection.transport.abort()
        record = Record()
        request = UpstreamRequest(url=server.url)
        target = parse_target(server.url)
        connection.begin(Http1Exchange(client, request, target, b"", record), reused=False)
        assert await record.failed() == ("closed", False)
