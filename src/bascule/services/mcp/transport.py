"""How a server is reached: streamable HTTP, the older event streams, or a program's own pipes."""

import asyncio
import os
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from contextvars import ContextVar
from types import TracebackType
from typing import Any, Final, cast

import anyio
import httpx2
import structlog
from mcp.client.auth.extensions.client_credentials import ClientCredentialsOAuthProvider
from mcp.client.sse import sse_client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._stream_protocols import ReadStream, WriteStream
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCResponse

from bascule.services.egress import Guard
from bascule.services.guarded import http_client
from bascule.services.mcp.content import with_known_content
from bascule.services.mcp.server import McpServer

_log = structlog.stdlib.get_logger("bascule.mcp")

_READ: Final = 24 * 3600.0
"""Seconds between two reads of an event stream: it may be silent for long."""
_LINE: Final = 500
"""Signs of a line of a server's own log that are kept."""

last_error: Final[ContextVar[list[int] | None]] = ContextVar("bascule_mcp_status", default=None)
"""Takes the HTTP statuses of errors that answer what is sent from this context: the SDK sends each
request from the context of who makes it."""

Streams = tuple[ReadStream[SessionMessage | Exception], WriteStream[SessionMessage]]
Transport = AbstractAsyncContextManager[Streams]


class KnownContent:
    """A read stream in which results hold content of known types only."""

    def __init__(
        self, inner: ReadStream[SessionMessage | Exception], ended: Callable[[], None]
    ) -> None:
        """`ended` is called when nothing more comes."""
        self._inner = inner
        self._ended = ended

    async def receive(self) -> SessionMessage | Exception:
        try:
            return _readable(await self._inner.receive())
        except (anyio.EndOfStream, anyio.ClosedResourceError):
            self._ended()
            raise

    async def aclose(self) -> None:
        await self._inner.aclose()

    def __aiter__(self) -> "ReadStream[SessionMessage | Exception]":
        return cast("ReadStream[SessionMessage | Exception]", self)

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return _readable(await self._inner.__anext__())
        except StopAsyncIteration:
            self._ended()
            raise

    async def __aenter__(self) -> "KnownContent":
        await self._inner.__aenter__()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> bool | None:
        return await self._inner.__aexit__(exc_type, exc_val, exc_tb)

    @property
    def last_context(self) -> Any:
        """The SDK looks for it."""
        return getattr(self._inner, "last_context", None)


def _readable(message: SessionMessage | Exception) -> SessionMessage | Exception:
    if isinstance(message, SessionMessage) and isinstance(message.message, JSONRPCResponse):
        answer = message.message
        answer.result = with_known_content(answer.result)
    return message


@asynccontextmanager
async def streamable(
    server: McpServer,
    guard: Guard | None,
    max_bytes: int,
    ended: Callable[[], None],
) -> AsyncGenerator[Streams]:
    """Raises what the SDK does."""
    url = _url(server)
    async with (
        _client(server, guard, max_bytes) as client,
        streamable_http_client(url, http_client=client, max_sse_event_size=max_bytes) as streams,
    ):
        yield KnownContent(streams[0], ended), streams[1]


@asynccontextmanager
async def event_stream(
    server: McpServer,
    guard: Guard | None,
    max_bytes: int,
    ended: Callable[[], None],
) -> AsyncGenerator[Streams]:
    """The transport of the protocol's first version."""

    def factory(
        headers: dict[str, str] | None = None,
        timeout: httpx2.Timeout | None = None,
        auth: httpx2.Auth | None = None,
    ) -> httpx2.AsyncClient:
        return _client(server, guard, max_bytes)

    async with sse_client(_url(server), httpx_client_factory=factory) as streams:
        yield KnownContent(streams[0], ended), streams[1]


@asynccontextmanager
async def pipes(server: McpServer, ended: Callable[[], None]) -> AsyncGenerator[Streams]:
    """A program of the operator's; what it writes to its standard error goes to the debug log."""
    if server.command is None:
        raise ValueError("the server has no command")
    program = StdioServerParameters(
        command=server.command, args=list(server.args), env=dict(server.env)
    )
    read, write = os.pipe()
    loop = asyncio.get_running_loop()
    reader, _ = await loop.connect_read_pipe(
        lambda: _ErrorLines(server.shown), os.fdopen(read, "rb", buffering=0)
    )
    try:
        with os.fdopen(write, "w") as errors:
            async with stdio_client(program, errlog=errors) as streams:
                yield KnownContent(streams[0], ended), streams[1]
    finally:
        reader.close()


class _ErrorLines(asyncio.Protocol):
    def __init__(self, server: str) -> None:
        self._server = server
        self._rest = b""

    def data_received(self, data: bytes) -> None:
        *lines, rest = (self._rest + data).split(b"\n")
        self._rest = rest[-_LINE:]
        for line in lines:
            _log.debug(
                "a server says", server=self._server, line=line[:_LINE].decode(errors="replace")
            )


def _url(server: McpServer) -> str:
    if server.url is None:
        raise ValueError("the server has no URL")
    return server.url


def _client(server: McpServer, guard: Guard | None, max_bytes: int) -> httpx2.AsyncClient:
    client = http_client(
        guard=guard if server.guarded else None,
        max_bytes=max_bytes,
        timeout=httpx2.Timeout(server.connect_timeout, read=_READ),
        headers=server.headers,
        auth=_auth(server),
    )

    async def note(response: httpx2.Response) -> None:
        statuses = last_error.get()
        if statuses is not None and response.status_code >= 400:
            statuses.append(response.status_code)

    client.event_hooks = {"response": [note]}
    return client


def _auth(server: McpServer) -> httpx2.Auth | None:
    if server.oauth is None:
        return None
    return ClientCredentialsOAuthProvider(
        _url(server),
        _Tokens(),
        server.oauth.client_id,
        server.oauth.client_secret.reveal(),
        scope=server.oauth.scopes,
        issuer=server.oauth.issuer,
    )


class _Tokens:
    """In memory, as long as the connection lives."""

    def __init__(self) -> None:
        self._tokens: OAuthToken | None = None
        self._client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self._tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self._tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self._client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self._client = client_info
