"""The SDK's results as this package has them."""

from typing import Any, Literal

from mcp_types import CallToolResult, TextContent, Tool
from msgspec import Raw

from bascule.protocols import json
from bascule.services.mcp.content import UNKNOWN, Content, McpResult, McpTool


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
