"""Connections to MCP servers, kept for the next turn: a handshake takes longer than a call."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec
import structlog

from bascule.services.egress import Guard
from bascule.services.mcp.content import Content, McpResult, McpTool
from bascule.services.mcp.errors import McpError, closed
from bascule.services.mcp.server import McpServer
from bascule.toolkit.handler import Health

_log = structlog.stdlib.get_logger("bascule.mcp")

if TYPE_CHECKING:
    from bascule.services.mcp.connection import Connection

T = TypeVar("T")

_FIRST_PAUSE: Final = 0.5
_LONGEST_PAUSE: Final = 60.0
"""Seconds between tries to reach a server that cannot be reached."""


class Listing(msgspec.Struct, frozen=True):
    """A server's tools, and whether it has resources."""

    tools: list[McpTool]
    resources: bool


class _Place:
    """A server's place in the pool."""

    def __init__(self, server: McpServer) -> None:
        self.connection: Connection | None = None
        self.opening: asyncio.Task[Connection] | None = None
        self.health = Health("mcp", server.label)
        self.shared = server.shared
        self.pause = 0.0
        self.not_before = 0.0
        self.last_used = time.monotonic()
        self.fault: McpError | None = None
        self.users = 0
        """How many wait for its connection, or use it."""

    @property
    def busy(self) -> bool:
        return self.users > 0 or self.opening is not None


class McpPool:
    """One connection for each server, owner and credentials."""

    def __init__(
        self,
        guard: Guard,
        *,
        max_connections: int = 100,
        idle_seconds: float = 300.0,
        max_result_bytes: int = 4 * 1024 * 1024,
    ) -> None:
        self._guard = guard
        self._max = max_connections
        self._idle = idle_seconds
        self._max_bytes = max_result_bytes
        self._places: dict[str, _Place] = {}
        self._sweeper: asyncio.Task[None] | None = None
        self._closing: set[asyncio.Task[None]] = set()
        self._closed = False

    # --- what it can do

    async def tools(self, server: McpServer) -> Listing:
        """Raises McpError."""
        tools, resources = await self._with(server, lambda c: c.listing(), again=True)
        return Listing(tools, resources)

    async def call(
        self,
        server: McpServer,
        name: str,
        arguments: dict[str, Any],
        *,
        seconds: float,
        hard_limit: float,
    ) -> McpResult:
        """Run a tool: `seconds` without a sign of life, `hard_limit` in all. A call is never
        made twice. Raises McpError."""
        return await self._with(
            server, lambda c: c.call(name, arguments, seconds, hard_limit), again=False
        )

    async def resources(
        self, server: McpServer, cursor: str | None, seconds: float
    ) -> tuple[list[Content], str | None]:
        """Raises McpError."""
        return await self._with(server, lambda c: c.resources(cursor, seconds), again=True)

    async def read(self, server: McpServer, uri: str, seconds: float) -> list[Content]:
        """Raises McpError."""
        return await self._with(server, lambda c: c.read(uri, seconds), again=True)

    def health(self, *, shared: bool = False) -> list[Health]:
        """Of all servers, or of those that no request has brought."""
        places = [p for p in self._places.values() if p.shared or not shared]
        for place in places:
            if place.connection is not None and place.connection.dead:
                place.health.state = "closed"
        return [place.health for place in places]

    async def aclose(self) -> None:
        """Close every connection, together."""
        self._closed = True
        if self._sweeper is not None:
            self._sweeper.cancel()
        places = list(self._places.values())
        self._places.clear()
        tasks = [*self._closing]
        for place in places:
            if place.opening is not None:
                place.opening.cancel()
                tasks.append(asyncio.ensure_future(_settled(place.opening)))
            if place.connection is not None:
                tasks.append(asyncio.create_task(place.connection.close()))
        if tasks:
            await asyncio.wait(tasks)

    # --- connections

    async def _with(
        self, server: McpServer, use: Callable[["Connection"], Awaitable[T]], *, again: bool
    ) -> T:
        """`again`: whether it does no harm to ask twice, when the connection turns out to be dead."""
        place = self._place(server)
        fresh = place.connection is None
        place.users += 1
        try:
            connection = await self._connected(server, place)
            place.health.calls += 1
            try:
                return await use(connection)
            except McpError as e:
                place.health.failures += 1
                if not e.lost:
                    raise
                self._drop(place, connection)
                if fresh or not (again or e.refused):
                    raise
            return await use(await self._connected(server, place))
        finally:
            place.users -= 1
            place.last_used = time.monotonic()

    def _place(self, server: McpServer) -> _Place:
        if self._closed:
            raise closed("The server is shutting down.")
        key = server.key
        place = self._places.get(key)
        if place is None:
            self._make_room()
            place = self._places[key] = _Place(server)
        return place

    async def _connected(self, server: McpServer, place: _Place) -> "Connection":
        connection = place.connection
        if connection is not None and not connection.dead:
            return connection
        if connection is not None:
            self._drop(place, connection)
        if place.fault is not None and time.monotonic() < place.not_before:
            place.health.state = "backing_off"
            raise place.fault
        if place.opening is None:
            place.opening = asyncio.create_task(self._open(server, place))
            place.opening.add_done_callback(_heard)
        opening = place.opening
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            if opening.cancelled():
                raise closed() from None
            raise

    async def _open(self, server: McpServer, place: _Place) -> "Connection":
        place.health.state = "connecting"
        try:
            # The SDK is large: it is loaded for the first server, and beside the event loop.
            module = await asyncio.to_thread(import_module, "bascule.services.mcp.connection")
            connection: Connection = module.Connection(server, self._guard, self._max_bytes)
            await connection.open()
        except McpError as e:
            place.health.state, place.health.error = "closed", e.message
            place.fault = e
            if place.shared:
                place.pause = min(max(place.pause * 2, _FIRST_PAUSE), _LONGEST_PAUSE)
                place.not_before = time.monotonic() + place.pause * random.uniform(0.5, 1)  # noqa: S311
            raise
        finally:
            place.opening = None
        place.connection, place.fault, place.pause = connection, None, 0.0
        place.health.state, place.health.error = "connected", None
        place.health.connects += 1
        if self._sweeper is None:
            self._sweeper = asyncio.create_task(self._sweep())
        return connection

    def _drop(self, place: _Place, connection: "Connection | None") -> None:
        """Close a connection, unless another of its users has done so."""
        if connection is None or place.connection is not connection:
            return
        place.connection = None
        place.health.state = "closed"
        task = asyncio.create_task(connection.close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    def _make_room(self) -> None:
        """Raises McpError when every connection is at work."""
        if len(self._places) < self._max:
            return
        idle = [(p.last_used, key) for key, p in self._places.items() if not p.busy]
        if not idle:
            told = "This server has too many connections to MCP servers at the moment."
            raise McpError("protocol_error", "too_many_connections", told)
        place = self._places.pop(min(idle)[1])
        self._drop(place, place.connection)

    async def _sweep(self) -> None:
        """Close what was not used for a while; forget what is closed, but for servers that all share."""
        while True:
            await asyncio.sleep(max(self._idle / 4, 0.05))
            limit = time.monotonic() - self._idle
            for key, place in list(self._places.items()):
                if place.busy or place.last_used > limit:
                    continue
                self._drop(place, place.connection)
                if not place.shared:
                    del self._places[key]


async def _settled(task: "asyncio.Task[Connection]") -> None:
    await asyncio.wait([task])


def _heard(task: "asyncio.Task[Connection]") -> None:
    """Nobody may wait for it any more."""
    if not task.cancelled():
        task.exception()
