"""The main adapter: HTTP/1.1 on asyncio.Protocol and httptools, pushing each read to the receiver.

No task per request but for connecting, no timer per read: one periodic sweep finds what is overdue, so
a first-byte or idle timeout may come up to half its length late, and at most two seconds.
"""

import asyncio
import contextlib
import ssl
from contextvars import Context

from bascule.upstreams.client import Exchange, Receiver, Timeouts, UpstreamRequest
from bascule.upstreams.http1_connection import Http1Connection, Http1Exchange
from bascule.upstreams.wire import Origin, encode_head, parse_target

_CLOSE_SECONDS = 1.0
_SWEEP_SECONDS = 1.0
_SWEEP_FLOOR = 0.01


class Http1Client:
    """An `UpstreamClient` without proxies.

    `ssl_context` is for https (default: system certificates, names verified); `keep_idle` is how many
    seconds an unused connection is kept. `send` raises ValueError for a URL or header that is refused
    (see `bascule.upstreams.wire`) and RuntimeError after `aclose`.
    """

    def __init__(
        self, *, ssl_context: ssl.SSLContext | None = None, keep_idle: float = 60.0
    ) -> None:
        self._ssl_context = ssl_context
        self._keep_idle = keep_idle
        self._idle: dict[Origin, list[Http1Connection]] = {}
        self._open: set[Http1Connection] = set()
        self._connecting: dict[asyncio.Task[None], Http1Exchange] = {}
        self._sweep_seconds = _SWEEP_SECONDS
        self._sweep_timer: asyncio.TimerHandle | None = None
        self._drained = asyncio.Event()
        self._closed = False

    def send(self, request: UpstreamRequest, receiver: Receiver) -> Exchange:
        if self._closed:
            raise RuntimeError("the client is closed")
        target = parse_target(request.url)
        exchange = Http1Exchange(self, request, target, encode_head(request, target), receiver)
        connection = self._take_idle(target.origin)
        if connection is None:
            self.connect(exchange)
        else:
            connection.begin(exchange, reused=True)
        return exchange

    async def aclose(self) -> None:
        """Fail what is under way with "closed", close every connection and wait until they are."""
        self._closed = True
        connecting = dict(self._connecting)
        for task, exchange in connecting.items():
            task.cancel()
            exchange.fail("closed", "the client was closed")
        for connection in tuple(self._open):
            connection.fail("closed", "the client was closed")
        await asyncio.gather(*connecting, return_exceptions=True)
        if self._open:
            self._drained.clear()
            # uvloop never tells the end of a connection whose making was cancelled at its very end.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_CLOSE_SECONDS):
                    await self._drained.wait()
            self._open.clear()

    # What follows is for exchanges and connections.

    def connect(self, exchange: Http1Exchange) -> None:
        # A connection outlives the request that opens it, and must not log in that one's name.
        loop = asyncio.get_running_loop()
        task = loop.create_task(self._connect(exchange), context=Context())
        exchange.connecting = task
        self._connecting[task] = exchange
        task.add_done_callback(self._connecting.pop)

    async def _connect(self, exchange: Http1Exchange) -> None:
        origin = exchange.target.origin
        context = self._context() if origin.secure else None
        try:
            async with asyncio.timeout(exchange.timeouts.connect):
                _, connection = await asyncio.get_running_loop().create_connection(
                    lambda: Http1Connection(self, origin),
                    origin.host,
                    origin.port,
                    ssl=context,
                    server_hostname=origin.host if context is not None else None,
                )
        except TimeoutError:
            exchange.fail(
                "connect_timeout", f"no connection to {origin.host}:{origin.port} in time"
            )
        except Exception as error:  # noqa: BLE001 - whatever it is, the receiver must hear of it
            exchange.fail("connect", f"{origin.host}:{origin.port}: {error}", error)
        else:
            exchange.connecting = None
            connection.begin(exchange, reused=False)

    def _context(self) -> ssl.SSLContext:
        if self._ssl_context is None:
            self._ssl_context = ssl.create_default_context()
            self._ssl_context.set_alpn_protocols(["http/1.1"])
        return self._ssl_context

    def _take_idle(self, origin: Origin) -> Http1Connection | None:
        idle = self._idle.get(origin)
        while idle:
            connection = idle.pop()
            if not connection.transport.is_closing():
                return connection
        return None

    def keep(self, connection: Http1Connection) -> None:
        self._idle.setdefault(connection.origin, []).append(connection)

    def forget_idle(self, connection: Http1Connection) -> None:
        idle = self._idle.get(connection.origin, [])
        with contextlib.suppress(ValueError):
            idle.remove(connection)
        if not idle:
            self._idle.pop(connection.origin, None)

    def opened(self, connection: Http1Connection) -> None:
        self._open.add(connection)
        if self._sweep_timer is None:
            self._schedule_sweep()

    def lost(self, connection: Http1Connection) -> None:
        self._open.discard(connection)
        self.forget_idle(connection)
        if not self._open:
            self._drained.set()
            self._sweep_seconds = _SWEEP_SECONDS
            if self._sweep_timer is not None:
                self._sweep_timer.cancel()
                self._sweep_timer = None

    def watch(self, timeouts: Timeouts) -> None:
        """Sweep often enough for these."""
        seconds = min(timeouts.first_byte, timeouts.idle) / 4
        if seconds < self._sweep_seconds:
            self._sweep_seconds = max(seconds, _SWEEP_FLOOR)
            if self._sweep_timer is not None:
                self._sweep_timer.cancel()
                self._schedule_sweep()

    def _schedule_sweep(self) -> None:
        loop = asyncio.get_running_loop()
        self._sweep_timer = loop.call_later(self._sweep_seconds, self._sweep)

    def _sweep(self) -> None:
        now = asyncio.get_running_loop().time()
        self._schedule_sweep()
        for connection in tuple(self._open):
            connection.sweep(now, self._keep_idle)
