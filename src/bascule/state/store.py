"""The port to stored responses and items."""

from collections.abc import Sequence
from typing import Protocol

import msgspec


class ItemRow(msgspec.Struct, frozen=True, kw_only=True):
    """One stored item. `key` is the gateway's own and unique; `id` is the item's public id."""

    key: str
    id: str
    type: str
    data: bytes
    """The item's JSON object."""
    origin: bytes | None = None
    """What the upstream called it, as JSON: given back when the item returns to that upstream."""


class ResponseRow(msgspec.Struct, frozen=True, kw_only=True):
    """One stored response: an ordered list of item keys and its snapshot.

    The lists may name any stored item of the owner. What they name beyond the commit's own items
    and those of the response continued from (an item reference, a conversation's history) stays
    stored as long as this response does.
    """

    id: str
    owner: str
    """Digest of the API key; empty without authentication."""
    created_at: int
    """Unix seconds."""
    status: str
    model: str
    previous_response_id: str | None
    """The response continued from, stored or not. Where it is stored, `history` is its lists."""
    history: Sequence[str]
    """Keys of the items of earlier turns, in order."""
    input: Sequence[str]
    """Keys of this request's own input items."""
    output: Sequence[str]
    """Keys of the output items."""
    snapshot: bytes
    """The response object as JSON, with `output` empty."""
    state: bytes = b"{}"
    """What a continuation needs besides items, as JSON; opaque here."""


class Commit(msgspec.Struct, frozen=True, kw_only=True):
    """All that one turn writes, in one transaction: the response and its new items."""

    response: ResponseRow
    items: Sequence[ItemRow]


class Store(Protocol):
    """Every read names the owner; a foreign id behaves as an unknown one.

    Raises StoreError when the database cannot be used.
    """

    async def commit(self, turn: Commit) -> None:
        """Durable when it returns. Concurrent commits share a transaction; one that fails spoils
        no other. A commit that has begun goes on when its caller is cancelled.

        A response that exists already is replaced together with its lists; its `created_at` and
        `previous_response_id` stay. An item that exists already must be the same.

        Raises StoreError, and writes nothing of the turn, when an item's key holds another item,
        a list names an item that is neither stored nor in `items`, or the response's id is taken:
        by another owner, or by one that continues something else; or when an id is one that the
        database cannot hold (see `text.storable`). When the database goes away in the middle of a
        commit, StoreError may also mean that nobody knows whether it was written."""
        ...

    async def response(self, owner: str, response_id: str) -> ResponseRow | None: ...

    async def items(self, owner: str, keys: Sequence[str]) -> list[ItemRow]:
        """In the order of `keys`; a key that is missing raises StoreError."""
        ...

    async def find(self, owner: str, ids: Sequence[str]) -> dict[str, ItemRow]:
        """By public id; the newest where several rows have it. Unknown ids are left out."""
        ...

    async def delete_response(self, owner: str, response_id: str) -> bool:
        """False if there is none. Its items go with it, but for those that a response continued
        from it still needs; they go when the last such response goes."""
        ...

    async def expire(self, before: int, limit: int) -> int:
        """Deletes responses of all owners that were created before `before` (Unix seconds), no more
        than `limit` in one transaction, the youngest of them first; gives their number. A response
        that a younger one continues leaves the items that the younger one needs."""
        ...

    async def aclose(self) -> None:
        """Writes what is queued, then closes; every call after that raises StoreError."""
        ...


class StoreError(Exception):
    """The database could not be used, or what it holds is not whole."""
