"""Text that every database can hold: what a request brings may be something else."""

from collections.abc import Sequence
from typing import Final

from bascule.state.store import Commit, StoreError

MAX_ID_BYTES: Final = 1024
"""Of an id in UTF-8: an entry of PostgreSQL's index has 2700 bytes, of which the owner needs some."""


def storable(text: str) -> bool:
    """Whether an id can be stored: it is `holdable`, and no longer than MAX_ID_BYTES."""
    return (
        len(text) <= MAX_ID_BYTES
        and holdable(text)
        and (text.isascii() or len(text.encode()) <= MAX_ID_BYTES)
    )


def holdable(text: str) -> bool:
    """Whether text of any length can be stored: PostgreSQL's has no NUL, and UTF-8 knows no half
    of a surrogate pair."""
    if "\0" in text:
        return False
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def check_keys(keys: Sequence[str]) -> None:
    """Raises StoreError where one of the keys cannot be that of a stored item."""
    if not holdable("".join(keys)):  # in one pass: a chain has thousands
        missing = sum(not holdable(key) for key in keys)
        raise StoreError(f"{missing} stored items are missing: no key has such characters")


def check_text(turn: Commit) -> None:
    """Raises StoreError for a turn that names something in a way no database could store."""
    row = turn.response
    if not (storable(row.id) and storable(row.previous_response_id or "")):
        raise StoreError("the id of a response cannot be stored")
    if not (holdable(row.model) and holdable(row.status)):
        raise StoreError("the name of a model cannot be stored")
    for item in turn.items:
        if not (storable(item.id) and storable(item.key) and holdable(item.type)):
            raise StoreError("the id, key or type of an item cannot be stored")
