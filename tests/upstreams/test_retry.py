import asyncio
import time
from collections.abc import AsyncIterator

import pytest
from tests.upstreams.scripted import CHUNKED, PATIENCE, Peer, Record, Script, answer, chunk, serve

from bascule.upstreams.client import Headers, Timeouts, UpstreamFailure, UpstreamRequest
from bascule.upstreams.http1 import Http1Client
from bascule.upstreams.retry import RetryingClient

pytestmark = pytest.mark.anyio
BACKOFF = (0.03, 0.06)


@pytest.fixture
async def client() -> AsyncIterator[RetryingClient]:
    client = RetryingClient(Http1Client(), backoff=BACKOFF)
    yield client
    await client.aclose()
    assert not client.waiting


def outcomes(*wires: bytes) -> Script:
    """The first request, over all connections, gets the first of these, and so on; b"" closes."""
    left = list(wires)

    async def script(peer: Peer) -> None:
        while True:
            await peer.request()
            wire = left.pop(0)
            await peer.send(wire)
            if not wire:
                return

    return script


OK = answer(b"good")
BUSY = answer(b"busy", status=b"503 Service Unavailable")


async def run(client: RetryingClient, script: Script, **options: object) -> tuple[Record, int]:
    """The record, and how many requests were made."""
    async with serve(script) as server:
        record = Record()
        fields: dict[str, object] = {"url": server.url, "body": b"ask", **options}
        client.send(UpstreamRequest(**fields), record)  # pyright: ignore[reportArgumentType]
        await record.finish()
        assert all(request.endswith(b"\r\n\r\nask") for request in server.requests)
        return record, len(server.requests)


@pytest.mark.parametrize("status", [b"502 x", b"503 x", b"504 x"])
async def test_statuses_that_are_retried(client: RetryingClient, status: bytes) -> None:
    bad = answer(b"bad", status=status)
    record, tries = await run(client, outcomes(bad, bad, OK))
    assert (record.status, record.body, tries) == (200, b"good", 3)


@pytest.mark.parametrize("status", [b"400 x", b"401 x", b"429 x", b"500 x", b"501 x", b"529 x"])
async def test_statuses_that_are_relayed(client: RetryingClient, status: bytes) -> None:
    record, tries = await run(client, outcomes(answer(b"bad", status=status)))
    assert (record.status, record.body, tries) == (int(status[:3]), b"bad", 1)


async def test_the_last_answer_is_delivered_whole(client: RetryingClient) -> None:
    last = answer(b"last", b"x-last: 1", status=b"503 x")
    record, tries = await run(client, outcomes(BUSY, answer(b"", status=b"502 x"), last))
    assert (record.status, record.body, tries) == (503, b"last", 3)
    assert (b"x-last", b"1") in record.headers


async def test_a_close_before_the_head_is_retried(client: RetryingClient) -> None:
    record, tries = await run(client, outcomes(b"", b"", OK))
    assert (record.body, tries) == (b"good", 3)


async def test_it_gives_up(client: RetryingClient) -> None:
    record, tries = await run(client, outcomes(b"", b"", b"", OK))
    assert await record.failed() == ("closed", False)
    assert tries == 3


async def test_a_close_after_the_head_is_not_retried(client: RetryingClient) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(CHUNKED + chunk(b"x"))

    record, tries = await run(client, script)
    assert await record.failed() == ("closed", True)
    assert tries == 1


async def silence(peer: Peer) -> None:
    await peer.request()
    await peer.gone()


async def test_a_first_byte_timeout_is_not_retried(client: RetryingClient) -> None:
    record, tries = await run(client, silence, timeouts=Timeouts(first_byte=0.05))
    assert await record.failed() == ("first_byte_timeout", False)
    assert tries == 1


async def test_a_malformed_answer_is_not_retried(client: RetryingClient) -> None:
    record, tries = await run(client, outcomes(b"SSH-2.0\r\n"))
    assert await record.failed() == ("malformed", False)
    assert tries == 1


@pytest.mark.parametrize("where", ["head", "data", "end"])
async def test_a_receiver_that_raises_is_not_retried(client: RetryingClient, where: str) -> None:
    class Raising(Record):
        def head(self, status: int, headers: Headers) -> None:
            super().head(status, headers)
            self._maybe("head")

        def data(self, data: bytes) -> None:
            self._maybe("data")

        def end(self) -> None:
            self._maybe("end")

        def _maybe(self, here: str) -> None:
            if here == where:
                raise ZeroDivisionError

    async with serve(outcomes(OK, OK)) as server:
        record = Raising()
        client.send(UpstreamRequest(url=server.url), record)
        assert await record.failed() == ("receiver", True)
        assert record.failure is not None
        assert isinstance(record.failure.__cause__, ZeroDivisionError)
        assert len(server.requests) == 1


async def test_a_refused_connection_is_retried(client: RetryingClient) -> None:
    async with serve(silence) as server:
        pass
    record = Record()
    before = time.monotonic()
    client.send(UpstreamRequest(url=server.url), record)
    assert await record.failed() == ("connect", False)
    assert time.monotonic() - before >= 0.75 * sum(BACKOFF)


async def test_a_connect_timeout_is_retried_within_the_budget() -> None:
    client = RetryingClient(Http1Client(), backoff=BACKOFF, budget=0.8)
    for timeout, tries in ((0.05, 3), (0.85, 1)):
        async with serve(Peer.gone) as server:
            server.scheme = "https"
            record = Record()
            timeouts = Timeouts(connect=timeout)
            client.send(UpstreamRequest(url=server.url, timeouts=timeouts), record)
            assert await record.failed() == ("connect_timeout", False)
            assert len(server.peers) == tries
    await client.aclose()


async def test_the_budget_is_kept() -> None:
    client = RetryingClient(Http1Client(), backoff=(0.05, 0.5), budget=0.2)
    record, tries = await run(client, outcomes(BUSY, BUSY, OK))
    assert (record.status, tries) == (503, 2)
    await client.aclose()


@pytest.mark.parametrize(("after", "tries"), [(b"0", 2), (b"60", 1), (b"soon", 2)])
async def test_retry_after(client: RetryingClient, after: bytes, tries: int) -> None:
    busy = answer(b"busy", b"retry-after: " + after, status=b"503 x")
    record, made = await run(client, outcomes(busy, OK))
    assert (record.status, made) == (200 if tries == 2 else 503, tries)


async def test_an_endless_error_body_does_not_hold_up_the_retry(client: RetryingClient) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        if peer.number == 0:
            await peer.send(b"HTTP/1.1 503 x\r\ntransfer-encoding: chunked\r\n\r\n" + chunk(b"x"))
            await peer.gone()
            swallowed.set()
        await peer.send(OK)

    swallowed = asyncio.Event()
    async with serve(script) as server:
        record = Record()
        client.send(UpstreamRequest(url=server.url), record)
        assert (await record.succeeded()).body == b"good"
        async with asyncio.timeout(PATIENCE):
            await swallowed.wait()


async def test_an_error_body_that_breaks_off_is_retried_once(client: RetryingClient) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        if peer.number == 0:
            await peer.send(b"HTTP/1.1 503 x\r\ncontent-length: 9\r\n\r\nx")
        else:
            await peer.send(OK)
            await peer.gone()

    record, tries = await run(client, script)
    assert (record.body, tries) == (b"good", 2)


# The handle, while waiting between tries.


@pytest.fixture
async def waiting_client() -> AsyncIterator[RetryingClient]:
    client = RetryingClient(Http1Client(), backoff=(0.1, 0.1))
    yield client
    await client.aclose()


async def between_tries(client: RetryingClient) -> None:
    async with asyncio.timeout(PATIENCE):
        while not client.waiting:
            await asyncio.sleep(0.001)


async def test_drop_between_tries(waiting_client: RetryingClient) -> None:
    async with serve(outcomes(BUSY, OK)) as server:
        record = Record()
        exchange = waiting_client.send(UpstreamRequest(url=server.url), record)
        await between_tries(waiting_client)
        exchange.drop()
        exchange.drop()
        assert not waiting_client.waiting
        await asyncio.sleep(0.2)
        assert len(server.requests) == 1
        assert not record.over


async def test_pause_between_tries_holds_for_the_next(waiting_client: RetryingClient) -> None:
    async with serve(outcomes(BUSY, OK)) as server:
        record = Record()
        exchange = waiting_client.send(UpstreamRequest(url=server.url), record)
        await between_tries(waiting_client)
        exchange.pause()
        async with asyncio.timeout(PATIENCE):
            while len(server.requests) < 2:
                await asyncio.sleep(0.001)
        await asyncio.sleep(0.05)
        assert not record.status
        exchange.resume()
        assert (await record.succeeded()).body == b"good"


async def test_closing_between_tries(waiting_client: RetryingClient) -> None:
    async with serve(outcomes(BUSY, OK)) as server:
        record = Record()
        waiting_client.send(UpstreamRequest(url=server.url), record)
        await between_tries(waiting_client)
        await waiting_client.aclose()
        assert await record.failed() == ("closed", False)
        assert len(server.requests) == 1


async def test_drop_and_pause_after_the_head(client: RetryingClient) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(CHUNKED + chunk(b"x"))
        await peer.gone()
        closed.set()

    closed = asyncio.Event()
    async with serve(script) as server:
        record = Record()
        exchange = client.send(UpstreamRequest(url=server.url), record)
        await record.until(lambda: record.pieces)
        exchange.pause()
        exchange.resume()
        exchange.drop()
        async with asyncio.timeout(0.1):
            await closed.wait()
        assert not record.over


async def test_refusals_are_raised_at_once(client: RetryingClient) -> None:
    with pytest.raises(ValueError, match="URL"):
        client.send(UpstreamRequest(url="ftp://x"), Record())


async def test_closing_while_under_way_is_no_reason_to_retry(client: RetryingClient) -> None:
    async with serve(silence) as server:
        record = Record()
        client.send(UpstreamRequest(url=server.url), record)
        async with asyncio.timeout(PATIENCE):
            while not server.requests:
                await asyncio.sleep(0.001)
        await client.aclose()
        assert await record.failed() == ("closed", False)
        assert isinstance(record.failure, UpstreamFailure)
        assert not client.waiting
