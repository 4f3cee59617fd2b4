"""The adapter for upstreams behind an HTTP or HTTPS proxy: aiohttp, pulled by a task per exchange."""

import asyncio
import contextlib
import io
import ssl
from collections.abc import AsyncGenerator, Callable
from types import SimpleNamespace
from typing import ParamSpec
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp

from bascule.upstreams.client import (
    FailureKind,
    Receiver,
    UpstreamRequest,
)
from bascule.upstreams.failing import tell
from bascule.upstreams.wire import check_headers, parse_target

_HEAD_LIMIT = 64 * 1024  # bytes, of each line
_WRITE_LIMIT = 64 * 1024  # bytes
P = ParamSpec("P")

_AUTOMATIC = ("accept", "accept-encoding", "content-type", "user-agent")


class ProxiedClient:
    """An `UpstreamClient` that goes through `proxy`, or with `trust_env` through what the environment
    says for each URL (http_proxy, https_proxy, all_proxy, no_proxy).

    A proxy's URL may hold its credentials. `ssl_context` is for https upstreams (default: system
    certificates, names verified). aiohttp normalises percent-encoding in URLs. `send` raises
    ValueError for a URL or header that is refused (see `bascule.upstreams.wire`) and RuntimeError
    after `aclose`.
    """

    def __init__(
        self,
        *,
        proxy: str | None = None,
        trust_env: bool = False,
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        self._proxy = proxy
        self._trust_env = trust_env
        self._ssl_context = ssl_context
        self._session: aiohttp.ClientSession | None = None
        self._exchanges: dict[asyncio.Task[None], _Exchange] = {}
        self._closed = False

    def send(self, request: UpstreamRequest, receiver: Receiver) -> "_Exchange":
        if self._closed:
            raise RuntimeError("the client is closed")
        parse_target(request.url)
        check_headers(request.method, request.headers)
        _texts(request)
        if self._session is None:
            self._session = self._make_session()
        exchange = _Exchange(receiver)
        work = exchange.run(self._session, request, self._proxy_for(request.url))
        exchange.task = asyncio.get_running_loop().create_task(work)
        self._exchanges[exchange.task] = exchange
        exchange.task.add_done_callback(self._exchanges.pop)
        return exchange

    async def aclose(self) -> None:
        """Fail what is under way with "closed", close every connection and wait until they are."""
        self._closed = True
        exchanges = dict(self._exchanges)
        for exchange in exchanges.values():
            exchange.close()
        await asyncio.gather(*exchanges, return_exceptions=True)
        if self._session is not None:
            await self._session.close()

    def _make_session(self) -> aiohttp.ClientSession:
        trace = aiohttp.TraceConfig()
        trace.on_connection_create_end.append(_on_connected)
        trace.on_connection_reuseconn.append(_on_reused)
        trace.on_request_chunk_sent.append(_on_connected)
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ssl=self._ssl_context or True),
            timeout=aiohttp.ClientTimeout(total=None),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            skip_auto_headers=_AUTOMATIC,
            max_line_size=_HEAD_LIMIT,
            max_field_size=_HEAD_LIMIT,
            trace_configs=[trace],
        )

    def _proxy_for(self, url: str) -> str | None:
        # Not aiohttp's own trust_env: that also reads .netrc and sends what it finds there.
        if self._proxy is not None or not self._trust_env:
            return self._proxy
        target = urlsplit(url)
        if proxy_bypass(target.hostname or ""):
            return None
        proxies = getproxies()
        return proxies.get(target.scheme) or proxies.get("all")


class _Exchange:
    """The handle and its task. What it waits for has a time limit, which pausing lifts."""

    def __init__(self, receiver: Receiver) -> None:
        self.task: asyncio.Task[None] | None = None
        self.reused = False  # whether this try is on a kept connection
        self._receiver = receiver
        self._answered = False
        self._over = False
        self._going = asyncio.Event()
        self._going.set()
        self._limit: asyncio.Timeout | None = None
        self._seconds = 0.0

    def pause(self) -> None:
        self._going.clear()
        self._set_clock(None)

    def resume(self) -> None:
        self._going.set()
        self.restart_clock()

    def drop(self) -> None:
        if not self._over:
            self._over = True
            if self.task is not None:
                self.task.cancel()

    def close(self) -> None:
        """Fail it: the client closes."""
        self._fail("closed", "the client was closed")
        if self.task is not None:
            self.task.cancel()

    def restart_clock(self) -> None:
        if self._going.is_set():
            self._set_clock(asyncio.get_running_loop().time() + self._seconds)

    def _set_clock(self, deadline: float | None) -> None:
        if self._limit is not None and not self._limit.expired():
            self._limit.reschedule(deadline)

    @contextlib.asynccontextmanager
    async def _patience(self, seconds: float) -> AsyncGenerator[None]:
        """Limit what is inside to `seconds` from the last `restart_clock`."""
        self._seconds = seconds
        async with asyncio.timeout(None) as self._limit:
            try:
                yield
            finally:
                self._limit = None

    async def run(
        self, session: aiohttp.ClientSession, request: UpstreamRequest, proxy: str | None
    ) -> None:
        """Tell the receiver all, or nothing more once it is dropped. Cancelling closes the connection."""
        try:
            response = await self._ask(session, request, proxy)
            try:
                await self._going.wait()
                self._answered = True
                await self._relay(response, request.timeouts.idle)
            finally:
                response.close()  # does nothing if it was read to its end
        except _ReceiverError as error:
            self._fail("receiver", "the receiver raised", error.__cause__)
        except Exception as error:  # noqa: BLE001 - whatever it is, the receiver must hear of it
            kind = _kind(error, answered=self._answered)
            self._fail(kind, f"{type(error).__name__}: {error}", error)

    async def _ask(
        self, session: aiohttp.ClientSession, request: UpstreamRequest, proxy: str | None
    ) -> aiohttp.ClientResponse:
        headers = _texts(request)
        while True:
            self.reused = False
            try:
                async with self._patience(request.timeouts.first_byte):
                    return await session.request(
                        request.method,
                        request.url,
                        headers=headers,
                        data=_body(request),
                        allow_redirects=False,
                        proxy=proxy,
                        timeout=aiohttp.ClientTimeout(connect=request.timeouts.connect),
                        trace_request_ctx=self,
                    )
            except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError) as error:
                # aiohttp itself tries again for idempotent methods only. Each stale connection is
                # gone from its pool afterwards, so this ends on a fresh one.
                if not self.reused or not _unheard(error):
                    raise

    async def _relay(self, response: aiohttp.ClientResponse, idle: float) -> None:
        headers = [(name.lower(), value) for name, value in response.raw_headers]
        self._call(self._receiver.head, response.status, headers)
        while True:
            await self._going.wait()
            async with self._patience(idle):
                self.restart_clock()
                data = await response.content.readany()
            await self._going.wait()
            if not data:
                break
            self._call(self._receiver.data, data)
        self._call(self._receiver.end)
        self._over = True

    def _call(self, method: Callable[P, None], *args: P.args, **kwargs: P.kwargs) -> None:
        if self._over:
            raise asyncio.CancelledError
        try:
            method(*args, **kwargs)
        except Exception as error:
            raise _ReceiverError from error

    def _fail(self, kind: FailureKind, message: str, cause: BaseException | None = None) -> None:
        if not self._over:
            self._over = True
            tell(self._receiver, kind, message, answered=self._answered, cause=cause)


class _ReceiverError(Exception):
    """Carries what a receiver raised, as its cause."""


def _texts(request: UpstreamRequest) -> list[tuple[str, str]]:
    """The headers as aiohttp wants them; it sends UTF-8, so ValueError for anything else."""
    return [(name.decode(), value.decode()) for name, value in request.headers]


def _body(request: UpstreamRequest) -> bytes | io.BytesIO | None:
    """aiohttp warns of bytes that are too long to write at once, but writes a file in pieces."""
    if len(request.body) > _WRITE_LIMIT:
        return io.BytesIO(request.body)
    return request.body or None


async def _on_connected(_: aiohttp.ClientSession, context: SimpleNamespace, params: object) -> None:
    exchange: _Exchange = context.trace_request_ctx
    exchange.restart_clock()


async def _on_reused(_: aiohttp.ClientSession, context: SimpleNamespace, params: object) -> None:
    exchange: _Exchange = context.trace_request_ctx
    exchange.reused = True
    exchange.restart_clock()


def _unheard(error: aiohttp.ServerDisconnectedError | aiohttp.ClientOSError) -> bool:
    """Whether not a byte of the answer had come: else the message is the beginning of a head."""
    return isinstance(error, aiohttp.ClientOSError) or isinstance(error.message, str)


def _kind(error: Exception, *, answered: bool) -> FailureKind:
    match error:
        case aiohttp.ConnectionTimeoutError():
            return "connect_timeout"
        case TimeoutError():
            return "idle_timeout" if answered else "first_byte_timeout"
        case (
            aiohttp.ClientConnectorError()
            | aiohttp.ClientConnectorCertificateError()
            | aiohttp.ClientHttpProxyError()
        ):
            return "connect"
        case aiohttp.ClientConnectionError() | aiohttp.ClientPayloadError():
            return "closed"
        case aiohttp.ClientResponseError():
            return "malformed"
        case _:
            return "malformed" if answered else "connect"
