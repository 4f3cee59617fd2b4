"""One answer of the model: sends the request, pushes what comes into the accumulator."""

import asyncio
from collections.abc import Callable

from bascule.engine.sinks import Sink
from bascule.protocols.errors import ApiError
from bascule.protocols.responses.events import RoundEnd, RoundEvent, RoundFailed
from bascule.protocols.responses.response import Usage
from bascule.protocols.upstream import Decoder
from bascule.telemetry.observe import RoundObserver
from bascule.telemetry.trace_files import RoundFile
from bascule.upstreams.client import Headers, Receiver, UpstreamFailure, UpstreamRequest
from bascule.upstreams.target import Target

_MAX_ERROR_BODY = 1024 * 1024
_MAX_WHOLE_BODY = 256 * 1024 * 1024
_LAST_BYTES = 1.0
"""Seconds for the end of an HTTP answer whose content is complete."""


_ENDS = frozenset({RoundEnd, RoundFailed})


class Inference:
    """Receives one exchange. `run` waits for its end; everything else is pushed.

    `opened` is called when the server has accepted the request, `feed` with each batch of events,
    of which the last holds RoundEnd or RoundFailed.
    """

    def __init__(
        self,
        target: Target,
        decoder: Decoder,
        *,
        opened: Callable[[], None],
        feed: Callable[[list[RoundEvent]], None],
        observed: RoundObserver,
    ) -> None:
        self._observed = observed
        self._fault: str | None = "cancelled"
        self._usage: Usage | None = None
        self._target = target
        self._decoder = decoder
        self._opened = opened
        self._feed = feed
        self._feed_on = feed
        self._done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._status = 0
        self._retry_after: str | None = None
        self._whole: list[bytes] | None = None
        self._size = 0
        self._over = False
        self._ended = False
        self._timer: asyncio.TimerHandle | None = None

    async def run(self, body: bytes, sink: Sink) -> None:
        """Raises ApiError when the server refused or failed before its answer began. A cancelled
        inference drops its connection."""
        target = self._target
        headers = (*target.headers, *self._observed.propagated)
        request = UpstreamRequest(
            url=target.url, headers=headers, body=body, timeouts=target.timeouts
        )
        file = self._observed.file
        exchange = target.client.send(request, self if file is None else Tap(self, file))
        sink.read_from(exchange)
        complete = False
        try:
            await self._done
            complete = self._over and not self._ended
        except asyncio.CancelledError:
            self._close_items()
            raise
        finally:
            sink.read_from(None)
            self._feed = self._feed_on
            self._observed.end(self._usage, self._fault)
            if complete:
                # Nobody waits for the end of the body, but with it the connection can be kept.
                exchange.resume()
                loop = asyncio.get_running_loop()
                self._timer = loop.call_later(_LAST_BYTES, exchange.drop)
            else:
                exchange.drop()

    # --- the receiver

    def head(self, status: int, headers: Headers) -> None:
        self._status = status
        self._observed.head(status, headers)
        kind = b""
        for name, value in headers:
            if name == b"content-type":
                kind = value.lower()
            elif name == b"retry-after":
                self._retry_after = value.decode("latin-1")
        if status == 200 and b"text/event-stream" in kind:
            self._feed, self._feed_on = self._feed_first, self._feed
            self._opened()
        else:
            self._whole = []

    def _feed_first(self, events: list[RoundEvent]) -> None:
        self._feed = self._feed_on
        self._observed.first()
        self._feed(events)

    def data(self, data: bytes) -> None:
        if self._whole is None:
            events = self._decoder.feed(data)
            if events:
                if type(events[-1]) in _ENDS:
                    self._push(events)
                else:
                    self._feed(events)
            return
        self._size += len(data)
        if self._size > (_MAX_WHOLE_BODY if self._status == 200 else _MAX_ERROR_BODY):
            self._fail(ApiError(502, "The model server's answer is too large."))
            return
        self._whole.append(data)

    def end(self) -> None:
        self._stop_waiting()
        if self._whole is None:
            self._push(self._decoder.end())
            self._finish()
            return
        body = b"".join(self._whole)
        if self._status != 200:
            self._fault = http_fault(self._status)
            self._fail(self._target.protocol.http_error(self._status, body, self._retry_after))
        elif body.lstrip()[:1] != b"{":
            self._fail(
                ApiError(502, "The model server's answer is neither JSON nor an event stream.")
            )
        else:
            events = self._decoder.whole(body)
            if isinstance(events[-1], RoundFailed):
                self._note(events[-1])
                self._fail(events[-1].error)
                return
            self._opened()
            self._push(events)
            self._finish()

    def fail(self, failure: UpstreamFailure) -> None:
        self._stop_waiting()
        self._fault = failure.kind
        if failure.kind == "receiver":
            self._set_exception(failure.__cause__ or failure)
            return
        error = failure_error(failure)
        if self._whole is None and self._status:
            self._close_items()
            self._push([RoundFailed(error)])
            self._finish()
        else:
            self._fail(error)

    def _stop_waiting(self) -> None:
        self._ended = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _close_items(self) -> None:
        """Items that are open end as cut; an answer that was whole but for its end mark is whole."""
        self._push([e for e in self._decoder.end() if not isinstance(e, RoundFailed)])

    def _push(self, events: list[RoundEvent]) -> None:
        if self._over or not events:
            return
        last = events[-1]
        if type(last) in _ENDS:
            self._over = True
            self._note(last)
            if isinstance(last, RoundFailed):
                last.error.message = self._target.masked(last.error.message)
        self._feed(events)
        if self._over:
            self._finish()

    def _note(self, last: RoundEvent) -> None:
        """How the answer ended, for those who count."""
        if isinstance(last, RoundEnd):
            self._fault, self._usage = None, last.usage
        elif self._fault == "cancelled":
            self._fault = "stream"

    def _finish(self) -> None:
        if not self._done.done():
            self._done.set_result(None)

    def _fail(self, error: ApiError) -> None:
        error.message = self._target.masked(error.message)
        if self._fault == "cancelled":
            self._fault = "malformed"
        self._set_exception(error)

    def _set_exception(self, error: BaseException) -> None:
        if not self._done.done():
            self._done.set_exception(error)


def failure_error(failure: UpstreamFailure) -> ApiError:
    """What the client is told of an exchange that did not end."""
    late = failure.kind in ("connect_timeout", "first_byte_timeout", "idle_timeout")
    return ApiError(504 if late else 502, f"The model server failed: {failure}.")


def http_fault(status: int) -> str:
    """The kind of an error status, as it is counted."""
    if status == 429:
        return "http_429"
    return "http_5xx" if status >= 500 else "http_4xx"


class Tap:
    """A receiver between the transport and another one: what comes is written down too."""

    def __init__(self, receiver: Receiver, file: RoundFile) -> None:
        self._file = file
        self._receiver = receiver
        self.head = receiver.head
        self.end = receiver.end
        self.fail = receiver.fail

    def data(self, data: bytes) -> None:
        self._file.data(data)
        self._receiver.data(data)
