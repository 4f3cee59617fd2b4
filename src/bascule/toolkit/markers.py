"""How a model names its sources: the marker `[cite:3]`, what the model is told of it, and how it is found.

Small models write it in many ways. All of these are markers: `[cite:3,5]`, `[cite: 3; 5]`, `[CITE:3]`,
`[cite:3, cite:5]`, `【cite：3、5】`. Anything else is text, such as `[3]` or `[cite:3-5]`.
"""

import re
from typing import Final, NamedTuple

INSTRUCTION: Final = (
    "Cite the sources that you use: directly after each statement that a source supports, write its "
    "marker, such as [cite:1], or [cite:2,5] for several. Write no addresses of sources and no other "
    "marks or lists of references."
)
"""For the model, beside the sources that it may cite."""

_B: Final = "[ \t\u00a0\u3000]{0,3}"
_COLON: Final = "[:：]"
_COMMA: Final = "[,;，；、]"
_NUMBER: Final = "[0-9０-９]{1,6}"
_MORE: Final = f"{_B}{_COMMA}{_B}(?:cite{_B}{_COLON}{_B})?{_NUMBER}"
# Bounded, so that what has to be held back is bounded, too.
_BODY: Final = f"[\\[【]{_B}cite{_B}{_COLON}{_B}{_NUMBER}(?:{_MORE}){{0,31}}"
_MARKER: Final = re.compile(f"{_BODY}{_B}(?:{_COMMA}{_B})?[]】]", re.IGNORECASE)
_CITE: Final = f"(?:c(?:i(?:t(?:e{_B}(?:{_COLON}{_B})?)?)?)?)?"
_BEGUN: Final = re.compile(f"[\\[【]{_B}{_CITE}|{_BODY}{_B}(?:{_COMMA}{_B}{_CITE})?", re.IGNORECASE)
_DIGITS: Final = re.compile("[0-9０-９]+")
_BREAKS: Final = re.compile(r"\s+")


class Marker(NamedTuple):
    """One marker of a text."""

    keys: tuple[int, ...]
    """The numbers in it, in order; one may come twice."""
    size: int
    """Its length in characters."""


def without(text: str) -> str:
    """A stranger's text without markers, which would cite in the model's name. A sign stays where each
    was, so that what stood around one does not become another."""
    return _MARKER.sub("…", text)


def shown(key: int | None, url: str, title: str) -> str:
    """A source as the model reads it, over two lines. `key` is None for one that cannot be cited."""
    name = _BREAKS.sub(" ", without(title)).strip()
    marker = "" if key is None else f"[cite:{key}]"
    return f"{marker} {name}".strip() + f"\n{url}"


class MarkerScanner:
    """Finds the markers of a text that comes in pieces, cut anywhere."""

    __slots__ = ("held",)

    def __init__(self) -> None:
        self.held = ""
        """The end of the text, as long as it may still become a marker."""

    def feed(self, text: str) -> list[str | Marker]:
        """What is sure now."""
        text = self.held + text
        found: list[str | Marker] = []
        at = 0
        for match in _MARKER.finditer(text):
            if match.start() > at:
                found.append(text[at : match.start()])
            found.append(_marker(match[0]))
            at = match.end()
        begun = max(text.rfind("[", at), text.rfind("【", at))
        if begun < 0 or _BEGUN.fullmatch(text, begun) is None:
            begun = len(text)
        if begun > at:
            found.append(text[at:begun])
        self.held = text[begun:]
        return found

    def finish(self) -> str | Marker | None:
        """The text ends. A marker that is open is one if it has a number, else it is text."""
        held, self.held = self.held, ""
        if not held:
            return None
        return _marker(held) if _DIGITS.search(held) else held


def _marker(text: str) -> Marker:
    return Marker(tuple(int(number) for number in _DIGITS.findall(text)), len(text))
