"""A turn's events as an HTTP answer: a stream, or the finished response alone."""

import asyncio
from collections.abc import Sequence
from typing import Final

from bascule.engine.sinks import Notes, Source
from bascule.gateway.push import HeaderList, SendWriter
from bascule.protocols.errors import ApiError
from bascule.protocols.responses import door, obfuscation
from bascule.protocols.responses.events import Event, ResponseEvent

KEEP_ALIVE_SECONDS: Final = 15.0

_JSON: Final = (b"content-type", b"application/json")
_STREAM: Final = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
)


def error_answer(writer: SendWriter, error: ApiError, headers: HeaderList) -> None:
    """An HTTP error answer in the API's shape."""
    headers = [*headers, _JSON]
    if error.retry_after is not None:
        headers.append((b"retry-after", error.retry_after.encode("latin-1", "ignore")))
    writer.respond(error.status, headers, door.encode_error(error))


def _note_headers(notes: Notes) -> HeaderList:
    headers: HeaderList = []
    for name, values in (
        (b"x-bascule-ignored", notes.ignored),
        (b"x-bascule-warnings", notes.warnings),
    ):
        if values:
            headers.append((name, header_list(values)))
    return headers


def header_list(values: Sequence[str]) -> bytes:
    """Texts as the value of a header, with commas between them and nothing that a header cannot
    hold."""
    text = ",".join(value.replace(",", ";") for value in values)
    return "".join(c if " " <= c <= "~" else "?" for c in text).encode()[:4096]


class SseSink:
    """Server-sent events; each batch is one write."""

    streams = True

    def __init__(
        self, writer: SendWriter, headers: HeaderList, *, done: bool, obfuscate: bool = False
    ) -> None:
        """`done` ends the stream with [DONE], `obfuscate` pads its deltas."""
        self._writer = writer
        self._headers = headers
        self._done = done
        self._encode = obfuscation.encode if obfuscate else door.encode
        self._source: Source | None = None
        self._paused = False
        self._quiet = False
        self._timer: asyncio.TimerHandle | None = None
        writer.on_pause = self._pause
        writer.on_resume = self._resume

    def read_from(self, source: Source | None) -> None:
        self._source = source
        if source is not None and self._paused:
            source.pause()

    def begin(self, notes: Notes) -> None:
        self._writer.start(200, [*self._headers, *_STREAM, *_note_headers(notes)])
        self._schedule()

    def emit(self, batch: Sequence[Event]) -> None:
        self._quiet = False
        self._writer.write(self._encode(batch))

    def close(self) -> None:
        self.leave()
        if self._done:
            self._writer.write(door.DONE)
        self._writer.finish()

    def refuse(self, error: ApiError) -> None:
        self.leave()
        error_answer(self._writer, error, self._headers)

    def leave(self) -> None:
        """The stream is over: no keep-alive, no references back."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._source = None
        self._writer.on_pause = self._writer.on_resume = None

    def _pause(self) -> None:
        self._paused = True
        if self._source is not None:
            self._source.pause()

    def _resume(self) -> None:
        self._paused = False
        if self._source is not None:
            self._source.resume()

    def _schedule(self) -> None:
        self._quiet = True
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(KEEP_ALIVE_SECONDS, self._keep_alive)

    def _keep_alive(self) -> None:
        if self._quiet and not self._paused:
            self._writer.write(b": keep-alive\n\n")
        self._schedule()


class JsonSink:
    """The terminal event's response, as one JSON body."""

    streams = False

    def __init__(self, writer: SendWriter, headers: HeaderList) -> None:
        self._writer = writer
        self._headers = headers
        self._notes = Notes([], [])
        self._last: Event | None = None

    def read_from(self, source: Source | None) -> None:
        """One body is written at the end: nobody has to wait for the client."""

    def begin(self, notes: Notes) -> None:
        self._notes = notes

    def emit(self, batch: Sequence[Event]) -> None:
        self._last = batch[-1]

    def close(self) -> None:
        if not isinstance(self._last, ResponseEvent) or self._last.response is None:
            raise RuntimeError("a turn ended without its terminal event")
        headers = [*self._headers, _JSON, *_note_headers(self._notes)]
        self._writer.respond(200, headers, self._last.response.encode())

    def refuse(self, error: ApiError) -> None:
        error_answer(self._writer, error, self._headers)

    def leave(self) -> None:
        """Nothing to stop."""
