"""A server of fixed answers: what stands at a path, else a 404."""

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

Answers = Mapping[str, Any]


@asynccontextmanager
async def answering(answers: Answers, status: int = 200) -> AsyncGenerator[int]:
    """The port. Objects are answered as JSON, text as a web page."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            path = head.split()[1].decode()
            found = answers.get(path)
            kind = "text/html" if isinstance(found, str) else "application/json"
            body = found if isinstance(found, str) else json.dumps(found)
            line = f"{status} OK" if path in answers else "404 Not Found"
            writer.write(
                f"HTTP/1.1 {line}\r\ncontent-type: {kind}\r\nconnection: close\r\n"
                f"content-length: {len(body)}\r\n\r\n{body}".encode()
            )
            await writer.drain()
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await server.wait_closed()


def listing(*names: str, owner: str | None = None) -> dict[str, Any]:
    """A `/v1/models` answer."""
    card = {} if owner is None else {"owned_by": owner}
    return {"object": "list", "data": [{"id": name, "object": "model", **card} for name in names]}
