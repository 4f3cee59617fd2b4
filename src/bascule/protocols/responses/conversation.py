"""Conversations on the wire: their ids, their requests, their objects.

Source: openai-python 3.57 and recordings.
"""

from collections.abc import Callable
from typing import Any, Final

import msgspec
from msgspec import Raw

from bascule.protocols import json
from bascule.protocols.errors import ApiError, invalid
from bascule.protocols.responses.items import Item, read_items
from bascule.protocols.responses.metadata import Metadata


class _Reference(msgspec.Struct):
    id: str


_id = json.decoder(str)
_reference = json.decoder(_Reference)
_metadata: Callable[[bytes | Raw], Any] = msgspec.json.Decoder(Metadata).decode


def read_conversation(raw: Raw, param: str) -> str:
    """The field of a request: an id, or an object with one."""
    if json.opens_with(raw, b"{"):
        return check_id(json.field(_reference, raw, param).id, f"{param}.id")
    return check_id(json.field(_id, raw, param), param)


def check_id(id_: str, param: str, prefix: str = "conv") -> str:
    """Raises ApiError 400 for an id that cannot be of this kind."""
    if not id_.startswith(prefix):
        raise invalid(
            f"Invalid '{param}': '{id_}'. Expected an ID that begins with '{prefix}'.",
            param,
            "invalid_value",
        )
    return id_


_PREFIXES: Final = {
    "message": "msg",
    "reasoning": "rs",
    "function_call": "fc",
    "function_call_output": "fc",
    "custom_tool_call": "ct",
    "custom_tool_call_output": "ct",
}


def _items(raw: Raw, param: str) -> list[Item]:
    items = read_items(raw, param)
    for i, item in enumerate(items):
        prefix = _PREFIXES.get(item.type)
        if item.id is not None and prefix is not None:
            check_id(item.id, f"{param}[{i}].id", prefix)
    return items


def _read_metadata(raw: Raw, param: str) -> bytes:
    json.field(_metadata, raw, param)
    return bytes(raw)


class ConversationRequest(msgspec.Struct):
    """A body of any of the requests; `ignored` names unknown fields."""

    items: list[Item] | None = None
    metadata: bytes | None = None
    ignored: list[str] = []


_FIELDS: Final[dict[str, Callable[[Raw, str], Any]]] = {
    "items": _items,
    "metadata": _read_metadata,
}


def decode_request(
    body: bytes, allowed: tuple[str, ...], required: str = ""
) -> ConversationRequest:
    """A body with the fields `allowed`; null leaves one out, but for the required one, whose null
    says that it is empty. Raises ApiError 400."""
    request = ConversationRequest()
    fields = json.envelope(body) if body.strip() else {}
    for name, raw in fields.items():
        if name not in allowed:
            request.ignored.append(name)
        elif not json.is_null(raw):
            setattr(request, name, _FIELDS[name](raw, name))
    if required and required not in fields:
        raise invalid(
            f"Missing required parameter: '{required}'.", required, "missing_required_parameter"
        )
    return request


def show_conversation(id_: str, created_at: int, metadata: bytes) -> bytes:
    """The conversation object."""
    return b'{"id":%b,"object":"conversation","created_at":%d,"metadata":%b}' % (
        json.encode(id_),
        created_at,
        metadata,
    )


def show_deleted(id_: str) -> bytes:
    return json.encode({"id": id_, "object": "conversation.deleted", "deleted": True})


def conversation_not_found(id_: str, param: str) -> ApiError:
    return ApiError(
        404,
        f"Conversation with id '{id_}' not found.",
        param=param,
        code="conversation_not_found",
        type="invalid_request_error",
    )


def item_not_found(id_: str, param: str) -> ApiError:
    """Of lists and conversations."""
    return ApiError(
        404, f"No item found with id '{id_}'", param=param, type="invalid_request_error"
    )


def already_in_conversation(param: str) -> ApiError:
    return invalid("Item already in conversation", param, "item_already_in_conversation")


def conversation_locked(id_: str) -> ApiError:
    """Somebody else is at work on it: worth another try."""
    return ApiError(
        409,
        f"Another process is currently operating on conversation '{id_}'. Retry in a few seconds.",
        param="conversation",
        code="conversation_locked",
        retry_after="1",
    )
