"""Reads the regular part of Rust's regular expressions.

Perl's classes become their ASCII part, which is narrower: what a model writes under it matches the
original. Where that would make a class wider, and for assertions within the text, nothing is converted.
"""

import re
from typing import Final

from bascule.protocols.gbnf.nodes import (
    EMPTY,
    MAX_CODE,
    Chars,
    Node,
    Repeat,
    Text,
    Unconvertible,
    choice,
    folded,
    sequence,
)

_MAX_DEPTH: Final = 50
_MAX_FOLDED: Final = 500
"""Characters of a class in any case."""
# Sorted, by their letters.
_PERL: Final[dict[str, tuple[tuple[int, int], ...]]] = {
    "d": ((0x30, 0x39),),
    "D": ((0x00, 0x2F), (0x3A, 0x7F)),
    "w": ((0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A)),
    "W": ((0x00, 0x2F), (0x3A, 0x40), (0x5B, 0x5E), (0x60, 0x60), (0x7B, 0x7F)),
    "s": (
        *((0x09, 0x0D), (0x20, 0x20), (0x85, 0x85), (0xA0, 0xA0), (0x1680, 0x1680)),
        *((0x2000, 0x200A), (0x2028, 0x2029), (0x202F, 0x202F), (0x205F, 0x205F)),
        (0x3000, 0x3000),
    ),
    "S": (
        *((0x00, 0x08), (0x0E, 0x1F), (0x21, 0x84), (0x86, 0x9F), (0xA1, 0x167F)),
        *((0x1681, 0x1FFF), (0x200B, 0x2027), (0x202A, 0x202E), (0x2030, 0x205E)),
        *((0x2060, 0x2FFF), (0x3001, 0xD7FF), (0xE000, MAX_CODE)),
    ),
}
_BOTH: Final = re.compile(r"\[\\(?:d\\D|D\\d|w\\W|W\\w|s\\S|S\\s)\]")
"""Ways to say any character at all."""
_ESCAPED: Final = {"n": 10, "r": 13, "t": 9, "f": 12, "v": 11, "a": 7}
_NEWLINE: Final = Chars(((10, 10),), negated=True)
_ANY: Final = Chars(((0, MAX_CODE),))
_REPEAT: Final = re.compile(r"\{(\d+)(?:(,)(\d*))?\}")
_HEX: Final = re.compile(
    r"x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|[xuU]\{([0-9A-Fa-f]+)\}"
)
_GROUP: Final = re.compile(r"\?(?:P?<[A-Za-z_]\w*>|([a-zA-Z]*):)")
_FLAGS: Final = re.compile(r"\(\?([a-zA-Z]+)\)")
_META: Final = frozenset("()[]{}?*+|.^$\\")


def read_regex(pattern: str, flags: str = "") -> Node:
    """The language of the whole text. Raises Unconvertible."""
    return _Reader(pattern, flags).whole()


class _Reader:
    def __init__(self, pattern: str, flags: str) -> None:
        leading = _FLAGS.match(pattern)
        if leading is not None:
            flags, pattern = flags + leading[1], pattern[leading.end() :]
        if set(flags) - set("isu"):
            raise Unconvertible(f"the flags {flags!r}")
        self._fold = "i" in flags
        self._dot = _ANY if "s" in flags else _NEWLINE
        self._pattern = pattern
        self._at = 0
        self._depth = 0

    def whole(self) -> Node:
        node = self._options()
        if self._at < len(self._pattern):
            raise Unconvertible("a bracket that closes nothing")
        return node

    def _next(self) -> str:
        return self._pattern[self._at] if self._at < len(self._pattern) else ""

    def _options(self) -> Node:
        options = [self._sequence()]
        while self._next() == "|":
            self._at += 1
            options.append(self._sequence())
        return choice(options)

    def _sequence(self) -> Node:
        parts: list[Node] = []
        self._anchor(("^", r"\A"), begins=True)
        while self._next() not in ("", "|", ")"):
            if self._anchor(("$", r"\z"), begins=False):
                break
            parts.append(self._repeated(self._atom()))
        return sequence(parts) if parts else EMPTY

    def _anchor(self, signs: tuple[str, str], *, begins: bool) -> bool:
        """At an end of the whole text an anchor says nothing; elsewhere it is not regular."""
        for sign in signs:
            if self._pattern.startswith(sign, self._at) and self._depth == 0:
                rest = self._pattern[self._at + len(sign) :]
                if not begins and rest and not rest.startswith("|"):
                    break
                self._at += len(sign)
                return True
        return False

    def _atom(self) -> Node:
        c = self._next()
        self._at += 1
        if c == "(":
            return self._group()
        if c == "[":
            return self._class()
        if c == ".":
            return self._dot
        if c == "\\":
            return self._escape()
        if c in _META:
            raise Unconvertible(f"{c!r} at this place")
        return folded(c) if self._fold else Text(c)

    def _group(self) -> Node:
        if self._next() == "?":
            head = _GROUP.match(self._pattern, self._at)
            if head is None or head[1]:
                raise Unconvertible("a group with flags or an assertion")
            self._at = head.end()
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise Unconvertible("groups nested too deeply")
        node = self._options()
        self._depth -= 1
        if self._next() != ")":
            raise Unconvertible("a group that is not closed")
        self._at += 1
        return node

    def _repeated(self, part: Node) -> Node:
        while True:
            bounds = self._bounds()
            if bounds is None:
                return part
            part = Repeat(part, *bounds)
            if self._next() == "?":
                self._at += 1  # which match is preferred makes no other language

    def _bounds(self) -> tuple[int, int | None] | None:
        c = self._next()
        if c and c in "?*+":
            self._at += 1
            return int(c == "+"), 1 if c == "?" else None
        found = _REPEAT.match(self._pattern, self._at) if c == "{" else None
        if found is None:
            return None
        self._at = found.end()
        least = int(found[1])
        if found[2] is None:
            return least, least
        return least, int(found[3]) if found[3] else None

    def _escape(self) -> Node:
        perl = _PERL.get(self._next())
        if perl is not None:
            self._at += 1
            return Chars(perl)
        code = chr(self._code())
        return folded(code) if self._fold else Text(code)

    def _code(self) -> int:
        """The code point of an escape, behind its backslash."""
        c = self._next()
        found = _HEX.match(self._pattern, self._at)
        if found is not None:
            self._at = found.end()
            code = int(next(filter(None, found.groups())), 16)
            if code > MAX_CODE or 0xD800 <= code < 0xE000:
                raise Unconvertible("an escape for no character")
            return code
        self._at += 1
        if c in _ESCAPED:
            return _ESCAPED[c]
        if not c or c.isalnum():
            raise Unconvertible(rf"\{c}")
        return ord(c)

    def _class(self) -> Node:
        both = _BOTH.match(self._pattern, self._at - 1)
        if both is not None:
            self._at = both.end()
            return _ANY
        negated = self._next() == "^"
        self._at += negated
        ranges: list[tuple[int, int]] = []
        first = True
        while first or self._next() != "]":
            if self._pattern.startswith(("[", "&&", "--", "~~"), self._at) or not self._next():
                raise Unconvertible("a class within a class")
            ranges += self._member(negated=negated)
            first = False
        self._at += 1
        if self._fold:
            ranges += _other_cases(ranges)
        return Chars(tuple(ranges), negated)

    def _member(self, *, negated: bool) -> tuple[tuple[int, int], ...]:
        sign = self._pattern[self._at + 1 : self._at + 2] if self._next() == "\\" else ""
        if sign and sign in "dwsDWSpPbB":
            if sign in "pPbB" or (negated and sign not in "sS"):
                raise Unconvertible(rf"\{sign} in a class")
            self._at += 2
            return _PERL[sign]
        low = self._class_code()
        if self._next() != "-" or self._pattern[self._at + 1 : self._at + 2] == "]":
            return ((low, low),)
        self._at += 1
        high = self._class_code()
        if high < low:
            raise Unconvertible("a range that runs backwards")
        return ((low, high),)

    def _class_code(self) -> int:
        c = self._next()
        self._at += 1
        if c == "\\":
            return self._code()
        if not c:
            raise Unconvertible("a class that is not closed")
        return ord(c)


def _other_cases(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same letters in the other case."""
    if sum(high - low for low, high in ranges) > _MAX_FOLDED:
        raise Unconvertible("so many characters in any case")
    others: list[tuple[int, int]] = []
    for low, high in ranges:
        for code in range(low, high + 1):
            c = chr(code)
            forms = {c.lower(), c.upper()} - {c}
            others += [(ord(form), ord(form)) for form in sorted(forms) if len(form) == 1]
    return others
