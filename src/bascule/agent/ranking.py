"""Which tools a search means: BM25 over names and descriptions, the name counting most."""

import math
import re
from collections import Counter
from collections.abc import Sequence
from typing import Final

_WORD: Final = re.compile(r"[A-Z]+s?(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_a-zA-Z]+")
_SATURATION: Final = 1.2
_LENGTH: Final = 0.75
_NAME_WEIGHT: Final = 3


def words(text: str) -> list[str]:
    """Parts of camelCase and snake_case names are words of their own, and so are numbers."""
    return [_stem(word.lower()) for word in _WORD.findall(text)]


class Ranking:
    """Documents are pairs of a name and a text about it."""

    def __init__(self, documents: Sequence[tuple[str, str]]) -> None:
        self._names: Final = [name.lower() for name, _ in documents]
        self._counts: Final = [
            Counter(words(name) * _NAME_WEIGHT + words(about)) for name, about in documents
        ]
        self._lengths: Final = [sum(counts.values()) for counts in self._counts]
        self._average: Final = sum(self._lengths) / max(len(documents), 1) or 1.0
        held = Counter(word for counts in self._counts for word in counts)
        size = len(documents)
        self._rarity: Final = {
            word: math.log(1 + (size - times + 0.5) / (times + 0.5)) for word, times in held.items()
        }

    def best(self, query: str, limit: int) -> list[int]:
        """Places of the documents that have a word of the query, the best first. One whose whole name
        is asked for comes before all others."""
        wanted = set(words(query))
        scored: list[tuple[bool, float, int]] = []
        for at, counts in enumerate(self._counts):
            score = sum(self._score(word, counts, self._lengths[at]) for word in wanted)
            named = self._names[at] in query.lower()
            if score > 0 or named:
                scored.append((named, score, -at))
        return [-at for _, _, at in sorted(scored, reverse=True)[:limit]]

    def _score(self, word: str, counts: Counter[str], length: int) -> float:
        times = counts[word]
        if not times:
            return 0.0
        norm = _SATURATION * (1 - _LENGTH + _LENGTH * length / self._average)
        return self._rarity[word] * times * (_SATURATION + 1) / (times + norm)


def _stem(word: str) -> str:
    """Plurals are their singulars."""
    if len(word) > 2 and word.endswith("s") and not word.endswith("ss"):
        return word[:-3] + "y" if word.endswith("ies") else word[:-1]
    return word
