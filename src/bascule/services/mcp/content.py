"""What a server gives, apart from the SDK's types: these are closed, and servers go ahead of them."""

from collections.abc import Sequence
from typing import Any, Final, Literal, cast

import msgspec
from msgspec import Raw

from bascule.protocols import json

KNOWN: Final = frozenset({"text", "image", "audio", "resource", "resource_link"})
UNKNOWN: Final = "bascule/unknown"
"""Marks a text that is the JSON of a content block which the SDK does not know."""


class McpTool(msgspec.Struct, frozen=True):
    """A tool as its server lists it. `read_only` is the server's own word, false if it says nothing."""

    name: str
    description: str
    input_schema: Raw
    read_only: bool


class Content(msgspec.Struct, frozen=True, omit_defaults=True):
    """A block of a result. `data` is base64; `uri` names a resource. `json` is a block of a type that
    nobody here knows, as its JSON in `text`."""

    kind: Literal["text", "image", "audio", "resource", "link", "json"]
    text: str | None = None
    data: str | None = None
    mime_type: str | None = None
    uri: str | None = None
    name: str | None = None


class McpResult(msgspec.Struct, frozen=True):
    """The outcome of a call as the server has it: `is_error` is the tool's own failure."""

    content: Sequence[Content]
    structured: Raw | None = None
    is_error: bool = False


def with_known_content(result: Any) -> Any:
    """A result of `tools/call` in which blocks of unknown types are texts: their JSON, marked."""
    members = cast("dict[str, Any]", result) if isinstance(result, dict) else {}
    content: Any = members.get("content")
    if not isinstance(content, list):
        return cast("Any", result)
    blocks = cast("list[Any]", content)
    if all(_is_known(block) for block in blocks):
        return members
    return {**members, "content": [b if _is_known(b) else _marked(b) for b in blocks]}


def _is_known(block: Any) -> bool:
    return isinstance(block, dict) and cast("dict[str, Any]", block).get("type") in KNOWN


def _marked(block: Any) -> dict[str, Any]:
    text = json.encode(block).decode()
    return {"type": "text", "text": text, "_meta": {UNKNOWN: True}}
