"""A raw TCP server that plays a byte script on each connection, and a receiver that records."""

import asyncio
import contextlib
import re
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass, field

from bascule.upstreams.client import (
    Headers,
    UpstreamClient,
    UpstreamFailure,
    UpstreamRequest,
)

PATIENCE = 5.0  # seconds; the bound of every wait in these tests


@dataclass
class Peer:
    """One connection, seen from the server."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    number: int
    requests: list[bytes] = field(default_factory=list)

    async def request(self) -> bytes:
        """The next request: head and body."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        match = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
        body = await self.reader.readexactly(int(match[1]) if match else 0)
        self.requests.append(head + body)
        return head + body

    async def send(self, *pieces: bytes) -> None:
        """Each piece in its own segment, as far as the network agrees."""
        for piece in pieces:
            self.writer.write(piece)
            await self.writer.drain()
            if len(pieces) > 1:
                await asyncio.sleep(0)

    async def gone(self) -> None:
        """Until the client closed."""
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            while await self.reader.read(65536):
                pass


Script = Callable[[Peer], Awaitable[None]]


class Server:
    """Runs a script per connection and then closes it; `gone` is set when a script's `gone` returned."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self.peers: list[Peer] = []
        self.port = 0
        self.scheme = "http"
        self._tasks: set[asyncio.Task[None]] = set()
        self._errors: list[Exception] = []

    @property
    def url(self) -> str:
        return f"{self.scheme}://localhost:{self.port}/v1/chat?x=1"

    @property
    def requests(self) -> list[bytes]:
        return [request for peer in self.peers for request in peer.requests]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        peer = Peer(reader, writer, len(self.peers))
        self.peers.append(peer)
        try:
            await self._script(peer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        except Exception as error:  # noqa: BLE001 - raised in `serve`
            self._errors.append(error)
        finally:
            writer.close()
            self._tasks.discard(task)


@contextlib.asynccontextmanager
async def serve(script: Script, tls: ssl.SSLContext | None = None) -> AsyncGenerator[Server]:
    server = Server(script)
    listener = await asyncio.start_server(server._serve, "127.0.0.1", 0, ssl=tls)
    server.port = listener.sockets[0].getsockname()[1]
    server.scheme = "https" if tls else "http"
    try:
        yield server
    finally:
        listener.close()
        tasks = set(server._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for peer in server.peers:
            peer.writer.transport.abort()
        await asyncio.sleep(0)
    for error in server._errors:
        raise error


class Record:
    """A receiver that writes down what it is told; subclasses misbehave."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: Headers = ()
        self.pieces: list[bytes] = []
        self.ended = False
        self.failure: UpstreamFailure | None = None
        self._news = asyncio.Event()

    @property
    def body(self) -> bytes:
        return b"".join(self.pieces)

    @property
    def over(self) -> bool:
        return self.ended or self.failure is not None

    def head(self, status: int, headers: Headers) -> None:
        assert not self.status
        assert not self.over
        self.status = status
        self.headers = headers
        self._news.set()

    def data(self, data: bytes) -> None:
        assert self.status
        assert not self.over
        assert data
        self.pieces.append(data)
        self._news.set()

    def end(self) -> None:
        assert self.status
        assert not self.over
        self.ended = True
        self._news.set()

    def fail(self, failure: UpstreamFailure) -> None:
        assert self.failure is None
        self.failure = failure
        self._news.set()

    async def until(self, condition: Callable[[], object]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not condition():
                self._news.clear()
                await self._news.wait()

    async def finish(self) -> "Record":
        await self.until(lambda: self.over)
        return self

    async def failed(self) -> tuple[str, bool]:
        """Kind and answered."""
        await self.finish()
        assert self.failure is not None
        return self.failure.kind, self.failure.answered

    async def succeeded(self) -> "Record":
        await self.finish()
        if self.failure is not None:
            raise self.failure
        return self


def answer(body: bytes, *headers: bytes, status: bytes = b"200 OK") -> bytes:
    lines = [b"HTTP/1.1 " + status, b"content-length: %d" % len(body), *headers]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"


def chunk(data: bytes, extension: bytes = b"") -> bytes:
    return b"%x%s\r\n%s\r\n" % (len(data), extension, data)


def each_byte(data: bytes) -> list[bytes]:
    return [data[i : i + 1] for i in range(len(data))]


def ask(server: Server, **options: object) -> UpstreamRequest:
    fields: dict[str, object] = {"url": server.url, "body": b'{"a":1}', **options}
    return UpstreamRequest(**fields)  # pyright: ignore[reportArgumentType]


def play(*pieces: bytes, times: int = 1, then_close: bool = True) -> Script:
    """Answer with these pieces, so many requests per connection."""

    async def script(peer: Peer) -> None:
        for _ in range(times):
            await peer.request()
            await peer.send(*pieces)
        if not then_close:
            await peer.gone()

    return script


async def get(client: UpstreamClient, server: Server, **options: object) -> Record:
    record = Record()
    client.send(ask(server, **options), record)
    return await record.finish()


class Raising(Record):
    def __init__(self, where: str) -> None:
        super().__init__()
        self.where = where

    def head(self, status: int, headers: Headers) -> None:
        super().head(status, headers)
        self._maybe("head")

    def data(self, data: bytes) -> None:
        super().data(data)
        self._maybe("data")

    def end(self) -> None:
        self._maybe("end")

    def _maybe(self, where: str) -> None:
        if where == self.where:
            raise ZeroDivisionError(where)


async def silence(peer: Peer) -> None:
    await peer.request()
    await peer.gone()


async def half(peer: Peer) -> None:
    await peer.request()
    await peer.send(CHUNKED + chunk(b"x"))
    await peer.gone()


async def wait_until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await asyncio.sleep(0.002)


async def gone_within(server: Server, seconds: float) -> bool:
    """Whether the server saw the last connection end: its script, waiting in `gone`, returned."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while server._tasks:
                await asyncio.sleep(0.002)
    return not server._tasks
