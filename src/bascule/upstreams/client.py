"""The port to model servers over HTTP, of push shape: the transport's read calls the receiver.

An adapter calls, from the event loop's thread and never from inside `send`: `head` once, `data` any
number of times (all body bytes of one network read joined), then exactly one of `end` or `fail`.
`fail` may come at any time, also before `head`. An exception raised by a receiver's method becomes
that receiver's `fail`. After `drop` nothing is called.
"""

from collections.abc import Sequence
from typing import Literal, Protocol

import msgspec

Headers = Sequence[tuple[bytes, bytes]]
"""Names are lower case."""

FailureKind = Literal[
    "connect",  # refused, unreachable, name not found, TLS handshake or certificate
    "connect_timeout",
    "first_byte_timeout",
    "idle_timeout",
    "closed",  # the connection ended before the answer did
    "malformed",  # not HTTP, or limits exceeded
    "receiver",  # the receiver raised; see __cause__
]


class UpstreamFailure(Exception):
    """The exchange did not end; `answered` says whether a response head had arrived."""

    loggable = True

    def __init__(self, kind: FailureKind, message: str, *, answered: bool = False) -> None:
        super().__init__(message)
        self.kind: FailureKind = kind
        self.answered = answered


class Timeouts(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds. `first_byte` runs from the request's last byte to the response head."""

    connect: float = 10.0
    first_byte: float = 600.0
    idle: float = 300.0


class UpstreamRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One request. `url` is absolute, http or https; the adapter adds host and content-length."""

    url: str
    method: str = "POST"
    headers: Headers = ()
    body: bytes = b""
    timeouts: Timeouts = Timeouts()


class Receiver(Protocol):
    """Takes the answer, synchronously."""

    def head(self, status: int, headers: Headers) -> None: ...

    def data(self, data: bytes) -> None: ...

    def end(self) -> None: ...

    def fail(self, failure: UpstreamFailure) -> None: ...


class Exchange(Protocol):
    """The handle of a request under way."""

    def pause(self) -> None:
        """Stop reading; what is already read may still arrive."""
        ...

    def resume(self) -> None: ...

    def drop(self) -> None:
        """Abandon the exchange and close its connection. Idempotent; harmless after the end."""
        ...


class UpstreamClient(Protocol):
    """An adapter: pools connections, keeps them alive, closes them in `aclose`."""

    def send(self, request: UpstreamRequest, receiver: Receiver) -> Exchange:
        """Start the exchange; returns at once."""
        ...

    async def aclose(self) -> None: ...
