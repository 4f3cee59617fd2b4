"""Ids that the gateway mints. Prefixes help a reader; nothing routes on them."""

import os
import re
from collections.abc import Iterator
from typing import Final

_LETTERS = 40
_MINTED: Final = re.compile(r"[a-z]+_[0-9a-f]{40}")


def _random_letters() -> Iterator[str]:
    # Randomness is asked for in one call for a hundred ids.
    while True:
        letters = os.urandom(100 * _LETTERS // 2).hex()
        for at in range(0, len(letters), _LETTERS):
            yield letters[at : at + _LETTERS]


_letters = _random_letters()


def _after_fork() -> None:
    global _letters  # noqa: PLW0603 -- a child must not repeat its parent's ids
    _letters = _random_letters()


os.register_at_fork(after_in_child=_after_fork)


def mint(prefix: str) -> str:
    """A new id such as `msg_` and 40 hexadecimal digits."""
    return f"{prefix}_{next(_letters)}"


def is_minted(id_: str) -> bool:
    """Whether an id looks like one of ours. Servers that are asked to take it back would not know
    it; nothing else may rest on this."""
    return _MINTED.fullmatch(id_) is not None
