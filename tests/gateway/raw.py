"""An HTTP/1.1 client that does what well-behaved ones do not."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import msgspec

LIMIT = 10.0


def request(
    method: str = "POST",
    path: str = "/v1/responses",
    body: bytes | dict[str, Any] | None = None,
    headers: dict[str, str] | None = None,
    *,
    length: int | None = None,
) -> bytes:
    """A request's bytes. A dict is a create body, with its usual fields filled in."""
    if isinstance(body, dict):
        body = msgspec.json.encode({"model": "mock-model", "input": "Hello", **body})
    data = body or b""
    lines = [f"{method} {path} HTTP/1.1", "host: gateway"]
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    lines.append(f"content-length: {len(data) if length is None else length}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + data


class Client:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def write(self, data: bytes) -> None:
        self.writer.write(data)

    async def head(self) -> tuple[int, dict[str, str]]:
        async with asyncio.timeout(LIMIT):
            lines = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in lines[1:] if line)
        return int(lines[0].split()[1]), headers

    async def chunk(self) -> bytes:
        """One chunk of a chunked body; empty for the last."""
        async with asyncio.timeout(LIMIT):
            size = int(await self.reader.readuntil(b"\r\n"), 16)
            return (await self.reader.readexactly(size + 2))[:-2]

    async def answer(self, *, bodiless: bool = False) -> tuple[int, dict[str, str], bytes]:
        """A whole answer, read by its framing alone."""
        status, headers = await self.head()
        if bodiless:
            return status, headers, b""
        if headers.get("transfer-encoding") == "chunked":
            parts: list[bytes] = []
            while part := await self.chunk():
                parts.append(part)
            return status, headers, b"".join(parts)
        async with asyncio.timeout(LIMIT):
            body = await self.reader.readexactly(int(headers["content-length"]))
        return status, headers, body

    async def closed(self) -> bytes:
        """What still comes until the gateway closes the connection."""
        async with asyncio.timeout(LIMIT):
            return await self.reader.read()

    def abort(self) -> None:
        self.writer.transport.abort()


@asynccontextmanager
async def connected(url: str, *, limit: int = 1 << 20) -> AsyncGenerator[Client]:
    split = urlsplit(url)
    reader, writer = await asyncio.open_connection(split.hostname, split.port, limit=limit)
    try:
        yield Client(reader, writer)
    finally:
        writer.close()
        with contextlib.suppress(OSError):  # it was closed from the other side
            await writer.wait_closed()
