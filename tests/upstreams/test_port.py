"""The suite of the upstream port: every adapter passes it, on every event loop."""

import asyncio
import contextlib
import ssl
from collections.abc import Callable

import pytest
from tests.upstreams.scripted import (
    CHUNKED,
    Peer,
    Raising,
    Record,
    answer,
    ask,
    chunk,
    each_byte,
    get,
    gone_within,
    play,
    serve,
)

from bascule.upstreams.client import (
    UpstreamClient,
    UpstreamRequest,
)

pytestmark = pytest.mark.anyio
MakeClient = Callable[..., UpstreamClient]


# Framing.


async def test_the_request_on_the_wire(client: UpstreamClient) -> None:
    async with serve(play(answer(b"hello"))) as server:
        headers = [(b"content-type", b"application/json"), (b"authorization", b"Bearer x")]
        record = await get(client, server, headers=headers)
    head, _, body = server.requests[0].partition(b"\r\n\r\n")
    lines = head.lower().split(b"\r\n")
    assert head.startswith(b"POST /v1/chat?x=1 HTTP/1.1\r\n")
    assert sorted(lines[1:]) == sorted(
        [
            b"host: localhost:%d" % server.port,
            b"content-type: application/json",
            b"authorization: bearer x",
            b"content-length: 7",
        ]
    )
    assert body == b'{"a":1}'
    assert (record.status, record.body, record.ended) == (200, b"hello", True)


FRAMINGS = {
    "length": answer(b"hello world", b"X-Mixed: Case", b"x-twice: 1", b"x-twice: 2"),
    "chunked": CHUNKED + chunk(b"hello") + chunk(b" world", b";a=b;c") + b"0\r\n\r\n",
    "trailers": CHUNKED + chunk(b"hello world") + b"0\r\nx-sum: 1\r\nx-more: 2\r\n\r\n",
    "until eof": b"HTTP/1.1 200 OK\r\n\r\nhello world",
    "http/1.0": b"HTTP/1.0 200 OK\r\n\r\nhello world",
    "100": b"HTTP/1.1 100 Continue\r\n\r\n" + answer(b"hello world"),
    "103 twice": b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n" * 2 + answer(b"hello world"),
}


@pytest.mark.parametrize("framing", FRAMINGS)
@pytest.mark.parametrize("fragmented", [False, True], ids=["whole", "bytewise"])
async def test_framings(client: UpstreamClient, framing: str, fragmented: bool) -> None:
    wire = FRAMINGS[framing]
    async with serve(play(*(each_byte(wire) if fragmented else [wire]))) as server:
        record = await get(client, server)
    assert record.failure is None
    assert (record.status, record.body) == (200, b"hello world")
    if framing == "length":
        assert list(record.headers)[1:] == [
            (b"x-mixed", b"Case"),
            (b"x-twice", b"1"),
            (b"x-twice", b"2"),
        ]


async def test_a_split_at_every_byte(client: UpstreamClient) -> None:
    wire = (
        b"HTTP/1.1 103 Hint\r\n\r\n"
        + CHUNKED
        + chunk(b"one", b";x")
        + chunk(b"two")
        + b"0\r\nt: 1\r\n\r\n"
    )
    position = 0

    async def script(peer: Peer) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError):
            while True:
                await peer.request()
                await peer.send(wire[:position], wire[position:])

    async with serve(script) as server:
        for position in range(len(wire)):
            record = await get(client, server)
            assert (record.body, record.ended) == (b"onetwo", True), position
    assert len(server.peers) == 1


@pytest.mark.parametrize(
    ("method", "wire"),
    [
        ("POST", b"HTTP/1.1 204 No Content\r\n\r\n"),
        ("GET", b"HTTP/1.1 304 Not Modified\r\ncontent-length: 99\r\n\r\n"),
        ("HEAD", b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n"),
        ("POST", b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"),
        ("POST", CHUNKED + b"0\r\n\r\n"),
    ],
)
async def test_answers_without_a_body(client: UpstreamClient, method: str, wire: bytes) -> None:
    async with serve(play(wire, times=2, then_close=False)) as server:
        for _ in range(2):
            record = await get(client, server, method=method, body=b"")
            assert (record.pieces, record.ended) == ([], True)
    assert len(server.peers) == 1


async def test_a_compressed_body_is_handed_on_as_it_is(client: UpstreamClient) -> None:
    async with serve(play(answer(b"\x1f\x8bxx", b"content-encoding: gzip"))) as server:
        record = await get(client, server)
    assert record.body == b"\x1f\x8bxx"
    assert (b"content-encoding", b"gzip") in record.headers


async def test_redirects_are_not_followed(client: UpstreamClient) -> None:
    async with serve(play(answer(b"", b"location: /x", status=b"302 Found"))) as server:
        record = await get(client, server)
    assert record.status == 302


async def test_one_read_is_one_call(client: UpstreamClient) -> None:
    wire = b"".join(chunk(b"data: %d\n\n" % i) for i in range(50))
    async with serve(play(CHUNKED, wire + b"0\r\n\r\n")) as server:
        record = await get(client, server)
    assert record.body.count(b"\n\n") == 50
    assert len(record.pieces) <= 2


async def test_big_both_ways(client: UpstreamClient) -> None:
    big = bytes(range(256)) * 20_000  # 5 MB
    async with serve(play(answer(big), times=2, then_close=False)) as server:
        for _ in range(2):
            record = await get(client, server, body=big)
            assert record.body == big
        assert server.requests[1].endswith(big)
        assert len(server.peers) == 1


async def test_ten_at_once(client: UpstreamClient) -> None:
    async def script(peer: Peer) -> None:
        body = (await peer.request()).rpartition(b"\r\n\r\n")[2]
        await peer.send(CHUNKED, *(chunk(body) for _ in range(5)), b"0\r\n\r\n")
        await peer.gone()

    async with serve(script) as server:
        records = [Record() for _ in range(10)]
        for number, record in enumerate(records):
            client.send(ask(server, body=b"<%d>" % number), record)
        for number, record in enumerate(records):
            await record.succeeded()
            assert record.body == b"<%d>" % number * 5


# Connections.


async def test_connections_are_kept(client: UpstreamClient) -> None:
    async with serve(play(answer(b"x"), times=3, then_close=False)) as server:
        for _ in range(3):
            assert (await get(client, server)).ended
    assert len(server.peers) == 1


@pytest.mark.parametrize(
    "wire",
    [
        answer(b"x", b"connection: close"),
        b"HTTP/1.0 200 OK\r\ncontent-length: 1\r\n\r\nx",
        answer(b"x") + answer(b"forged"),
    ],
)
async def test_connections_that_are_not_kept(client: UpstreamClient, wire: bytes) -> None:
    async with serve(play(wire, then_close=False)) as server:
        for _ in range(2):
            record = await get(client, server)
            assert (record.body, record.ended) == (b"x", True)
    assert len(server.peers) == 2


async def test_a_stale_connection_is_replaced(client: UpstreamClient) -> None:
    """The server closes on the second request without a word, as if its patience had run out."""

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(answer(b"%d" % peer.number))
        if peer.number == 0:
            await peer.request()
        else:
            await peer.gone()

    async with serve(script) as server:
        assert (await get(client, server)).body == b"0"
        assert (await get(client, server)).body == b"1"
    assert len(server.requests) == 3


async def test_a_fresh_connection_that_closes_is_not_retried(client: UpstreamClient) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()

    async with serve(script) as server:
        record = Record()
        client.send(ask(server), record)
        assert await record.failed() == ("closed", False)
    assert len(server.peers) == 1


async def test_a_stale_connection_is_retried_once_only(client: UpstreamClient) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        if peer.number == 0:
            await peer.send(answer(b"x"))
            await peer.request()

    async with serve(script) as server:
        assert (await get(client, server)).ended
        record = Record()
        client.send(ask(server), record)
        assert await record.failed() == ("closed", False)
    assert len(server.peers) == 2


async def test_a_kept_connection_that_broke_off_midway_is_not_retried(
    client: UpstreamClient,
) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(answer(b"x"))
        await peer.request()
        await peer.send(b"HTTP/1.1 200")

    async with serve(script) as server:
        assert (await get(client, server)).ended
        record = Record()
        client.send(ask(server), record)
        assert await record.failed() == ("closed", False)
    assert len(server.peers) == 1


async def test_an_answer_before_the_request_was_read(client: UpstreamClient) -> None:
    async def script(peer: Peer) -> None:
        await peer.reader.readuntil(b"\r\n\r\n")
        await peer.send(answer(b"too large", status=b"413 Content Too Large"))

    async with serve(script) as server:
        for _ in range(5):
            record = await get(client, server, body=b"x" * 5_000_000)
            assert (record.status, record.body, record.ended) == (413, b"too large", True)
    assert len(server.peers) == 5


# What goes wrong.


@pytest.mark.parametrize(
    "wire",
    [
        b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhello",
        CHUNKED + chunk(b"hello"),
        CHUNKED + b"a\r\nhello",
    ],
)
async def test_a_truncated_answer(client: UpstreamClient, wire: bytes) -> None:
    async with serve(play(wire)) as server:
        record = Record()
        client.send(ask(server), record)
        assert await record.failed() == ("closed", True)
    assert record.body == b"hello"


@pytest.mark.parametrize(
    "wire",
    [
        b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
        b"HTTP/1.1 abc OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nx-long: " + b"x" * 70_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"x-many: y\r\n" * 9_000 + b"\r\n",
        b"HTTP/1.1 200 " + b"x" * 300_000,
    ],
    ids=["ssh", "status", "header", "length", "both", "long", "many", "reason"],
)
async def test_a_malformed_head(client: UpstreamClient, wire: bytes) -> None:
    async with serve(play(wire, then_close=False)) as server:
        record = Record()
        client.send(ask(server), record)
        assert await record.failed() == ("malformed", False)


async def test_nobody_listens(client: UpstreamClient) -> None:
    async with serve(play()) as server:
        pass
    record = Record()
    client.send(ask(server), record)
    assert await record.failed() == ("connect", False)


async def test_no_such_host(client: UpstreamClient) -> None:
    record = Record()
    client.send(UpstreamRequest(url="http://nowhere.invalid/"), record)
    assert await record.failed() == ("connect", False)


@pytest.mark.parametrize("where", ["head", "data", "end"])
async def test_a_receiver_that_raises(client: UpstreamClient, where: str) -> None:
    async with serve(play(CHUNKED, chunk(b"x"), b"0\r\n\r\n", then_close=False)) as server:
        record = Raising(where)
        client.send(ask(server), record)
        assert await record.failed() == ("receiver", True)
        assert record.failure is not None
        assert isinstance(record.failure.__cause__, ZeroDivisionError)
        if where != "end":
            assert await gone_within(server, 0.1)


@pytest.mark.parametrize(
    "fault",
    [
        {"url": "http://u:p@host/"},
        {"url": "ftp://host/"},
        {"url": "//host/"},
        {"url": "http://host/a b"},
        {"url": "http://host/\r\nx: y"},
        {"url": "http://host/é"},
        {"url": "http://host:99999/"},
        {"url": "http:///x"},
        {"headers": [(b"x", b"a\r\nb: c")]},
        {"headers": [(b"x", b"a\x00")]},
        {"headers": [(b"x y", b"a")]},
        {"headers": [(b"", b"a")]},
        {"headers": [(b"Host", b"a")]},
        {"headers": [(b"content-length", b"0")]},
        {"method": "GE T"},
    ],
)
async def test_requests_that_are_refused(client: UpstreamClient, fault: dict[str, object]) -> None:
    async with serve(play()) as server:
        with pytest.raises(ValueError, match=r"URL|header|method"):
            client.send(ask(server, **fault), Record())


# TLS.


async def test_tls(
    make_client: MakeClient, server_tls: ssl.SSLContext, client_tls: ssl.SSLContext
) -> None:
    client = make_client(ssl_context=client_tls)
    big = b"0123456789" * 50_000
    async with serve(play(answer(big), times=2, then_close=False), server_tls) as server:
        for _ in range(2):
            record = await get(client, server, body=big)
            assert record.body == big
    assert len(server.peers) == 1


async def test_tls_untrusted(client: UpstreamClient, server_tls: ssl.SSLContext) -> None:
    async with serve(play(answer(b"x")), server_tls) as server:
        record = Record()
        client.send(ask(server), record)
        assert await record.failed() == ("connect", False)
    assert not server.requests


async def test_tls_wrong_name(
    make_client: MakeClient, server_tls: ssl.SSLContext, client_tls: ssl.SSLContext
) -> None:
    client = make_client(ssl_context=client_tls)
    async with serve(play(answer(b"x")), server_tls) as server:
        record = Record()
        client.send(ask(server, url=f"https://127.0.0.1:{server.port}/"), record)
        assert await record.failed() == ("connect", False)
    assert not server.requests
