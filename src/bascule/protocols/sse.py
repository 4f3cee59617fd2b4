"""Server-sent events: a reader for any stream that follows the WHATWG rules.

The reader takes CRLF, LF and CR line ends, an optional space after the colon, comments, several
`data` lines (joined by a newline), a byte order mark and a split at any byte. `id` and `retry` are
read over: the protocols here do not use them.
"""

from typing import Final

Frame = tuple[bytes, bytes]
"""The event's name (empty if none was given) and its data."""

DEFAULT_LIMIT: Final = 32 * 1024 * 1024
_BOM: Final = b"\xef\xbb\xbf"


class SseTooLong(ValueError):
    """One event is larger than the limit."""


class SseReader:
    """`feed` gives the frames that are complete; `finish` a last one without its blank line."""

    def __init__(self, limit: int = DEFAULT_LIMIT) -> None:
        self._limit = limit
        self._pending: list[bytes] = []
        self._size = 0
        self._line_ended = False
        self._held = False
        self._first = True
        self._plain = False

    def feed(self, data: bytes) -> list[Frame]:
        """Raises SseTooLong."""
        if self._plain and data[-2:] == b"\n\n" and b"\r" not in data:
            # Whole events in a read, as nearly always: nothing to keep. Mostly it is one.
            if data.find(b"\n") == len(data) - 2 and data[:6] == b"data: ":
                return [(b"", data[6:-2])]
            return self._frames(data[:-2].split(b"\n\n"))
        if self._held:
            self._held = False
            data = b"\r" + data
        if b"\r" in data:
            data = self._normalise(data)
        if self._pending:
            # Joining for each read would take quadratic time on a long event.
            if not (b"\n\n" in data or (self._line_ended and data[:1] == b"\n")):
                self._keep(data)
                return []
            data = b"".join((*self._pending, data))
            self._pending.clear()
        return self._split(data)

    def finish(self) -> list[Frame]:
        """What a stream that ended without the last blank line still holds."""
        rest = b"".join(self._pending)
        self._pending.clear()
        return self._split(rest + b"\n\n")

    def _normalise(self, data: bytes) -> bytes:
        if data.endswith(b"\r"):  # may be the first half of CRLF
            self._held = True
            data = data[:-1]
        return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _keep(self, data: bytes) -> None:
        if data:
            self._pending.append(data)
            self._size += len(data)
            self._line_ended = data.endswith(b"\n")
            if self._size > self._limit:
                raise SseTooLong(f"an event of more than {self._limit} bytes")

    def _split(self, data: bytes) -> list[Frame]:
        blocks = data.split(b"\n\n")
        rest = blocks.pop()
        self._size = 0
        self._keep(rest)
        if self._first and blocks:
            self._first = False
            blocks[0] = blocks[0].removeprefix(_BOM)
        self._plain = not (self._first or self._held or self._pending)
        return self._frames(blocks)

    def _frames(self, blocks: list[bytes]) -> list[Frame]:
        frames: list[Frame] = []
        for block in blocks:
            if block[:6] == b"data: " and b"\n" not in block:
                frames.append((b"", block[6:]))
            else:
                frame = _parse(block)
                if frame is not None:
                    frames.append(frame)
        return frames


def _parse(block: bytes) -> Frame | None:
    name = b""
    data: list[bytes] = []
    for line in block.split(b"\n"):
        key, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if key == b"data":
            data.append(value)
        elif key == b"event":
            name = value
    return (name, b"\n".join(data)) if data else None
