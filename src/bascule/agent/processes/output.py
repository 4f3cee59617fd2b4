"""What a command prints: kept within limits, and as text that no terminal obeys."""

import codecs
import re
from collections import deque
from typing import Final

import msgspec

KEPT_BYTES: Final = 1024 * 1024
"""Of what was printed since the last time: half from the beginning, half from the end."""
TOKEN_BYTES: Final = 4
"""A token, where no tokenizer is asked."""

_ESCAPES: Final = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI
    r"|\x1b[\]PX^_].*?(?:\x07|\x1b\\)"  # OSC, DCS, SOS, PM, APC
    r"|\x1b[ -/]*[0-~]"
    r"|\x9b[0-?]*[ -/]*[@-~]",
    re.DOTALL,
)
_CONTROLS: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_UNFINISHED: Final = re.compile(
    r"(?:\x1b(?:\[[0-?]*[ -/]*|[\]PX^_][^\x07]*|[ -/]*)?|\x9b[0-?]*[ -/]*|\r)\Z", re.DOTALL
)
_LONGEST_ESCAPE: Final = 4096


def clean(text: str) -> str:
    """Without terminal control sequences and control characters; each kind of line end is a line feed."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if text.isascii() and text.isprintable():
        return text
    return _CONTROLS.sub("", _ESCAPES.sub("", text))


class Cleaner:
    """Text from bytes that come in pieces cut anywhere. What is no UTF-8 becomes U+FFFD."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held = ""

    def feed(self, data: bytes, *, last: bool = False) -> str:
        text = self._held + self._decoder.decode(data, last)
        self._held = ""
        if not last and (
            unfinished := _UNFINISHED.search(text, max(0, len(text) - _LONGEST_ESCAPE))
        ):
            self._held = unfinished[0]
            text = text[: unfinished.start()]
        return clean(text)


class Printed(msgspec.Struct, frozen=True):
    """What was printed since the last time: `size` bytes, of which the middle may be missing."""

    head: bytes
    tail: bytes
    size: int
    lines: int

    @property
    def left_out(self) -> int:
        return self.size - len(self.head) - len(self.tail)


class Printing:
    """Keeps the beginning and the end of what comes, whatever its size."""

    def __init__(self, kept: int = KEPT_BYTES) -> None:
        self._half: Final = max(kept // 2, 1)
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._tail_size = 0
        self._size = 0
        self._lines = 0

    @property
    def size(self) -> int:
        """Bytes since the last `take`."""
        return self._size

    def add(self, data: bytes) -> None:
        self._size += len(data)
        self._lines += data.count(b"\n")
        room = self._half - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        if not data:
            return
        self._tail.append(data)
        self._tail_size += len(data)
        while self._tail_size - len(self._tail[0]) >= self._half:
            self._tail_size -= len(self._tail.popleft())

    def take(self) -> Printed:
        """What there is, which is forgotten here."""
        tail = b"".join(self._tail)[-self._half :]
        printed = Printed(bytes(self._head), tail, self._size, self._lines)
        self._head.clear()
        self._tail.clear()
        self._tail_size = self._size = self._lines = 0
        return printed


def shown(printed: Printed, cleaner: Cleaner, max_tokens: int, *, last: bool) -> str:
    """What the model reads: all of it, or its beginning and its end with notices."""
    limit = max_tokens * TOKEN_BYTES
    if printed.size <= limit and not printed.left_out:
        return cleaner.feed(printed.head + printed.tail, last=last)
    whole = printed.head if not printed.tail else b""
    half = limit // 2
    head = (whole or printed.head)[:half]
    tail = (whole or printed.tail)[-half:] if half else b""
    beginning, end = Cleaner().feed(_whole_characters(head), last=True), Cleaner()
    ending = end.feed(_from_character(tail), last=True)
    cleaner.feed(b"", last=True)
    left_out = -(-(printed.size - len(head) - len(tail)) // TOKEN_BYTES)
    return (
        f"Warning: truncated output (original token count: {tokens(printed.size)})\n"
        f"Total output lines: {printed.lines}\n\n"
        f"{beginning}…{left_out} tokens truncated…{ending}"
    )


def tokens(size: int) -> int:
    """About how many tokens some bytes are."""
    return -(-size // TOKEN_BYTES)


def shortened(text: str, max_tokens: int) -> str:
    """A text within a limit, cut as a command's output is."""
    data = text.encode("utf-8", "replace")
    printed = Printed(data, b"", len(data), data.count(b"\n"))
    return (
        shown(printed, Cleaner(), max_tokens, last=True)
        if len(data) > max_tokens * TOKEN_BYTES
        else text
    )


def _whole_characters(data: bytes) -> bytes:
    """Without the beginning of a character at its end."""
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte & 0xC0 != 0x80:
            length = 1 if byte < 0xC0 else 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return data[:-back] if length > back else data
    return data


def _from_character(data: bytes) -> bytes:
    """Without the rest of a character at its beginning."""
    start = 0
    while start < min(3, len(data)) and data[start] & 0xC0 == 0x80:
        start += 1
    return data[start:]
