"""Where in a file the lines of a patch are: exactly, or nearly as the model has written them."""

from collections.abc import Callable, Sequence
from typing import Final

_LOOKALIKES: Final = str.maketrans(
    {
        **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "-"),
        **dict.fromkeys("\u2018\u2019\u201a\u201b", "'"),
        **dict.fromkeys("\u201c\u201d\u201e\u201f", '"'),
        **dict.fromkeys(
            "\u00a0\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000", " "
        ),
    }
)

Level = Callable[[str], str]


def _exact(line: str) -> str:
    return line


def _plain(line: str) -> str:
    """Without white space around it, with the ASCII signs for what looks like them."""
    return line.strip().translate(_LOOKALIKES)


LEVELS: Final[tuple[Level, ...]] = (_exact, str.rstrip, str.strip, _plain)
"""What of a line has to be the same, from the strictest on. The first that finds a place counts."""


class Lines:
    """A file's lines, compared at each level; what a level makes of them is made once."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._lines = lines
        self.size: Final = len(lines)
        self._made: dict[Level, Sequence[str]] = {_exact: lines}

    def find(self, wanted: Sequence[str], start: int, *, at_end: bool = False) -> int | None:
        """The first place from `start` on where the wanted lines stand; with `at_end` the end of the
        file first."""
        for level in LEVELS:
            found = self._find(level, [level(line) for line in wanted], start, at_end=at_end)
            if found is not None:
                return found
        return None

    def _find(self, level: Level, wanted: Sequence[str], start: int, *, at_end: bool) -> int | None:
        lines = self._made.get(level)
        if lines is None:
            lines = self._made[level] = [level(line) for line in self._lines]
        size, last = len(wanted), len(lines) - len(wanted)
        if last < start:
            return None
        if not wanted:
            return len(lines) if at_end else start
        if at_end and lines[last:] == wanted:
            return last
        first = wanted[0]
        for place in range(start, last + 1):
            if lines[place] == first and lines[place : place + size] == wanted:
                return place
        return None
