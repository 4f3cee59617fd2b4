"""`agent_message`: what one agent of the client's said to another."""

from collections.abc import Sequence
from typing import ClassVar

import msgspec

from bascule.protocols.responses.items import Flat, Item, Message
from bascule.toolkit.names import Ledger
from bascule.tools.items_only import ItemsOnly


class AgentPart(msgspec.Struct):
    """Text, or something encrypted for another server."""

    type: str
    text: str | None = None


class AgentMessage(msgspec.Struct):
    """View of an `agent_message`."""

    content: str | list[AgentPart]
    author: str | None = None
    recipient: str | None = None


class AgentMessageHandler(ItemsOnly):
    """The model must not take it for the user's word, so it does not come in the user's role."""

    item_types: ClassVar[frozenset[str]] = frozenset({"agent_message"})

    def flatten(self, item: Item, names: Ledger, param: str) -> Sequence[Flat]:
        view = item.view(AgentMessage, param)
        sender = view.author or "another agent"
        to = f" to {view.recipient}" if view.recipient else ""
        text = f"[Message from {sender}{to}, not from the user]\n{_text(view.content)}"
        return [Message("assistant", text)]


def _text(content: str | Sequence[AgentPart]) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(
        part.text if part.text is not None else f"(a part of type {part.type} cannot be read here)"
        for part in content
    )
