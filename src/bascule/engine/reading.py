"""What an item of a model server's answer says: the one place where the stages look into items."""

from typing import Any

import msgspec

from bascule.protocols.responses.items import (
    FunctionCallItem,
    ItemStatus,
    MessageItem,
    OutputText,
)


class CallRead(msgspec.Struct, frozen=True):
    """A function call as it stands in an item."""

    name: str
    """The wire name."""
    arguments: str
    status: ItemStatus


def call_of(item: Any) -> CallRead | None:
    """None for an item that is no function call."""
    if isinstance(item, FunctionCallItem):
        return CallRead(item.name, item.arguments, item.status)
    return None


def text_of(item: Any) -> str | None:
    """A message's text; None for an item that is no message."""
    if isinstance(item, MessageItem):
        return "".join(part.text for part in item.content if isinstance(part, OutputText))
    return None


def set_arguments(item: Any, arguments: str) -> None:
    """Give a call, for which `call_of` is not None, other arguments."""
    item.arguments = arguments
