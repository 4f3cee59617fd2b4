"""A real gateway on loopback in front of a model server, and a client that sees its bytes."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec
import uvicorn

from bascule.config import Config, convert
from bascule.engine.engine import Engine
from bascule.gateway.app import Gateway
from bascule.gateway.serve import build, make_client, make_server
from bascule.upstreams.client import UpstreamRequest
from bascule.upstreams.fetch import fetch, stream
from bascule.upstreams.http1 import Http1Client

LIMIT = 10.0


@dataclass
class Answer:
    """What a client received; `writes` are the pieces as they were read."""

    status: int
    headers: dict[str, str]
    body: bytes
    writes: list[bytes] = field(default_factory=list)

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)

    @property
    def error(self) -> dict[str, Any]:
        return self.json["error"]

    @property
    def frames(self) -> list[tuple[str, Any]]:
        """Name and data of each SSE event; comments are left out."""
        frames: list[tuple[str, Any]] = []
        for block in self.body.decode().split("\n\n")[:-1]:
            lines = [line for line in block.split("\n") if not line.startswith(":")]
            if not lines:
                continue
            name = next((line[7:] for line in lines if line.startswith("event: ")), "")
            data = next(line[6:] for line in lines if line.startswith("data: "))
            frames.append((name, data if data == "[DONE]" else msgspec.json.decode(data)))
        return frames

    @property
    def events(self) -> list[dict[str, Any]]:
        return [data for _, data in self.frames if data != "[DONE]"]

    @property
    def types(self) -> list[str]:
        return [event["type"].removeprefix("response.") for event in self.events]

    @property
    def response(self) -> dict[str, Any]:
        """The response: of the last event of a stream, or the body."""
        if "text/event-stream" in self.headers.get("content-type", ""):
            return self.events[-1]["response"]
        return self.json

    def of_type(self, type_: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event["type"] == f"response.{type_}"]


class Api:
    """A client of one gateway."""

    def __init__(self, url: str, gateway: Gateway, client: Http1Client) -> None:
        self.url = url
        self.gateway = gateway
        self.client = client
        self.model = "mock-model"
        self.limit = LIMIT
        """Seconds for one answer."""

    @property
    def engine(self) -> Engine:
        return self.gateway.engine

    async def create(self, headers: dict[str, str] | None = None, **fields: Any) -> Answer:
        """POST /v1/responses."""
        body = {"model": self.model, "input": "Hello", **fields}
        return await self.send("POST", "/v1/responses", msgspec.json.encode(body), headers)

    async def send(
        self, method: str, path: str, body: bytes = b"", headers: dict[str, str] | None = None
    ) -> Answer:
        request = self._request(method, path, body, headers)
        async with asyncio.timeout(self.limit), stream(self.client, request) as answer:
            pieces = [piece async for piece in answer]
            shown = {k.decode(): v.decode("latin-1") for k, v in answer.headers}
            return Answer(answer.status, shown, b"".join(pieces), pieces)

    def _request(
        self, method: str, path: str, body: bytes, headers: dict[str, str] | None
    ) -> UpstreamRequest:
        pairs = [(k.encode(), v.encode()) for k, v in (headers or {}).items()]
        return UpstreamRequest(url=self.url + path, method=method, headers=pairs, body=body)

    @asynccontextmanager
    async def open(self, **fields: Any) -> AsyncGenerator[AsyncIterator[bytes]]:
        """A stream that the test reads piece by piece; leaving closes the connection."""
        body = msgspec.json.encode(
            {"model": "mock-model", "input": "Hello", "stream": True, **fields}
        )
        request = self._request("POST", "/v1/responses", body, None)
        async with asyncio.timeout(self.limit), stream(self.client, request) as answer:
            yield aiter(answer)


@asynccontextmanager
async def serving(
    upstream: str,
    *,
    adjust: Callable[[Gateway], None] | None = None,
    upstream_options: dict[str, Any] | None = None,
    **sections: Any,
) -> AsyncGenerator[Api]:
    """A gateway whose upstream `mock` is at `upstream`; keyword arguments are configuration
    sections, `adjust` may change the built gateway before it serves."""
    tree: dict[str, Any] = {"state": {"url": "sqlite://"}, **sections}
    section = {
        "name": "mock",
        "base_url": upstream,
        "profile": "openai",
        **(upstream_options or {}),
    }
    tree.setdefault("upstreams", [section])
    tree["server"] = {"port": 0, "drain_seconds": 1, **tree.get("server", {})}
    config: Config = convert(tree, {})
    gateway = await build(config, make_client())
    if adjust is not None:
        adjust(gateway)
    listening: list[str] = []
    server = make_server(gateway, listening.append)
    client = Http1Client()
    async with asyncio.timeout(LIMIT):
        await _start(server)
    try:
        yield Api(listening[0], gateway, client)
    finally:
        await client.aclose()
        await _stop(server)


async def _start(server: uvicorn.Server) -> None:
    """What `serve` does before its loop; its loop and its end wait in steps of 0.1 s."""
    server.config.load()
    server.lifespan = server.config.lifespan_class(server.config)
    await server.startup()


async def _stop(server: uvicorn.Server) -> None:
    for listener in server.servers:
        listener.close()
    for connection in list(server.server_state.connections):
        connection.shutdown()
    if tasks := list(server.server_state.tasks):
        await asyncio.wait(tasks, timeout=LIMIT)
    await server.lifespan.shutdown()


__all__ = ["Answer", "Api", "fetch", "serving"]
