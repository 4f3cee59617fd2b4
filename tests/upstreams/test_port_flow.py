"""The suite of the upstream port, second part: back-pressure, time, leaving."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable

import pytest
from tests.upstreams.scripted import (
    CHUNKED,
    PATIENCE,
    Peer,
    Raising,
    Record,
    Script,
    Server,
    answer,
    ask,
    chunk,
    gone_within,
    half,
    play,
    serve,
    silence,
    wait_until,
)

from bascule.upstreams.client import (
    Exchange,
    Timeouts,
    UpstreamClient,
)

pytestmark = pytest.mark.anyio
MakeClient = Callable[..., UpstreamClient]


# Back-pressure.


async def test_pause_holds_the_server_back_and_loses_nothing(client: UpstreamClient) -> None:
    block = 65536
    total = 40 * 1024 * 1024 // block
    sent = 0

    async def script(peer: Peer) -> None:
        nonlocal sent
        await peer.request()
        await peer.send(CHUNKED)
        for number in range(total):
            await peer.send(chunk(number.to_bytes(4, "big") * (block // 4)))
            sent = number + 1
        await peer.send(b"0\r\n\r\n")
        await peer.gone()

    async with serve(script) as server:
        record = Record()
        exchange = client.send(ask(server), record)
        await record.until(lambda: record.pieces)
        exchange.pause()
        held = await settles(lambda: sent)
        received = len(record.body)
        assert held < total  # the rest waits in the server
        await asyncio.sleep(0.05)
        assert len(record.body) == received
        exchange.resume()
        await record.succeeded()
    whole = record.body
    assert len(whole) == total * block
    for number in range(total):
        assert whole[number * block : number * block + 4] == number.to_bytes(4, "big")


async def settles(measure: Callable[[], int]) -> int:
    """The value that stays the same for 200 ms."""
    async with asyncio.timeout(PATIENCE):
        last = -1
        while last != measure():
            last = measure()
            await asyncio.sleep(0.2)
    return last


async def test_pausing_before_the_head(client: UpstreamClient) -> None:
    async with serve(play(answer(b"hello"), times=2, then_close=False)) as server:
        for _ in range(2):  # on a fresh connection and on a kept one
            record = Record()
            exchange = client.send(ask(server), record)
            exchange.pause()
            await wait_until(lambda: server.requests)
            await asyncio.sleep(0.05)
            assert not record.over
            exchange.resume()
            assert (await record.succeeded()).body == b"hello"
            server.requests.clear()


async def test_a_pause_from_within_data_does_not_outlive_the_exchange(
    client: UpstreamClient,
) -> None:
    class Pausing(Record):
        exchange: Exchange | None = None

        def data(self, data: bytes) -> None:
            super().data(data)
            assert self.exchange is not None
            self.exchange.pause()
            asyncio.get_running_loop().call_later(0.02, self.exchange.resume)

    async with serve(play(answer(b"hello"), times=3, then_close=False)) as server:
        for _ in range(3):
            record = Pausing()
            record.exchange = client.send(ask(server), record)
            await record.succeeded()
    assert len(server.peers) == 1


# Time.


async def test_first_byte_timeout(client: UpstreamClient) -> None:
    async with serve(silence) as server:
        record = Record()
        client.send(ask(server, timeouts=Timeouts(first_byte=0.1)), record)
        assert await record.failed() == ("first_byte_timeout", False)
        assert await gone_within(server, 0.1)


async def test_interim_answers_do_not_stretch_the_first_byte(client: UpstreamClient) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        while True:
            await peer.send(b"HTTP/1.1 102 Processing\r\n\r\n")
            await asyncio.sleep(0.02)

    async with serve(script) as server:
        record = Record()
        client.send(ask(server, timeouts=Timeouts(first_byte=0.2)), record)
        assert await record.failed() == ("first_byte_timeout", False)


async def test_idle_timeout(client: UpstreamClient) -> None:
    async with serve(half) as server:
        record = Record()
        client.send(ask(server, timeouts=Timeouts(idle=0.1)), record)
        assert await record.failed() == ("idle_timeout", True)
        assert await gone_within(server, 0.1)


async def test_a_slow_but_steady_answer_is_not_idle(client: UpstreamClient) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(CHUNKED)
        for _ in range(10):
            await asyncio.sleep(0.05)
            await peer.send(chunk(b"x"))
        await peer.send(b"0\r\n\r\n")

    async with serve(script) as server:
        record = Record()
        client.send(ask(server, timeouts=Timeouts(idle=0.2, first_byte=0.2)), record)
        await record.succeeded()


async def test_connect_timeout(client: UpstreamClient, client_tls: ssl.SSLContext) -> None:
    """A server that takes the connection and never shakes hands."""

    async with serve(Peer.gone) as server:
        server.scheme = "https"
        record = Record()
        client.send(ask(server, timeouts=Timeouts(connect=0.1)), record)
        assert await record.failed() == ("connect_timeout", False)
        assert await gone_within(server, 0.1)


async def test_a_paused_exchange_does_not_time_out(client: UpstreamClient) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(CHUNKED + chunk(b"x"))
        await resumed.wait()
        await peer.send(chunk(b"y") + b"0\r\n\r\n")

    resumed = asyncio.Event()
    async with serve(script) as server:
        record = Record()
        exchange = client.send(ask(server, timeouts=Timeouts(idle=0.1, first_byte=0.1)), record)
        await record.until(lambda: record.pieces)
        exchange.pause()
        await asyncio.sleep(0.4)
        assert not record.over
        resumed.set()
        exchange.resume()
        assert (await record.succeeded()).body == b"xy"


# Leaving.


async def handshaking(server: Server, record: Record, exchange: Exchange) -> None:
    await wait_until(lambda: server.peers)


async def waiting(server: Server, record: Record, exchange: Exchange) -> None:
    await wait_until(lambda: server.requests)


async def midway(server: Server, record: Record, exchange: Exchange) -> None:
    await record.until(lambda: record.pieces)


async def paused(server: Server, record: Record, exchange: Exchange) -> None:
    await midway(server, record, exchange)
    exchange.pause()


Stage = Callable[[Server, Record, Exchange], Awaitable[None]]
STAGES: list[tuple[Stage, Script]] = [
    (handshaking, Peer.gone),
    (waiting, silence),
    (midway, half),
    (paused, half),
]
by_stage = pytest.mark.parametrize(("stage", "script"), STAGES, ids=lambda v: v.__name__)


@by_stage
async def test_drop_closes_at_once(client: UpstreamClient, stage: Stage, script: Script) -> None:
    async with serve(script) as server:
        if stage is handshaking:
            server.scheme = "https"
        record = Record()
        exchange = client.send(ask(server), record)
        await stage(server, record, exchange)
        exchange.drop()
        exchange.drop()
        assert await gone_within(server, 0.1)
        exchange.pause()
        exchange.resume()
        assert not record.over


@by_stage
async def test_closing_the_client(client: UpstreamClient, stage: Stage, script: Script) -> None:
    async with serve(script) as server:
        if stage is handshaking:
            server.scheme = "https"
        record = Record()
        exchange = client.send(ask(server), record)
        await stage(server, record, exchange)
        async with asyncio.timeout(1):
            await client.aclose()
        assert await record.failed() == ("closed", bool(record.status))
        assert await gone_within(server, 0.1)
        with pytest.raises(RuntimeError):
            client.send(ask(server), Record())
        exchange.drop()


async def test_drop_before_anything_happened(client: UpstreamClient) -> None:
    async with serve(silence) as server:
        record = Record()
        client.send(ask(server), record).drop()
        await asyncio.sleep(0.05)
        assert await gone_within(server, 0.1)
    assert not record.over
    assert not server.requests


@pytest.mark.parametrize("where", ["head", "data", "end"])
async def test_drop_from_within(client: UpstreamClient, where: str) -> None:
    class Dropping(Raising):
        exchange: Exchange | None = None

        def _maybe(self, where: str) -> None:
            if where == self.where and self.exchange is not None:
                self.exchange.drop()
                called.set()

    called = asyncio.Event()
    async with serve(play(CHUNKED + chunk(b"x") + b"0\r\n\r\n", then_close=False)) as server:
        record = Dropping(where)
        record.exchange = client.send(ask(server), record)
        async with asyncio.timeout(PATIENCE):
            await called.wait()
        await asyncio.sleep(0.02)
        assert record.failure is None
        assert bool(record.pieces) == (where != "head")


async def test_the_next_request_from_within_end(client: UpstreamClient) -> None:
    class Chaining(Record):
        def end(self) -> None:
            client.send(ask(server), second)

    second = Record()
    async with serve(play(answer(b"x"), times=2, then_close=False)) as server:
        client.send(ask(server), Chaining())
        assert (await second.succeeded()).body == b"x"
