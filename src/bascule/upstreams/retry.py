"""A second and third chance for a request, as long as its receiver has seen nothing of an answer."""

import asyncio
import random
from collections.abc import Sequence
from typing import Protocol

from bascule.upstreams.client import (
    Exchange,
    Headers,
    Receiver,
    UpstreamClient,
    UpstreamFailure,
    UpstreamRequest,
)
from bascule.upstreams.failing import tell

RETRIED_KINDS = frozenset({"connect", "connect_timeout", "closed"})
"""Failures after which the request is sent again, if no head had arrived."""

RETRIED_STATUSES = frozenset({502, 503, 504})
"""Answers of something between us and the model, or of a server that is starting."""


class RetryingClient:
    """An `UpstreamClient` around another one, which it closes with itself.

    `backoff` gives the seconds before each further try (a random quarter more or less), so its length
    is the number of retries. A retry starts only within `budget` seconds of the first `send`; one
    that would start later does not happen, and the receiver gets the outcome at hand. An answer's
    `retry-after` in seconds lengthens the wait.
    """

    def __init__(
        self,
        client: UpstreamClient,
        *,
        backoff: Sequence[float] = (0.1, 0.4),
        budget: float = 2.0,
    ) -> None:
        self.client = client
        self.backoff = tuple(backoff)
        self.budget = budget
        self.waiting: set[_Call] = set()
        self.closed = False

    def send(self, request: UpstreamRequest, receiver: Receiver) -> Exchange:
        return _Call(self, request, receiver)

    async def aclose(self) -> None:
        self.closed = True
        for call in tuple(self.waiting):
            call.close()
        await self.client.aclose()


class _TakesData(Protocol):
    def __call__(self, data: bytes) -> None: ...


class _TakesEnd(Protocol):
    def __call__(self) -> None: ...


class _Call:
    """The caller's handle and the inner client's receiver in one.

    `data` and `end` are attributes: once an answer is accepted they are the caller's own methods, so
    that a read costs nothing more.
    """

    __slots__ = (
        "_deadline",
        "_exchange",
        "_owner",
        "_paused",
        "_receiver",
        "_request",
        "_timer",
        "_tries",
        "data",
        "end",
    )

    def __init__(self, owner: RetryingClient, request: UpstreamRequest, receiver: Receiver) -> None:
        self._owner = owner
        self._request: UpstreamRequest | None = request
        self._receiver = receiver
        self._deadline = asyncio.get_running_loop().time() + owner.budget
        self._tries = 0
        self._paused = False
        self._timer: asyncio.TimerHandle | None = None
        self.data: _TakesData = _swallow
        self.end: _TakesEnd = _ignore
        self._exchange = owner.client.send(request, self)

    # The caller's side.

    def pause(self) -> None:
        self._paused = True
        self._exchange.pause()

    def resume(self) -> None:
        self._paused = False
        self._exchange.resume()

    def drop(self) -> None:
        self._stop_waiting()
        self._exchange.drop()

    # The inner client's side.

    def head(self, status: int, headers: Headers) -> None:
        if status in RETRIED_STATUSES and self._retry(_retry_after(headers)):
            return
        self._request = None
        self.data = self._receiver.data
        self.end = self._receiver.end
        self._receiver.head(status, headers)

    def fail(self, failure: UpstreamFailure) -> None:
        if self._timer is not None:
            return  # of an answer that is being swallowed
        if failure.kind in RETRIED_KINDS and not failure.answered and self._retry(0):
            return
        self._receiver.fail(failure)

    # Between tries.

    def close(self) -> None:
        """Fail it: the client closes."""
        self.drop()
        tell(self._receiver, "closed", "the client was closed", answered=False)

    def _retry(self, at_least: float) -> bool:
        """Plan another try, if one is left and can start in time."""
        owner = self._owner
        if owner.closed or self._tries >= len(owner.backoff):
            return False
        jitter = random.uniform(0.75, 1.25)  # noqa: S311 - no secret
        delay = max(owner.backoff[self._tries] * jitter, at_least)
        loop = asyncio.get_running_loop()
        if loop.time() + delay > self._deadline:
            return False
        self._tries += 1
        self._timer = loop.call_later(delay, self._send_again)
        owner.waiting.add(self)
        return True

    def _send_again(self) -> None:
        request = self._request
        self._stop_waiting()
        self._exchange.drop()  # a swallowed answer may still be under way
        if request is None:
            return
        self._exchange = self._owner.client.send(request, self)
        if self._paused:
            self._exchange.pause()

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._owner.waiting.discard(self)


def _swallow(data: bytes) -> None: ...


def _ignore() -> None: ...


def _retry_after(headers: Headers) -> float:
    for name, value in headers:
        if name == b"retry-after" and value.isdigit():
            return float(value)
    return 0
