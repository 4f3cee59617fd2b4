"""What a marker stands behind: the claim of which it names the source."""

import re
from typing import Final

_SENTENCE_END: Final = re.compile(
    r"[.!?…][\"'”’»)\]*_]*\s+(?=\S)|[。！？｡][”’」』）】]*\s*",
)
_BLOCK_MARKS: Final = re.compile(r"(?:\s+|(?:[-*+•>#|]+|[0-9]{1,3}[.)])(?:\s+|\Z))*")
_BEHIND_MARKER: Final = re.compile(r"[*_]*[\s,;:.!?…)\]}\"'”’»，。；：、！？｡」』）】]*")


class Claims:
    """Of one text, which it takes in pieces, as the client gets it.

    Places are counted in code points, as OpenAI does: in recordings they leave out of account how many
    bytes a character has. (Characters beyond U+FFFF, where UTF-16 would differ, occur in none of them.)
    """

    __slots__ = ("_base", "_first", "_last", "chunks")

    def __init__(self) -> None:
        self.chunks: list[str] = []
        """The text so far. To be appended to."""
        self._first = 0
        self._base = 0
        self._last: tuple[int, int] | None = None

    @property
    def length(self) -> int:
        """Of the text so far."""
        self.chunks[self._first :] = ["".join(self.chunks[self._first :])]
        return self._base + len(self.chunks[-1])

    def span(self) -> tuple[int, int]:
        """Start and end of the claim of a marker that stands at the text's end.

        It begins behind the sentence, line or marker before it, without list marks and the like, and
        ends where the text does, without blanks. A marker with nothing new before it shares the claim
        of the one before; without any text before it the claim is empty.
        """
        length = self.length
        text = self.chunks[-1]
        found = _claim(text, behind_marker=self._last is not None)
        if found is not None:
            self._last = self._base + found[0], self._base + found[1]
        elif self._last is None:
            self._last = length, length
        self._base = length
        self._first = len(self.chunks)
        return self._last


def _claim(text: str, *, behind_marker: bool) -> tuple[int, int] | None:
    end = len(text.rstrip())
    floor = _skipped(_BEHIND_MARKER, text, 0, end) if behind_marker else 0
    while end > floor:
        line = max(floor, text.rfind("\n", 0, end) + 1)
        start = _skipped(_BLOCK_MARKS, text, line, end)
        for match in _SENTENCE_END.finditer(text, start, end):
            # Before a small letter no sentence ends: `e.g. this`, `the U.S. economy`.
            if match.end() < end and not text[match.end()].islower():
                start = match.end()
        if start < end:
            return start, end
        end = len(text[:line].rstrip())
    return None


def _skipped(pattern: re.Pattern[str], text: str, start: int, end: int) -> int:
    match = pattern.match(text, start, end)
    return start if match is None else match.end()
