"""One HTTP/1.1 connection on asyncio.Protocol and httptools, and the exchange that it carries."""

import asyncio
from typing import Protocol, cast

import httptools

from bascule.upstreams.client import (
    FailureKind,
    Receiver,
    Timeouts,
    UpstreamFailure,
    UpstreamRequest,
)
from bascule.upstreams.failing import tell
from bascule.upstreams.wire import Origin, Target

_HEAD_LIMIT = 64 * 1024  # bytes; also of what may come between two pieces of body
_JOIN_LIMIT = 64 * 1024  # a larger body is written on its own rather than copied behind the head


class Owner(Protocol):
    """What exchanges and connections want of their client."""

    def connect(self, exchange: "Http1Exchange") -> None:
        """Open a connection and begin the exchange on it, or fail it."""
        ...

    def opened(self, connection: "Http1Connection") -> None: ...

    def lost(self, connection: "Http1Connection") -> None: ...

    def keep(self, connection: "Http1Connection") -> None:
        """It is free for another exchange."""
        ...

    def forget_idle(self, connection: "Http1Connection") -> None:
        """It is free no more, if it was."""
        ...

    def watch(self, timeouts: Timeouts) -> None:
        """Call `sweep` often enough for these."""
        ...


class Http1Exchange:
    """The handle of one request; knows where it stands: connecting, on a connection, or over."""

    __slots__ = (
        "_owner",
        "answered",
        "body",
        "connecting",
        "connection",
        "head",
        "method",
        "over",
        "paused",
        "receiver",
        "target",
        "timeouts",
    )

    def __init__(
        self,
        owner: Owner,
        request: UpstreamRequest,
        target: Target,
        head: bytes,
        receiver: Receiver,
    ) -> None:
        self._owner = owner
        self.target = target
        self.method = request.method
        self.timeouts = request.timeouts
        self.head = head
        self.body = request.body
        self.receiver = receiver
        self.connecting: asyncio.Task[None] | None = None
        self.connection: Http1Connection | None = None
        self.answered = False
        self.paused = False
        self.over = False

    def pause(self) -> None:
        self.paused = True
        if self.connection is not None:
            self.connection.pause()

    def resume(self) -> None:
        self.paused = False
        if self.connection is not None:
            self.connection.resume()

    def drop(self) -> None:
        connection, connecting = self.connection, self.connecting
        self.leave()
        if connecting is not None:
            connecting.cancel()
        if connection is not None:
            connection.discard()

    def leave(self) -> Receiver:
        """End it, letting go of all that it refers to; gives the receiver for a last call."""
        receiver = self.receiver
        self.over = True
        self.receiver = _NOBODY
        self.connecting = None
        if self.connection is not None:
            self.connection.exchange = None
            self.connection = None
        self.head = self.body = b""
        return receiver

    def head_arrived(self) -> None:
        self.answered = True
        self.head = self.body = b""  # it will not be sent again

    def retry(self) -> None:
        self.connection = None
        self._owner.connect(self)

    def fail(self, kind: FailureKind, message: str, cause: BaseException | None = None) -> None:
        if self.over:
            return
        tell(self.leave(), kind, message, answered=self.answered, cause=cause)


class Http1Connection(asyncio.Protocol):
    """One connection; has at most one exchange, and is itself what the parser calls back.

    TCP_NODELAY is on: asyncio and uvloop set it on every TCP transport.
    """

    transport: asyncio.Transport
    _parser: httptools.HttpResponseParser

    def __init__(self, owner: Owner, origin: Origin) -> None:
        self._owner = owner
        self.origin = origin
        self.exchange: Http1Exchange | None = None
        self._reused = False
        self._since = 0.0  # when the running clock started: waiting, idle or unused
        self._heard = False  # since the last sweep
        self._unsent = 0
        self._parts: list[bytes] = []
        self.on_body = self._parts.append  # looked up by the parser: no Python frame per chunk
        self._reset_answer()

    def _reset_answer(self) -> None:
        self._headers: list[tuple[bytes, bytes]] = []
        self._header_bytes = 0
        self._other_bytes = 0  # read before the head was complete, or since the last body
        self._status = 0  # of the final head, once it is parsed
        self._keep_alive = False
        self._framed = False  # the answer says where it ends
        self._streaming = False  # the receiver has the head, and only body is to come
        self._complete = False
        self._body_parts = 0  # how many of the parts are this answer's, once it is complete
        self._spoiled = False  # more came than was asked for
        self._problem: str | None = None

    def begin(self, exchange: Http1Exchange, *, reused: bool) -> None:
        """Write the request."""
        if self.transport.is_closing():
            exchange.fail("closed", "the connection ended before the request")
            return
        self._owner.watch(exchange.timeouts)
        self._reset_answer()
        self._parser = httptools.HttpResponseParser(self)
        self.exchange = exchange
        exchange.connection = self
        self._reused = reused
        self._since = asyncio.get_running_loop().time()
        self._unsent = 0
        if exchange.paused:
            self.transport.pause_reading()
        body = exchange.body
        if len(body) <= _JOIN_LIMIT:
            self.transport.write(exchange.head + body)
        else:
            self.transport.write(exchange.head)
            self.transport.write(body)

    def pause(self) -> None:
        if not self.transport.is_closing():
            self.transport.pause_reading()

    def resume(self) -> None:
        self._since = asyncio.get_running_loop().time()
        if not self.transport.is_closing():
            self.transport.resume_reading()

    def discard(self) -> None:
        """Close at once. Not gently: nothing is left to say, and a TLS farewell can take long."""
        self._owner.forget_idle(self)
        self.transport.abort()

    def fail(self, kind: FailureKind, message: str, cause: BaseException | None = None) -> None:
        """Close, and fail the exchange if there is one."""
        self.discard()
        if self.exchange is not None:
            self.exchange.fail(kind, message, cause)

    def sweep(self, now: float, keep_idle: float) -> None:
        """Close or fail what is overdue."""
        exchange = self.exchange
        if exchange is None:
            if now - self._since >= keep_idle:
                self.discard()
            return
        unsent = self.transport.get_write_buffer_size()
        alive = (self._heard and self._streaming) or unsent != self._unsent or exchange.paused
        self._heard = False
        self._unsent = unsent
        if alive:
            self._since = now
        elif self._streaming or unsent:
            if now - self._since >= exchange.timeouts.idle:
                self.fail("idle_timeout", f"nothing moved for {exchange.timeouts.idle:g} s")
        elif now - self._since >= exchange.timeouts.first_byte:
            self.fail("first_byte_timeout", f"no answer in {exchange.timeouts.first_byte:g} s")

    # Called by the event loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self._since = asyncio.get_running_loop().time()
        self._owner.opened(self)

    def data_received(self, data: bytes) -> None:
        exchange = self.exchange
        if exchange is None:  # an answer that nobody asked for
            self.discard()
            return
        self._heard = True
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._streaming = False
            self._problem = f"{type(error).__name__}: {error}"
        parts = self._parts
        if not (self._streaming and parts):
            self._advance(exchange, len(data))
            return
        body = parts[0] if len(parts) == 1 else b"".join(parts)
        parts.clear()
        try:
            exchange.receiver.data(body)
        except Exception as error:  # noqa: BLE001 - the contract: whatever it raises ends it
            self._receiver_raised(error)

    def eof_received(self) -> None:
        self._ended(None)

    def connection_lost(self, exc: Exception | None) -> None:
        self._owner.lost(self)
        self._ended(exc)
        self.__dict__.pop("_parser", None)  # it refers back here

    # What came, step by step.

    def _advance(self, exchange: Http1Exchange, size: int) -> None:
        """Anything but mere body: a head, an end, trouble, or nothing complete yet."""
        parts = self._parts
        if self._complete and len(parts) > self._body_parts:
            self._spoiled = True
            del parts[self._body_parts :]
        body = b"".join(parts)
        parts.clear()
        self._other_bytes = 0 if body else self._other_bytes + size
        try:
            if self._status and not exchange.answered:
                exchange.head_arrived()
                self._since = asyncio.get_running_loop().time()
                exchange.receiver.head(self._status, self._headers)
            if body and not exchange.over:
                exchange.receiver.data(body)
        except Exception as error:  # noqa: BLE001 - as above
            self._receiver_raised(error)
            return
        if exchange.over:
            return
        if self._complete:
            self._finish(exchange)
        elif self._problem is not None:
            self.fail("malformed", self._problem)
        elif self._other_bytes > _HEAD_LIMIT:
            self.fail("malformed", f"more than {_HEAD_LIMIT} bytes of headers")
        else:
            self._streaming = exchange.answered

    def _finish(self, exchange: Http1Exchange) -> None:
        reusable = (
            not (self._spoiled or self._problem)
            and self._keep_alive
            and not self.transport.get_write_buffer_size()
            and not self.transport.is_closing()
        )
        receiver = exchange.leave()
        if reusable:
            self._since = asyncio.get_running_loop().time()
            self.transport.resume_reading()
            self._owner.keep(self)
        else:
            self.discard()
        try:
            receiver.end()
        except Exception as error:  # noqa: BLE001 - as above
            if self.exchange is None:
                self.discard()
            tell(receiver, "receiver", "the receiver raised", answered=True, cause=error)

    def _receiver_raised(self, error: Exception) -> None:
        self.fail("receiver", "the receiver raised", error)

    def _ended(self, exc: Exception | None) -> None:
        """No more bytes: the end of an answer that has no other, or too early."""
        self._owner.forget_idle(self)
        exchange = self.exchange
        if exchange is None:
            return
        if self._reused and not exchange.answered and not self._other_bytes:
            self.exchange = None
            exchange.retry()
        elif exc is None and exchange.answered and not self._framed:
            self._spoiled = True
            self._finish(exchange)
        else:
            self.fail("closed", f"the connection ended early{f': {exc}' if exc else ''}", exc)

    # Called by the parser, from within `feed_data`: notes only.

    def on_message_begin(self) -> None:
        if self._complete:
            self._spoiled = True

    def on_header(self, name: bytes, value: bytes) -> None:
        self._header_bytes += len(name) + len(value) + 4
        if self._header_bytes > _HEAD_LIMIT:
            raise ValueError
        if not self._status:
            self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        if self._complete or self.exchange is None:
            return
        status = self._parser.get_status_code()
        if status < 200:
            return
        self._status = status
        self._keep_alive = self._parser.should_keep_alive()  # it forgets at the end
        for name, value in self._headers:
            if name == b"content-length" or (
                name == b"transfer-encoding" and value.lower().endswith(b"chunked")
            ):
                self._framed = True
        if self.exchange.method == "HEAD" or status in {204, 304}:
            self._complete = True  # whatever its headers say, and the parser expects

    def on_message_complete(self) -> None:
        if self._complete:
            return
        if self._status:
            self._streaming = False
            self._complete = True
            self._body_parts = len(self._parts)
        else:
            self._headers = []  # of an interim answer


class _Nobody:
    """Takes what comes after an exchange is over: nothing should."""

    def head(self, status: int, headers: object) -> None: ...

    def data(self, data: bytes) -> None: ...

    def end(self) -> None: ...

    def fail(self, failure: UpstreamFailure) -> None: ...


_NOBODY = _Nobody()
