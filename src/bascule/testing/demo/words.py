"""Words of a text, made comparable: split, stemmed, without those that carry no meaning."""

import re
from functools import lru_cache

_PARTS = re.compile(r"[^\W\d_]+|\d+")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")

STOP = frozenset(
    [
        "a",
        "about",
        "all",
        "also",
        "am",
        "an",
        "and",
        "any",
        "are",
        "as",
        "at",
        "be",
        "been",
        "but",
        "by",
        "can",
        "could",
        "current",
        "currently",
        "demo",
        "do",
        "does",
        "for",
        "from",
        "get",
        "given",
        "gets",
        "give",
        "had",
        "has",
        "have",
        "hello",
        "hey",
        "hi",
        "how",
        "i",
        "if",
        "in",
        "into",
        "is",
        "it",
        "its",
        "just",
        "kindly",
        "let",
        "like",
        "may",
        "me",
        "might",
        "my",
        "need",
        "now",
        "of",
        "on",
        "one",
        "or",
        "our",
        "out",
        "please",
        "quick",
        "set",
        "shall",
        "she",
        "should",
        "show",
        "so",
        "some",
        "tell",
        "than",
        "that",
        "the",
        "their",
        "them",
        "then",
        "there",
        "these",
        "they",
        "this",
        "those",
        "to",
        "tool",
        "tools",
        "up",
        "us",
        "use",
        "used",
        "uses",
        "using",
        "very",
        "via",
        "want",
        "was",
        "we",
        "were",
        "what",
        "when",
        "where",
        "which",
        "who",
        "why",
        "will",
        "with",
        "would",
        "you",
        "your",
    ]
)

FAMILIES = (
    "run execute exec shell bash command terminal",
    "search find look lookup query",
    "read open cat view contents",
    "calculate compute sum add plus multiply times divide math calculator arithmetic",
    "weather temperature forecast rain sunny climate warm cold hot",
    "create make write generate draw save produce",
    "delete remove erase drop",
    "send email mail message post notify",
    "edit patch change modify fix update",
    "list directory folder files ls",
    "fetch download browse visit open url page website",
    "web internet online",
    "picture image photo drawing",
    "translate translation language",
    "schedule calendar meeting event appointment book",
)


def words(text: str) -> list[str]:
    """The words in order, lower case; names in camel or snake case are taken apart."""
    return [part.lower() for part in _PARTS.findall(_CAMEL.sub(" ", text))]


@lru_cache(maxsize=8192)
def stem(word: str) -> str:
    """The word without the commonest endings."""
    for ending in ("ations", "ation", "ings", "ing", "ies", "ers", "ed", "es", "er", "s", "e"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            word = word.removesuffix(ending)
            break
    return word.removesuffix("y") if len(word) > 3 else word


def stems(text: str) -> list[str]:
    """The stems of the words that mean something."""
    return [stem(word) for word in words(text) if word not in STOP and not word.isdigit()]


def _kin() -> dict[str, frozenset[str]]:
    table: dict[str, frozenset[str]] = {}
    for family in FAMILIES:
        members = frozenset(stem(word) for word in family.split())
        for member in members:
            table[member] = table.get(member, frozenset()) | members
    return table


KIN = _kin()
"""Stems of kindred meaning, for each stem that has any."""
