"""The part of a SQL store that every adapter does the same way."""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from sqlalchemy import Connection

from bascule.state import conversing
from bascule.state.reading import find_keys
from bascule.state.store import Addition, Conversation, ConversationRow, ItemRow, Page
from bascule.state.text import storable

T = TypeVar("T")


class ConversationMethods:
    """Conversations, given a way to read and a way to change."""

    @abstractmethod
    async def _read(self, read: Callable[[Connection], T]) -> T:
        """Runs in a transaction of one snapshot."""

    @abstractmethod
    async def _change(self, run: Callable[[Connection], bool]) -> bool:
        """Runs in a transaction that is committed when it returns."""

    async def keys_of(self, owner: str, public_id: str) -> list[str]:
        """See the port."""
        if not storable(public_id):
            return []
        return await self._read(partial(find_keys, owner=owner, public_id=public_id))

    async def create_conversation(
        self, row: ConversationRow, items: Sequence[ItemRow], keys: Sequence[str]
    ) -> None:
        """See the port."""
        await self._change(partial(conversing.create_conversation, row=row, items=items, keys=keys))

    async def conversation(self, owner: str, conversation_id: str) -> ConversationRow | None:
        """See the port."""
        if not storable(conversation_id):
            return None
        return await self._read(
            partial(conversing.read_conversation, owner=owner, conversation_id=conversation_id)
        )

    async def load_conversation(self, owner: str, conversation_id: str) -> Conversation | None:
        """See the port."""
        if not storable(conversation_id):
            return None
        return await self._read(
            partial(conversing.load_conversation, owner=owner, conversation_id=conversation_id)
        )

    async def set_conversation_metadata(
        self, owner: str, conversation_id: str, metadata: bytes
    ) -> bool:
        """See the port."""
        return storable(conversation_id) and await self._change(
            partial(
                conversing.set_metadata,
                owner=owner,
                conversation_id=conversation_id,
                metadata=metadata,
            )
        )

    async def delete_conversation(self, owner: str, conversation_id: str) -> bool:
        """See the port."""
        return storable(conversation_id) and await self._change(
            partial(conversing.delete_conversation, owner=owner, conversation_id=conversation_id)
        )

    async def add_to_conversation(
        self, owner: str, addition: Addition, items: Sequence[ItemRow], created_at: int
    ) -> None:
        """See the port."""
        await self._change(
            partial(
                conversing.add, owner=owner, addition=addition, items=items, created_at=created_at
            )
        )

    async def conversation_page(
        self,
        owner: str,
        conversation_id: str,
        *,
        limit: int,
        after: str | None = None,
        descending: bool = False,
    ) -> Page | None:
        """See the port."""
        if after is not None and not storable(after):
            return None
        return await self._read(
            partial(
                conversing.read_page,
                owner=owner,
                conversation_id=conversation_id,
                limit=limit,
                after=after,
                descending=descending,
            )
        )

    async def conversation_item(
        self, owner: str, conversation_id: str, public_id: str
    ) -> ItemRow | None:
        """See the port."""
        if not storable(public_id):
            return None
        return await self._read(
            partial(
                conversing.find_in_conversation,
                owner=owner,
                conversation_id=conversation_id,
                public_id=public_id,
            )
        )

    async def remove_from_conversation(
        self, owner: str, conversation_id: str, public_id: str
    ) -> bool:
        """See the port."""
        return storable(public_id) and await self._change(
            partial(
                conversing.remove_item,
                owner=owner,
                conversation_id=conversation_id,
                public_id=public_id,
            )
        )
