"""Writing to the client without a task switch.

`PushProtocol` is uvicorn's httptools protocol with its flow control made audible, so that a body chunk
can be written from the upstream's read callback (measured: 22-24 µs of CPU a delta against 28-31 for
`await send(...)`). It is given to uvicorn as `http=`; under another server `SendWriter` alone serves.
tests/gateway/test_push.py holds the seam to what uvicorn does.
"""

import asyncio
import types
import weakref
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Generator, Mapping
from typing import Any, Final

from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from bascule.protocols.errors import invalid
from bascule.protocols.responses import door

EXTENSION: Final = "bascule.push"

Message = Mapping[str, Any]
Send = Callable[[Any], Coroutine[Any, Any, None]]
Receive = Callable[[], Awaitable[Any]]
Turn = Coroutine[Any, Any, None]
HeaderList = list[tuple[bytes, bytes]]


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


class _AudibleFlow(FlowControl):
    """Tells a listener when the transport's buffer is full, and when it has drained."""

    listener: "PushWriter | None" = None

    def pause_writing(self) -> None:
        super().pause_writing()
        if self.listener is not None and self.listener.on_pause is not None:
            self.listener.on_pause()

    def resume_writing(self) -> None:
        super().resume_writing()
        if self.listener is not None and self.listener.on_resume is not None:
            self.listener.on_resume()


class PushProtocol(HttpToolsProtocol):
    """Offers each request's cycle in its scope."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.flow = _AudibleFlow(transport)

    def send_400_response(self, msg: str) -> None:
        """What is not HTTP gets the API's error shape too."""
        body = door.encode_error(invalid(msg))
        self.transport.write(
            b"HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\n"
            b"content-length: %d\r\nconnection: close\r\n\r\n%b" % (len(body), body)
        )
        self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        flow = self.flow
        if isinstance(flow, _AudibleFlow) and flow.listener is not None:
            flow.listener.gone()

    def on_headers_complete(self) -> None:
        super().on_headers_complete()
        if self.cycle is not None:  # pyright: ignore[reportUnnecessaryComparison]
            # Weakly, or each scope would keep its cycle, which has the scope, until a collection.
            extensions = {EXTENSION: weakref.ref(self.cycle)}
            self.cycle.scope["extensions"] = extensions  # type: ignore[typeddict-item]


class _Cork:
    """A transport that keeps what is written until it is released."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self.transport = transport
        self._parts: list[bytes] = []
        self._closing = False

    def write(self, data: bytes) -> None:
        self._parts.append(data)

    def close(self) -> None:
        self._closing = True

    def is_closing(self) -> bool:
        return self._closing or self.transport.is_closing()

    def release(self) -> None:
        if self._parts:
            self.transport.write(b"".join(self._parts))
        if self._closing:
            self.transport.close()


class SendWriter:
    """Writes an HTTP answer through ASGI's `send` from synchronous code.

    `send` is driven once; where it would wait, a task waits in its place and later messages queue
    behind it. `on_pause` and `on_resume` are then called.
    """

    def __init__(self, send: Send) -> None:
        self._send = send
        self.status = 0
        """Of the answer, once it has begun."""
        self._queue: deque[Message] = deque()
        self._task: asyncio.Task[None] | None = None
        self.on_pause: Callable[[], None] | None = None
        self.on_resume: Callable[[], None] | None = None

    def start(self, status: int, headers: HeaderList) -> None:
        self.status = status
        self._drive({"type": "http.response.start", "status": status, "headers": headers})

    def write(self, data: bytes) -> None:
        self._drive({"type": "http.response.body", "body": data, "more_body": True})

    def finish(self) -> None:
        self._drive({"type": "http.response.body", "body": b""})

    def respond(self, status: int, headers: HeaderList, body: bytes) -> None:
        """A whole answer."""
        self.start(status, [*headers, (b"content-length", b"%d" % len(body))])
        self._drive({"type": "http.response.body", "body": body})

    async def write_by(self, turn: Turn, receive: Receive) -> None:
        """Run what writes the answer, to its end and until all is written. A client that leaves
        before cancels it. Raises what the turn raises."""
        task = asyncio.ensure_future(turn)
        gone = asyncio.ensure_future(_disconnected(receive))
        try:
            await asyncio.wait([task, gone], return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                await self.drained()
        finally:
            gone.cancel()
            task.cancel()
            await asyncio.wait([task, gone])
        if not task.cancelled():
            task.result()

    def abort(self) -> None:
        """End an answer that cannot be completed."""
        self.finish()

    async def drained(self) -> None:
        """Wait until all that was written has been taken by the server."""
        if self._task is not None:
            await self._task

    def _drive(self, message: Message) -> None:
        if self._task is not None:
            self._queue.append(message)
            return
        coroutine = self._send(message)
        try:
            waits_for = coroutine.send(None)
        except StopIteration:
            return
        if self.on_pause is not None:
            self.on_pause()
        self._task = asyncio.get_running_loop().create_task(self._wait(coroutine, waits_for))

    async def _wait(self, coroutine: Coroutine[Any, Any, None], waits_for: Any) -> None:
        await _continued(coroutine, waits_for)
        while self._queue:
            await self._send(self._queue.popleft())
        self._task = None
        if self.on_resume is not None:
            self.on_resume()


@types.coroutine
def _continued(coroutine: Coroutine[Any, Any, None], waits_for: Any) -> Generator[Any, Any, None]:
    """The rest of a coroutine that was driven by hand up to its first wait."""
    while True:
        try:
            sent = yield waits_for
        except BaseException as e:  # noqa: BLE001 -- a cancellation goes in like a result
            try:
                waits_for = coroutine.throw(e)
            except StopIteration:
                return
        else:
            try:
                waits_for = coroutine.send(sent)
            except StopIteration:
                return


class PushWriter(SendWriter):
    """The same on PushProtocol: body chunks go straight to the transport."""

    def __init__(self, send: Send, cycle: RequestResponseCycle) -> None:
        super().__init__(send)
        self._cycle: RequestResponseCycle | None = cycle
        self._turn: asyncio.Task[Any] | None = None
        if isinstance(cycle.flow, _AudibleFlow):
            cycle.flow.listener = self

    async def write_by(self, turn: Turn, receive: Receive) -> None:
        """In the present task, which saves one: the connection itself tells when it is lost."""
        cycle = self._cycle
        self._turn = task = asyncio.current_task()
        if cycle is None or cycle.disconnected or task is None:
            turn.close()
            return
        try:
            await turn
            await self.drained()
        except asyncio.CancelledError:
            if not cycle.disconnected:
                raise
            task.uncancel()
        finally:
            self._turn = None
            self._leave()

    def gone(self) -> None:
        """The connection is lost."""
        if self._cycle is not None:
            # uvicorn tells the last of several pipelined requests only.
            self._cycle.disconnected = True
        if self._turn is not None:
            self._turn.cancel()

    def write(self, data: bytes) -> None:
        cycle = self._cycle
        if cycle is None or cycle.disconnected or cycle.response_complete:
            return
        if self._task is not None:
            super().write(data)  # behind a head that waits for the answer before this one
            return
        cycle.transport.write(b"%x\r\n%b\r\n" % (len(data), data))

    def respond(self, status: int, headers: HeaderList, body: bytes) -> None:
        cycle = self._cycle
        self._leave()
        if cycle is None or cycle.response_started:
            super().respond(status, headers, body)
            return
        # Head and body in one write to the socket.
        cork = _Cork(cycle.transport)
        cycle.transport = cork  # type: ignore[assignment]
        try:
            super().respond(status, headers, body)
        finally:
            cycle.transport = cork.transport
            cork.release()

    def abort(self) -> None:
        if self._cycle is not None:
            self._cycle.transport.abort()

    def finish(self) -> None:
        self._leave()
        super().finish()

    def _leave(self) -> None:
        """Nothing more comes from here: no references in either direction."""
        cycle, self._cycle = self._cycle, None
        if cycle is not None and isinstance(cycle.flow, _AudibleFlow):
            cycle.flow.listener = None


def writer_for(scope: Mapping[str, Any], send: Send) -> SendWriter:
    """The fastest writer that the server offers."""
    extensions = scope.get("extensions")
    offered = extensions.get(EXTENSION) if extensions else None
    cycle = None if offered is None else offered()
    return SendWriter(send) if cycle is None else PushWriter(send, cycle)
