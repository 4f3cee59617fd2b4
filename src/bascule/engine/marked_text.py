"""One text of the model with its markers taken out, as it comes.

Around a marker goes what was written for its sake:

- the blanks before it; where there are some on both sides, those with more line ends stay. At the text's
  start those behind it go, at its end all;
- a pair of `()`, `[]` or backticks around one or several, and commas between two.

Text in code is treated like any other: models put markers into backticks, and a fence that they forget to
close would let all further ones out.
"""

import re
from typing import Final

from bascule.engine.claims import Claims
from bascule.toolkit.markers import Marker, MarkerScanner

_PAIRS: Final = {"(": ")", "（": "）", "[": "]", "`": "`"}
_MOST: Final = 64
"""Characters before a marker that are held; more blanks than that are text."""
_INNER: Final = 2
"""Blanks between a bracket and its marker."""
_BETWEEN: Final = re.compile(r"(\s{0,64})(?:[,;，；、]\s{0,8})?")
_OPENING: Final = re.compile(r"[(（\[`]\s{0,2}")
_CLOSES: Final = frozenset(".,;:!?…)]}%\"'*_`”’»，。、；：！？）】」』")
"""Before these no blank is left."""
HELD: Final = frozenset(c for c in map(chr, range(0x3001)) if c.isspace()) | _PAIRS.keys()
"""A text that ends with one of these may have a part of it taken away by a marker."""


class _Group:
    """Markers with nothing but blanks, commas and brackets between them, and what is around them."""

    __slots__ = ("after", "before", "keys", "place", "raw", "size", "span")

    def __init__(self, before: str, place: int, raw: int, span: tuple[int, int]) -> None:
        self.before = before
        """Blanks, and perhaps a bracket that is open."""
        self.after = ""
        """What may still lead to a further marker."""
        self.keys: set[int] = set()
        self.place = place
        """In the text without markers."""
        self.raw = raw
        """In the model's text."""
        self.size = len(before)
        """Characters of the model's text."""
        self.span = span

    @property
    def opener(self) -> str:
        return self.before.strip()

    def add(self, text: str) -> None:
        self.after += text
        self.size += len(text)
        if opener := self.opener:
            inside = self.after.lstrip(" \t")
            near = len(self.after) - len(inside) <= _INNER
            if near and inside.startswith(_PAIRS[opener]):
                self.before = self.before[: self.before.index(opener)]
                self.after = inside[1:]

    def join(self) -> None:
        """One more marker: what is between it and the last goes."""
        between, self.after = self.after, ""
        if between.strip():
            if between.rstrip()[-1] in _PAIRS:
                self.before += between.rstrip()[-1]
        elif not self.opener:
            self.before = _more_lines(self.before, between)

    def leads_on(self) -> bool:
        """Whether a marker may still follow."""
        match = _BETWEEN.match(self.after)
        if not self.opener and match is not None:
            match = _OPENING.match(self.after, match.end()) or match
        return match is not None and match.end() == len(self.after)


class MarkedText:
    """Feed it the text as the model writes it."""

    __slots__ = (
        *("_claims", "_cuts", "_group", "_out", "_removed", "_scan", "_tail"),
        *("busy", "cited", "marks", "say"),
    )

    def __init__(self) -> None:
        self._claims = Claims()
        self._scan = MarkerScanner()
        self._tail = ""
        self._group: _Group | None = None
        self.busy = False
        """Whether something is held back."""
        self.say = self._claims.chunks.append
        """Takes a delta in which nothing is to be found or held, while nothing is held back."""
        self._out: list[str] = []
        self._removed = 0
        self._cuts: list[tuple[int, int, int, int]] = []
        """Start and end in the model's text, place in the other, and how much is left there."""
        self.marks: list[tuple[int, int]] = []
        """Where the markers were in the model's text."""
        self.cited: list[tuple[int, int, int]] = []
        """Each number of a marker, once in a group of adjacent ones, with the span of its claim, which
        has been given out, or is by this feed. For somebody to take."""

    @property
    def text(self) -> str:
        """Without markers, as far as it is sure."""
        return "".join(self._claims.chunks)

    @property
    def held(self) -> int:
        """Characters at the end of the model's text that are not sure yet."""
        group = 0 if self._group is None else self._group.size
        return len(self._scan.held) + len(self._tail) + group

    @property
    def received(self) -> int:
        """Characters of the model's text so far."""
        return self._claims.length + self._removed + self.held

    def feed(self, delta: str) -> str:
        """What may be given out now."""
        if self._group is None and not self._scan.held and "[" not in delta and "【" not in delta:
            said = self._sure(delta)
            self.busy = bool(self._tail)
            if said:
                self.say(said)
            return said
        for piece in self._scan.feed(delta):
            self._take(piece)
        self.busy = bool(self._tail or self._scan.held or self._group is not None)
        return self._said()

    def finish(self) -> str:
        """The text ends: what was held back. Feed it nothing more."""
        last = self._scan.finish()
        if last is not None:
            self._take(last)
        group = self._group
        if group is not None:
            if group.after.strip():
                self._leave(group)
            else:
                self._cut(group, "", group.size)
        self._say(self._tail)
        self._tail = ""
        self.busy = False
        return self._said()

    def place(self, raw: int) -> int | None:
        """Where a place of the model's text is in the text without markers: one that has gone, where
        it was. None for one that is not sure yet."""
        if raw > self._claims.length + self._removed:
            return None
        for start, end, place, left in reversed(self._cuts):
            if raw >= end:
                return place + left + raw - end
            if raw > start:
                return place + min(left, raw - start)
        return raw

    # --- pieces

    def _take(self, piece: str | Marker) -> None:
        if isinstance(piece, Marker):
            self._mark(piece)
        elif self._group is None:
            self._say(self._sure(piece))
        else:
            self._group.add(piece)
            if not self._group.leads_on():
                self._leave(self._group)

    def _sure(self, text: str) -> str:
        """Without the end that may go with a marker, which is held."""
        if self._tail:
            text = self._tail + text
        body = text.rstrip()
        if body and body[-1] in _PAIRS and len(text) - len(body) <= _INNER:
            body = body[:-1].rstrip()
        sure = max(len(body), len(text) - _MOST)
        self._tail = text[sure:]
        return text[:sure]

    def _mark(self, marker: Marker) -> None:
        group = self._group
        if group is None:
            span = self._claims.span()
            place = self._claims.length
            group = self._group = _Group(self._tail, place, place + self._removed, span)
            self._tail = ""
        else:
            group.join()
        at = group.raw + group.size
        self.marks.append((at, at + marker.size))
        group.size += marker.size
        for key in marker.keys:
            if key not in group.keys:
                group.keys.add(key)
                self.cited.append((key, *group.span))

    def _leave(self, group: _Group) -> None:
        """Text follows that belongs to no marker."""
        match = _BETWEEN.match(group.after)
        blanks = "" if match is None else match[1]
        rest = group.after[len(blanks) :]
        if group.opener:
            kept = group.before.rstrip()
        elif not group.place:
            kept = group.before
        elif blanks:
            kept = _more_lines(group.before, blanks)
        else:
            kept = "" if rest[0] in _CLOSES else group.before
        self._cut(group, kept, group.size - len(rest))
        self._say(self._sure(rest))

    def _cut(self, group: _Group, kept: str, size: int) -> None:
        self._cuts.append((group.raw, group.raw + size, group.place, len(kept)))
        self._removed += size - len(kept)
        self._group = None
        self._say(kept)

    def _say(self, text: str) -> None:
        if text:
            self.say(text)
            self._out.append(text)

    def _said(self) -> str:
        out = "".join(self._out)
        self._out.clear()
        return out


def _more_lines(before: str, behind: str) -> str:
    return before if before.count("\n") > behind.count("\n") else behind
