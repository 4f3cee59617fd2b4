"""Lists of stored items: their body, and each item in its full form."""

from collections.abc import Collection, Sequence
from typing import Final

import msgspec
from msgspec import Raw

from bascule.protocols import json
from bascule.protocols.responses.include import gate

_members = json.decoder(dict[str, Raw])

_COMPLETED: Final = Raw(b'"completed"')
_WITH_STATUS: Final = frozenset(
    {
        "message",
        "function_call",
        "function_call_output",
        "custom_tool_call",
        "custom_tool_call_output",
    }
)


def shown(type_: str, data: bytes, include: Collection[str]) -> bytes:
    """A stored item as lists show it: with its status, text content as a part, and `include`
    gating the rest. Source: recordings of conversations."""
    if type_ in _WITH_STATUS:
        try:
            data = _whole(type_, data)
        except (msgspec.DecodeError, RecursionError):
            return data  # not built as its type says: shown as it came
    return gate(type_, data, include)


def _whole(type_: str, data: bytes) -> bytes:
    members = _members(data)
    changed = False
    if json.is_null(members.get("status", b"null")):
        members["status"] = _COMPLETED
        changed = True
    content = members.get("content") if type_ == "message" else None
    if content is not None and json.opens_with(content, b'"'):
        members["content"] = _part(content, members.get("role", Raw()))
        changed = True
    return json.encode(members) if changed else data


def _part(text: Raw, role: Raw) -> Raw:
    if bytes(role) == b'"assistant"':
        return Raw(b'[{"type":"output_text","text":%b,"annotations":[],"logprobs":[]}]' % text)
    return Raw(b'[{"type":"input_text","text":%b}]' % text)


def show_list(ids: Sequence[str], items: Sequence[bytes], *, more: bool) -> bytes:
    """The body of a page."""
    return b'{"object":"list","data":[%b],"first_id":%b,"last_id":%b,"has_more":%b}' % (
        b",".join(items),
        json.encode(ids[0] if ids else None),
        json.encode(ids[-1] if ids else None),
        b"true" if more else b"false",
    )
