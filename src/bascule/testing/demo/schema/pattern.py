"""A string for a simple regular expression."""

import re

_CLASSES = {"d": "0", "w": "a", "s": " ", "D": "a", "W": "-", "S": "a"}
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "", "B": "", "A": "", "Z": ""}


def example(pattern: str, length: int = 0) -> str | None:
    """A shortest string that the pattern finds, repeated parts lengthened to reach `length`.

    None when the pattern is beyond this (look-around, back-references, Unicode classes).
    """
    for more in dict.fromkeys((0, length)):
        try:
            text = _Writer(pattern, more).alternatives()
            if len(text) >= length and re.search(pattern, text):
                return text
        except (ValueError, IndexError, re.error):
            return None
    return None


class _Writer:
    """Reads the pattern once from left to right and writes what it asks for."""

    def __init__(self, pattern: str, length: int) -> None:
        self._pattern = pattern
        self._length = length
        self._at = 0

    def alternatives(self) -> str:
        """The first alternative; the others are read over."""
        first = self._sequence()
        while self._peek() == "|":
            self._at += 1
            self._sequence()
        return first

    def _peek(self) -> str:
        return self._pattern[self._at : self._at + 1]

    def _next(self) -> str:
        char = self._pattern[self._at]
        self._at += 1
        return char

    def _sequence(self) -> str:
        written: list[str] = []
        while self._peek() not in ("", "|", ")"):
            atom = self._atom()
            written.append(atom * self._count(len(atom)))
        return "".join(written)

    def _atom(self) -> str:
        match self._next():
            case "^" | "$":
                return ""
            case ".":
                return "a"
            case "[":
                return self._set()
            case "(":
                return self._group()
            case "\\":
                return self._escape()
            case char:
                return char

    def _group(self) -> str:
        if self._peek() == "?":
            self._at += 1
            if self._next() != ":":
                raise ValueError("only plain groups are understood")
        inner = self.alternatives()
        if self._next() != ")":
            raise ValueError("a group is not closed")
        return inner

    def _escape(self) -> str:
        char = self._next()
        if char.isdigit() or char in "pPxuk":
            raise ValueError("this escape is not understood")
        return _CLASSES.get(char, _ESCAPES.get(char, char))

    def _set(self) -> str:
        start = self._at
        if self._peek() == "^":
            self._at += 1
        if self._peek() == "]":
            self._at += 1
        while self._peek() != "]":
            if self._next() == "\\":
                self._at += 1
        self._at += 1
        members = re.compile(f"[{self._pattern[start : self._at]}")
        candidates = "aA0-_. /:" + "".join(map(chr, range(33, 127)))
        found = [char for char in candidates if members.fullmatch(char)]
        return found[0]

    def _count(self, width: int) -> int:
        low, high = self._bounds()
        if self._peek() in ("?", "+") and (low, high) != (1, 1):
            self._at += 1
        wanted = -(-self._length // width) if width else low
        return max(low, min(high, wanted)) if self._length else low

    def _bounds(self) -> tuple[int, int]:
        many = 1 << 20
        match self._peek():
            case "*":
                self._at += 1
                return 0, many
            case "+":
                self._at += 1
                return 1, many
            case "?":
                self._at += 1
                return 0, 1
            case "{":
                found = re.match(r"\{(\d*)(,?)(\d*)\}", self._pattern[self._at :])
                if found is None:
                    return 1, 1
                self._at += found.end()
                low = int(found[1] or 0)
                return low, (int(found[3]) if found[3] else many) if found[2] else low
            case _:
                return 1, 1
