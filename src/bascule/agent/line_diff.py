"""A unified diff of long files: lines that are unique on both sides are found at once, and only what lies
between them is compared with care."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from difflib import Match, SequenceMatcher
from typing import Final

_CONTEXT: Final = 3
_CAREFUL: Final = 4_000_000
"""Lines of one side times lines of the other that are compared with care; larger places are told as
replaced."""

Lines = Sequence[str]


def hunks(old: Lines, new: Lines) -> Iterator[str]:
    """The lines of a unified diff below its head, each as it is, with its end."""
    matcher = _Matcher(old, new)
    for group in matcher.get_grouped_opcodes(_CONTEXT):
        first, last = group[0], group[-1]
        yield f"@@ -{_range(first[1], last[2])} +{_range(first[3], last[4])} @@\n"
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                yield from (f" {line}" for line in old[i1:i2])
                continue
            yield from (f"-{line}" for line in old[i1:i2])
            yield from (f"+{line}" for line in new[j1:j2])


class _Matcher(SequenceMatcher[str]):
    """Finds the places that are the same in its own way; what follows from them is the library's."""

    def __init__(self, old: Lines, new: Lines) -> None:
        super().__init__(None, "", "", autojunk=False)
        self._old, self._new = old, new

    def get_matching_blocks(self) -> list[Match]:
        blocks = _merged(_blocks(self._old, self._new, 0, len(self._old), 0, len(self._new)))
        return [*blocks, Match(len(self._old), len(self._new), 0)]


def _blocks(old: Lines, new: Lines, i1: int, i2: int, j1: int, j2: int) -> Iterator[Match]:
    """What is the same within a part of each side, in order."""
    begin = 0
    while i1 + begin < i2 and j1 + begin < j2 and old[i1 + begin] == new[j1 + begin]:
        begin += 1
    if begin:
        yield Match(i1, j1, begin)
        i1, j1 = i1 + begin, j1 + begin
    end = 0
    while i1 < i2 - end and j1 < j2 - end and old[i2 - end - 1] == new[j2 - end - 1]:
        end += 1
    i2, j2 = i2 - end, j2 - end
    if i1 < i2 and j1 < j2:
        yield from _between(old, new, i1, i2, j1, j2)
    if end:
        yield Match(i2, j2, end)


def _between(old: Lines, new: Lines, i1: int, i2: int, j1: int, j2: int) -> Iterator[Match]:
    anchors = _anchors(old, new, i1, i2, j1, j2)
    if anchors:
        for i, j in anchors:
            if i < i1 or j < j1:
                continue  # it belongs to what was the same already
            yield from _blocks(old, new, i1, i, j1, j)
            yield Match(i, j, 1)
            i1, j1 = i + 1, j + 1
        yield from _blocks(old, new, i1, i2, j1, j2)
    elif (i2 - i1) * (j2 - j1) <= _CAREFUL:
        matcher = SequenceMatcher(None, old[i1:i2], new[j1:j2], autojunk=False)
        for i, j, size in matcher.get_matching_blocks():
            if size:
                yield Match(i1 + i, j1 + j, size)


def _anchors(old: Lines, new: Lines, i1: int, i2: int, j1: int, j2: int) -> list[tuple[int, int]]:
    """Lines that are there once on each side: the longest row of them that is in order on both."""
    theirs = _once(new, j1, j2)
    pairs = [
        (i, j) for line, i in _once(old, i1, i2).items() if (j := theirs.get(line)) is not None
    ]
    pairs.sort()
    tops: list[int] = []
    piles: list[int] = []
    before: list[int] = []
    for at, (_, j) in enumerate(pairs):
        pile = bisect_left(tops, j)
        before.append(piles[pile - 1] if pile else -1)
        if pile == len(tops):
            tops.append(j)
            piles.append(at)
        else:
            tops[pile], piles[pile] = j, at
    row: list[tuple[int, int]] = []
    at = piles[-1] if piles else -1
    while at >= 0:
        row.append(pairs[at])
        at = before[at]
    return row[::-1]


def _once(lines: Lines, start: int, stop: int) -> dict[str, int]:
    """The places of lines that are there once."""
    places: dict[str, int] = {}
    for at in range(start, stop):
        line = lines[at]
        places[line] = -1 if line in places else at
    return {line: at for line, at in places.items() if at >= 0}


def _merged(blocks: Iterator[Match]) -> Iterator[Match]:
    """Neighbours are one."""
    last: Match | None = None
    for block in blocks:
        if last is not None and (last.a + last.size, last.b + last.size) == (block.a, block.b):
            last = Match(last.a, last.b, last.size + block.size)
            continue
        if last is not None:
            yield last
        last = block
    if last is not None:
        yield last


def _range(start: int, stop: int) -> str:
    """As diffs say where something is: from 1, and an empty place by the line before it."""
    length = stop - start
    if length == 1:
        return f"{start + 1}"
    return f"{start + 1 if length else start},{length}"
