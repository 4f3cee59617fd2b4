"""Log probabilities of a text of which the markers go: which tokens stay."""

from collections.abc import Sequence
from typing import Any

import msgspec

from bascule.protocols import json


class _Token(msgspec.Struct):
    token: str = ""


_token = json.decoder(_Token)

_Placed = tuple[int, int, Any]
"""Start and end in the model's text."""


class TokenPlaces:
    """The tokens of one text part, in order.

    A token with any character of a marker is left out; one that also holds something else takes that
    along, so the tokens that are left may spell a little less than the text, or, by a blank that went
    with its marker, more. Tokens of a delta that do not spell it are left out together if a marker
    touches it. Tokens go with the delta of the text that makes them sure; where none follows, the
    finished part alone has them.
    """

    def __init__(self, start: int = 0) -> None:
        """`start`: characters of the text before the first piece with tokens."""
        self._raw = start
        self._queue: list[_Placed] = []
        self._seen = 0
        self.kept: list[Any] = []

    def add(self, delta: str, tokens: Sequence[Any]) -> None:
        """A piece of the model's text, and its tokens."""
        self._seen += len(tokens)
        self._queue += _placed(self._raw, delta, tokens)
        self._raw += len(delta)

    def take(self, marks: Sequence[tuple[int, int]], held: int = 0) -> list[Any]:
        """Those that are sure, with so many characters still held."""
        sure = self._raw - held
        ready = 0
        while ready < len(self._queue) and self._queue[ready][1] <= sure:
            ready += 1
        taken = _unmarked(self._queue[:ready], marks)
        del self._queue[:ready]
        self.kept += taken
        return taken

    def final(
        self, text: str, tokens: Sequence[Any], marks: Sequence[tuple[int, int]]
    ) -> list[Any]:
        """What is left of all of a part's tokens, which may be more than its deltas had."""
        if self._seen:
            self.take(marks)
            return [*self.kept, *tokens[self._seen :]]
        return _unmarked(_placed(0, text, tokens), marks)


def _placed(start: int, text: str, tokens: Sequence[Any]) -> list[_Placed]:
    words = [_spelled(token) for token in tokens]
    end = start + len(text)
    if "".join(words) != text:
        return [(start, end, token) for token in tokens]
    placed: list[_Placed] = []
    for word, token in zip(words, tokens, strict=True):
        placed.append((start, start + len(word), token))
        start += len(word)
    return placed


def _spelled(token: Any) -> str:
    if not isinstance(token, msgspec.Raw):
        return str((json.as_object(token) or {}).get("token", ""))
    try:
        return _token(token).token
    except msgspec.DecodeError:
        return ""  # then its delta is not spelled


def _unmarked(placed: Sequence[_Placed], marks: Sequence[tuple[int, int]]) -> list[Any]:
    return [
        token
        for start, end, token in placed
        if not any(start < behind and end > mark for mark, behind in marks)
    ]
