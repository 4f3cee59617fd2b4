"""One client's connection: HTTP/1.1 requests in, bytes out under full control."""

import asyncio
import socket
import struct
from collections import deque
from collections.abc import Awaitable, Callable
from typing import cast

import httptools

from bascule.testing.request import Request

Answerer = Callable[[Request, "Connection"], Awaitable[None]]


class ClientGone(Exception):
    """The client has left."""


class Connection(asyncio.Protocol):
    """Parses requests, hands them one by one to `answer`, writes what it is told to.

    `left` is called when the client closes while an answer is under way.
    """

    def __init__(
        self, answer: Answerer, left: Callable[[], None], closed: Callable[["Connection"], None]
    ) -> None:
        self._answer = answer
        self._left = left
        self._closed = closed
        self._parser = httptools.HttpRequestParser(self)
        self._waiting: deque[Request] = deque()
        self._task: asyncio.Task[None] | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self._ended_here = False
        self._transport: asyncio.Transport | None = None
        self._url = b""
        self._headers: list[tuple[str, str]] = []
        self._body = bytearray()

    # --- asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._refuse(b"501 Not Implemented")
        except httptools.HttpParserError:
            self._refuse(b"400 Bad Request")

    def connection_lost(self, exc: Exception | None) -> None:
        self._writable.set()
        self._closed(self)
        if self._task is not None:
            if not self._ended_here:
                self._left()
            self._task.cancel()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    # --- httptools

    def on_message_begin(self) -> None:
        self._url, self._headers, self._body = b"", [], bytearray()

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name.decode("latin-1").lower(), value.decode("latin-1")))

    def on_headers_complete(self) -> None:
        if ("expect", "100-continue") in [(name, text.lower()) for name, text in self._headers]:
            self.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        self._waiting.append(
            Request(
                method=self._parser.get_method().decode(),
                target=self._url.decode("latin-1"),
                headers=dict(self._headers),
                body=bytes(self._body),
                keep_alive=self._parser.should_keep_alive(),
                time=asyncio.get_running_loop().time(),
            )
        )
        self._next()

    # --- answering

    def _next(self) -> None:
        if self._task is None and self._waiting and not self._ended_here:
            request = self._waiting.popleft()
            self._task = asyncio.create_task(self._run(request))

    async def _run(self, request: Request) -> None:
        try:
            await self._answer(request, self)
        except ClientGone:
            if not self._ended_here:
                self._left()
            self.close()
        finally:
            self._task = None
        if not request.keep_alive:
            self.close()
        self._next()

    def write(self, data: bytes) -> None:
        """Write the bytes. Raises `ClientGone` when the client has left."""
        if self._transport is None or self._transport.is_closing():
            raise ClientGone
        self._transport.write(data)

    async def drained(self) -> None:
        """Let the loop run, so that the next write is another one, and wait until there is room."""
        await asyncio.sleep(0)
        await self._writable.wait()

    def close(self) -> None:
        """Close once everything written has left."""
        self._ended_here = True
        if self._transport is not None:
            self._transport.close()

    def reset(self) -> None:
        """Close with a TCP reset."""
        self._ended_here = True
        if self._transport is None:
            return
        sock = cast("socket.socket", self._transport.get_extra_info("socket"))
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._transport.abort()

    async def stopped(self) -> None:
        """Close at once and wait for the answer under way to end."""
        self._ended_here = True
        task = self._task
        if self._transport is not None:
            self._transport.abort()
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    def _refuse(self, status: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(b"HTTP/1.1 %b\r\ncontent-length: 0\r\n\r\n" % status)
        self.close()
