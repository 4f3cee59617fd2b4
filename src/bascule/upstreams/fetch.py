"""The awaited face of an `UpstreamClient`, for all that is not hot."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

import msgspec

from bascule.upstreams.client import (
    Exchange,
    Headers,
    UpstreamClient,
    UpstreamFailure,
    UpstreamRequest,
)

_HIGH_WATER = 64 * 1024  # bytes not yet taken at which reading pauses, until all are taken


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """A whole answer. Header names are lower case; the body is as it was sent, also if compressed."""

    status: int
    headers: Headers
    body: bytes


class StreamedAnswer:
    """An answer under way: `status` and `headers`, and the body by `async for`, once."""

    def __init__(self, inbox: "_Inbox") -> None:
        self._inbox = inbox
        self.status: int = inbox.status
        self.headers: Headers = inbox.headers

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while (piece := await self._inbox.next()) is not None:
            yield piece


@asynccontextmanager
async def stream(
    client: UpstreamClient, request: UpstreamRequest
) -> AsyncGenerator[StreamedAnswer]:
    """Send; enter when the head is there; leaving early abandons the exchange.

    The sender is held back while more than 64 KiB wait to be taken. UpstreamFailure: on entering or
    from the iteration.
    """
    inbox = _Inbox()
    exchange = client.send(request, inbox)
    inbox.exchange = exchange
    try:
        await inbox.answered()
        yield StreamedAnswer(inbox)
    finally:
        inbox.exchange = None
        exchange.drop()


async def fetch(
    client: UpstreamClient, request: UpstreamRequest, *, max_bytes: int = 16 * 1024 * 1024
) -> Answer:
    """Send and collect the answer, whatever its status.

    UpstreamFailure: the exchange failed, or ("malformed") the body exceeds `max_bytes`. Cancelling
    abandons the exchange.
    """
    body = bytearray()
    async with stream(client, request) as answer:
        async for piece in answer:
            body += piece
            if len(body) > max_bytes:
                raise UpstreamFailure(
                    "malformed", f"the answer exceeds {max_bytes} bytes", answered=True
                )
    return Answer(status=answer.status, headers=answer.headers, body=bytes(body))


class _Inbox:
    """The receiver: keeps what came until it is asked for."""

    def __init__(self) -> None:
        self.exchange: Exchange | None = None
        self.status = 0
        self.headers: Headers = ()
        self._pieces: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._paused = False
        self._ended = False
        self._failure: UpstreamFailure | None = None
        self._news = asyncio.Event()

    def head(self, status: int, headers: Headers) -> None:
        self.status = status
        self.headers = headers
        self._news.set()

    def data(self, data: bytes) -> None:
        self._pieces.append(data)
        self._waiting_bytes += len(data)
        if self._waiting_bytes > _HIGH_WATER and not self._paused and self.exchange is not None:
            self._paused = True
            self.exchange.pause()
        self._news.set()

    def end(self) -> None:
        self._ended = True
        self._news.set()

    def fail(self, failure: UpstreamFailure) -> None:
        self._failure = failure
        self._news.set()

    async def answered(self) -> None:
        while not self.status:
            if self._failure is not None:
                raise self._failure
            await self._wait()

    async def next(self) -> bytes | None:
        """The next piece, or None at the end; what came before a failure comes before it here too."""
        while not self._pieces:
            if self._failure is not None:
                raise self._failure
            if self._ended:
                return None
            if self._paused and self.exchange is not None:
                self._paused = False
                self.exchange.resume()
            await self._wait()
        piece = self._pieces.popleft()
        self._waiting_bytes -= len(piece)
        return piece

    async def _wait(self) -> None:
        self._news.clear()
        await self._news.wait()
