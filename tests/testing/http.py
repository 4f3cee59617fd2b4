"""A client made of a socket: what it reads is what was sent."""

import asyncio
from dataclasses import dataclass, field
from typing import Any

import msgspec

from bascule.testing import ModelServer

LIMIT = 5.0


@dataclass
class Received:
    """A response. `body` is without the chunked framing; `chunks` are the HTTP chunks."""

    status: int
    headers: dict[str, str]
    body: bytes
    chunks: list[bytes] = field(default_factory=list)
    complete: bool = True

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)

    @property
    def data(self) -> list[str]:
        """The data of each complete SSE event of a plain stream."""
        return [
            "\n".join(line.removeprefix("data:").removeprefix(" ") for line in lines)
            for frame in self.body.decode().split("\n\n")[:-1]
            if (lines := [line for line in frame.split("\n") if line.startswith("data:")])
        ]

    @property
    def events(self) -> list[dict[str, Any]]:
        return [msgspec.json.decode(data) for data in self.data if data != "[DONE]"]

    @property
    def done(self) -> bool:
        return bool(self.data) and self.data[-1] == "[DONE]"

    @property
    def deltas(self) -> list[dict[str, Any]]:
        return [event["choices"][0]["delta"] for event in self.events if event.get("choices")]


class Client:
    """One connection."""

    def __init__(self, server: ModelServer) -> None:
        self._server = server

    async def __aenter__(self) -> "Client":
        self.reader, self.writer = await asyncio.open_connection(
            "127.0.0.1", self._server.port, limit=2**26
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        self.writer.close()
        try:
            await self.writer.wait_closed()
        except OSError:
            return

    async def send(
        self,
        method: str = "POST",
        path: str = "/v1/chat/completions",
        body: bytes = b"",
        headers: str = "",
    ) -> None:
        head = (
            f"{method} {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n{headers}\r\n"
        )
        self.writer.write(head.encode() + body)
        await self.writer.drain()

    async def receive(self, head_only: bool = False) -> Received:
        async with asyncio.timeout(LIMIT):
            head = (await self.reader.readuntil(b"\r\n\r\n")).decode()
            first, *lines = head.rstrip().split("\r\n")
            headers = dict(line.lower().split(": ", 1) for line in lines)
            received = Received(int(first.split(" ")[1]), headers, b"")
            if not head_only:
                try:
                    await self._body(received)
                except (asyncio.IncompleteReadError, ConnectionError) as error:
                    received.body += getattr(error, "partial", b"")
                    received.complete = False
            return received

    async def _body(self, received: Received) -> None:
        if received.headers.get("transfer-encoding") == "chunked":
            while size := int((await self.reader.readuntil(b"\r\n"))[:-2], 16):
                chunk = (await self.reader.readexactly(size + 2))[:-2]
                received.chunks.append(chunk)
                received.body += chunk
            await self.reader.readexactly(2)
        elif "content-length" in received.headers:
            received.body = await self.reader.readexactly(int(received.headers["content-length"]))
        else:
            received.body = await self.reader.read()

    async def chat(self, **fields: Any) -> Received:
        await self.send(body=chat_body(**fields))
        return await self.receive()


def chat_body(**fields: Any) -> bytes:
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}], **fields}
    return msgspec.json.encode(body)


async def ask(server: ModelServer, **fields: Any) -> Received:
    """One chat request on a connection of its own."""
    async with Client(server) as client:
        return await client.chat(**fields)


async def get(server: ModelServer, path: str) -> Received:
    async with Client(server) as client:
        await client.send("GET", path)
        return await client.receive()
