"""One writer at a time on each conversation of this process."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Final

from bascule.protocols.responses.conversation import conversation_locked

_TURN: Final = -1


class ConversationLocks:
    """A turn has a conversation to itself; changes of its items share it with one another.

    Nobody waits: who comes while another is at work gets ApiError 409 `conversation_locked`. What
    other processes do on the same database, the store finds out at the commit.
    """

    def __init__(self) -> None:
        self._held: dict[tuple[str, str], int] = {}

    def take(self, owner: str, conversation_id: str) -> Callable[[], None]:
        """For a turn; gives what ends it. Raises ApiError 409."""
        key = owner, conversation_id
        if key in self._held:
            raise conversation_locked(conversation_id)
        self._held[key] = _TURN
        return lambda: self._free(key)

    @contextmanager
    def changing(self, owner: str, conversation_id: str) -> Generator[None]:
        """For a change of the items. Raises ApiError 409."""
        key = owner, conversation_id
        count = self._held.get(key, 0)
        if count == _TURN:
            raise conversation_locked(conversation_id)
        self._held[key] = count + 1
        try:
            yield
        finally:
            self._held[key] -= 1
            if not self._held[key]:
                self._free(key)

    def _free(self, key: tuple[str, str]) -> None:
        self._held.pop(key, None)
