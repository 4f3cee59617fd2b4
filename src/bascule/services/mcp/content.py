"""What a server gives, apart from the SDK's types: these are closed, and servers go ahead of them."""

from collections.abc import Sequence
from typing import Any, Final, Literal, cast

import msgspec
from mcp_types import CallToolResult, TextContent, Tool
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


def tool_of(tool: Tool) -> McpTool:
    read_only = tool.annotations is not None and tool.annotations.read_only_hint is True
    schema = Raw(json.encode(tool.input_schema))
    return McpTool(tool.name, tool.description or "", schema, read_only)


def result_of(result: CallToolResult) -> McpResult:
    structured = result.structured_content
    return McpResult(
        [content_of(block) for block in result.content],
        None if structured is None else Raw(json.encode(structured)),
        bool(result.is_error),
    )


def content_of(block: Any) -> Content:
    """Of a content block, or of the contents of a resource."""
    if isinstance(block, TextContent):
        kind = "json" if block.meta and UNKNOWN in block.meta else "text"
        return Content(kind, text=block.text)
    kind: str = getattr(block, "type", "resource")
    if kind in ("image", "audio"):
        media: Literal["image", "audio"] = "image" if kind == "image" else "audio"
        return Content(media, data=block.data, mime_type=block.mime_type)
    if kind == "resource_link":
        return Content(
            "link",
            uri=str(block.uri),
            name=block.name,
            mime_type=block.mime_type,
            text=block.description,
        )
    inner = getattr(block, "resource", block)
    return Content(
        "resource",
        uri=str(inner.uri),
        mime_type=inner.mime_type,
        text=getattr(inner, "text", None),
        data=getattr(inner, "blob", None),
    )


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
