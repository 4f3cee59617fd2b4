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


class ConversationRow(msgspec.Struct, frozen=True, kw_only=True):
    """One stored conversation, without its items."""

    id: str
    owner: str
    created_at: int
    """Unix seconds."""
    metadata: bytes = b"{}"
    """A JSON object."""
    version: int = 0
    """Rises with every change of the items."""
    state: bytes = b"{}"
    """What a continuation needs besides items, as in a response; opaque here."""
    response_id: str | None = None
    """The last response that was stored with a turn of it."""


class Conversation(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation as a turn needs it, from one snapshot."""

    row: ConversationRow
    items: Sequence[ItemRow]
    """All, in order."""
    unkept: Sequence[str]
    """Keys of items that came after the last stored turn."""


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """Some items in the order asked for, and whether more follow."""

    items: Sequence[ItemRow]
    more: bool


class Addition(msgspec.Struct, frozen=True, kw_only=True):
    """What is added to the end of a conversation."""

    conversation_id: str
    keys: Sequence[str]
    """Items, stored or stored with it, in order."""
    version: int | None = None
    """The only version to which it may be added; None for any."""
    state: bytes | None = None
    """Takes the place of the conversation's; None leaves that."""


class Commit(msgspec.Struct, frozen=True, kw_only=True):
    """All that one turn writes, in one transaction: the response and its new items."""

    response: ResponseRow
    items: Sequence[ItemRow]
    addition: Addition | None = None
    """What the turn adds to its conversation."""
    parent_id: str | None = None
    """A response that keeps the history stored, where none is continued from: the one before in
    the same conversation. It need not exist any more."""
    unkept: Sequence[str] = ()
    """Keys of the history that `parent_id` does not keep."""


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
        database cannot hold (see `text.storable`). Which of these it was, one of the classes below
        says where a client can cause it. When the database goes away in the middle of a commit,
        StoreError may also mean that nobody knows whether it was written."""
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
        from it or a conversation still needs; they go when the last of these goes."""
        ...

    async def keys_of(self, owner: str, public_id: str) -> list[str]:
        """Keys of all items that have this public id."""
        ...

    async def create_conversation(
        self, row: ConversationRow, items: Sequence[ItemRow], keys: Sequence[str]
    ) -> None:
        """With new `items`, and `keys` of all that it begins with. Raises ItemGone."""
        ...

    async def conversation(self, owner: str, conversation_id: str) -> ConversationRow | None: ...

    async def load_conversation(self, owner: str, conversation_id: str) -> Conversation | None: ...

    async def set_conversation_metadata(
        self, owner: str, conversation_id: str, metadata: bytes
    ) -> bool:
        """False if there is none."""
        ...

    async def delete_conversation(self, owner: str, conversation_id: str) -> bool:
        """False if there is none. Items that no response needs go with it."""
        ...

    async def add_to_conversation(
        self, owner: str, addition: Addition, items: Sequence[ItemRow], created_at: int
    ) -> None:
        """Stores new `items` and adds `addition`, in one transaction.

        Raises ConversationGone, ConversationChanged, ItemInConversation, ItemGone; nothing is
        written then."""
        ...

    async def conversation_page(
        self,
        owner: str,
        conversation_id: str,
        *,
        limit: int,
        after: str | None = None,
        descending: bool = False,
    ) -> Page | None:
        """Items after the one with public id `after`; reads no more than it gives. None if that
        one is not in the conversation. Of an unknown conversation: an empty page."""
        ...

    async def conversation_item(
        self, owner: str, conversation_id: str, public_id: str
    ) -> ItemRow | None: ...

    async def remove_from_conversation(
        self, owner: str, conversation_id: str, public_id: str
    ) -> bool:
        """False if it is not there. The item itself goes where no response needs it."""
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

    loggable = True


class ConversationGone(StoreError):
    """The conversation that is written to does not exist."""


class ConversationChanged(StoreError):
    """The conversation is not any more as the writer saw it."""


class ItemInConversation(StoreError):
    """What is added is in the conversation already."""


class ItemGone(StoreError):
    """An item that is listed is not stored."""
