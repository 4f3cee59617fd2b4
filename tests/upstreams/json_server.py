"""An HTTP server that answers paths with JSON, as model servers answer questions about models."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec

SILENCE = object()
"""For a path that is asked in vain."""


@dataclass
class JsonServer:
    paths: dict[str, Any]
    url: str = ""
    asked: list[tuple[str, Any]] = field(default_factory=list[tuple[str, Any]])
    """Path and decoded body of each request."""

    def times(self, path: str) -> int:
        return sum(asked == path for asked, _ in self.asked)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                await self._answer(head, reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _answer(
        self, head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        lines = head.decode().split("\r\n")
        path = lines[0].split(" ")[1]
        length = next((int(x[15:]) for x in lines if x.lower().startswith("content-length")), 0)
        body = await reader.readexactly(length)
        self.asked.append((path, msgspec.json.decode(body) if body else None))
        found = self.paths.get(path)
        if found is SILENCE:
            await asyncio.Event().wait()
        status = b"404 Not Found" if found is None else b"200 OK"
        data = msgspec.json.encode(found if found is not None else {"error": "no"})
        writer.write(b"HTTP/1.1 %b\r\ncontent-length: %d\r\n\r\n%b" % (status, len(data), data))


@asynccontextmanager
async def json_server(**paths: Any) -> AsyncGenerator[JsonServer]:
    """Paths are given without their first slash, other slashes as `__`."""
    known = {"/" + name.replace("__", "/"): value for name, value in paths.items()}
    found = JsonServer(known)
    tasks: set[asyncio.Task[None]] = set()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(asyncio.create_task(found.serve(reader, writer)))

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    found.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    try:
        yield found
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def listing(*entries: dict[str, Any]) -> dict[str, Any]:
    """A list of models."""
    return {"object": "list", "data": [{"object": "model", "created": 1, **e} for e in entries]}
