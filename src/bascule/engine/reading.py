"""What an item of a model server's answer says: the one place where the stages look into items."""

from collections.abc import Callable
from typing import Any, Final

import msgspec

from bascule.protocols import json
from bascule.protocols.responses.events import (
    AnnotationAdded,
    ContentPartAdded,
    ContentPartDone,
    OutputTextDone,
    PassedEvent,
    RefusalDone,
    RoundEvent,
)
from bascule.protocols.responses.items import (
    FunctionCallItem,
    ItemStatus,
    MessageItem,
    OpenItem,
    OutputText,
    Refusal,
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
    if isinstance(item, OpenItem) and item.type == "function_call":
        status: ItemStatus = "incomplete" if item.text("status") == "incomplete" else "completed"
        return CallRead(item.text("name"), item.text("arguments"), status)
    return None


def text_of(item: Any) -> str | None:
    """A message's text; None for an item that is no message."""
    message = message_of(item)
    if message is None:
        return None
    return "".join(part.text for part in message.content if isinstance(part, OutputText))


def message_of(item: Any) -> MessageItem | None:
    """A message as the gateway would make it; None for an item that is none, or that has other
    parts than text and refusals."""
    if isinstance(item, MessageItem):
        return item
    if not isinstance(item, OpenItem) or item.type != "message":
        return None
    try:
        return _message(item.encode())
    except msgspec.DecodeError:
        return None


def typed(event: RoundEvent) -> RoundEvent:
    """An event of a server that speaks Responses about a text, as the gateway would make it."""
    if not isinstance(event, PassedEvent) or event.name not in _TYPED:
        return event
    try:
        made = _TYPED[event.name](json.encode(event.members))
    except msgspec.DecodeError:
        return event
    made.output_index = event.output_index
    return made


def set_arguments(item: Any, arguments: str) -> None:
    """Give a call, for which `call_of` is not None, other arguments."""
    if isinstance(item, OpenItem):
        item.members["arguments"] = msgspec.Raw(json.encode(arguments))
    else:
        item.arguments = arguments


class _TextPart(ContentPartAdded, tag="response.content_part.added"):
    part: OutputText | Refusal | None = None


class _TextPartDone(ContentPartDone, tag="response.content_part.done"):
    part: OutputText | Refusal | None = None


_message = json.decoder(MessageItem)
_TYPED: Final[dict[str, Callable[[bytes], Any]]] = {
    str(type_.__struct_config__.tag): json.decoder(type_)
    for type_ in (_TextPart, _TextPartDone, OutputTextDone, RefusalDone, AnnotationAdded)
}
