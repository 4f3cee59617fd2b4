"""What an MCP server gave, for the model and for the client."""

from collections.abc import Sequence
from typing import Any, cast

import msgspec
from msgspec import Raw

from bascule.protocols import json
from bascule.protocols.responses.items import Part
from bascule.services.mcp import Content, McpError, McpResult
from bascule.toolkit.outcome import Failed, Outcome, Output
from bascule.tools.items_only import given


def outcome_of(result: McpResult, *, images: bool) -> Outcome:
    """A tool's own failure is a failed call: the model reads its words, the client too."""
    if result.is_error:
        message = _text(result.content) or "The tool failed, and said nothing."
        error = {"type": "tool_execution_error", "message": message}
        return Failed(message=message, public=json.encode(error))
    content = result.content
    if result.structured is not None and not _is_said(result.structured, content):
        content = [*content, Content("text", text=bytes(result.structured).decode())]
    return output_of(content, images=images)


def _is_said(structured: Raw, content: Sequence[Content]) -> bool:
    """Whether texts say the structured content already: the protocol asks servers to give both. Common
    server libraries wrap what is no object in one with the member `result`."""
    whole: Any = msgspec.json.decode(structured)
    wrapped = cast("dict[str, Any]", whole) if isinstance(whole, dict) else {}
    meant: list[Any] = [whole, wrapped["result"]] if wrapped.keys() == {"result"} else [whole]
    texts = [block.text or "" for block in content if block.kind == "text"]
    said = [_read(text) for text in texts]
    return any(one in (*texts, *said, texts, said) for one in meant)


def _read(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text


def output_of(content: Sequence[Content], *, images: bool) -> Output:
    """Texts as they are; images to look at for a model that can, else described. The client reads
    texts, or all the blocks as JSON where there is something else, data included."""
    parts = _parts(content, images=images)
    if all(block.kind == "text" for block in content):
        shown = _text(content)
    else:
        shown = json.encode([_shown(block) for block in content]).decode()
    if all(part.type == "input_text" for part in parts):
        return Output(
            output="\n".join(part.text or "" for part in parts), public=json.encode(shown)
        )
    return Output(output=parts, public=json.encode(shown))


def failed(error: McpError) -> Failed:
    return Failed(message=error.message, code=str(error.code), public=json.encode(error.shown()))


def _text(content: Sequence[Content]) -> str:
    return "\n".join(_described(block) for block in content)


def _parts(content: Sequence[Content], *, images: bool) -> list[Part]:
    parts: list[Part] = []
    for block in content:
        if images and _is_image(block):
            url = f"data:{block.mime_type or 'image/png'};base64,{block.data}"
            parts.append(Part("input_image", image_url=url, detail="auto"))
        else:
            parts.append(Part("input_text", text=_described(block)))
    return parts


def _is_image(block: Content) -> bool:
    type_ = block.mime_type or ""
    return block.data is not None and (block.kind == "image" or type_.startswith("image/"))


def _described(block: Content) -> str:
    """In words, for a model that reads only."""
    if block.kind in ("text", "json"):
        return block.text or ""
    if block.kind == "link":
        about = " ".join(filter(None, (block.name, block.text)))
        return f"[resource {block.uri}{f': {about}' if about else ''}]"
    if block.kind == "resource" and block.text is not None:
        return f"[resource {block.uri}]\n{block.text}"
    what = "image" if _is_image(block) else "audio" if block.kind == "audio" else "data"
    size = len(block.data or "") * 3 // 4
    where = f" of {block.uri}" if block.uri else ""
    return f"[{what}{where}, {block.mime_type or 'unknown type'}, {size} bytes: not shown]"


def _shown(block: Content) -> Any:
    """As the protocol has it."""
    if block.kind == "json":
        return msgspec.json.decode(block.text or "null")
    if block.kind == "link":
        return given(
            type="resource_link",
            uri=block.uri,
            name=block.name,
            description=block.text,
            mimeType=block.mime_type,
        )
    if block.kind == "resource":
        inner = given(uri=block.uri, mimeType=block.mime_type, text=block.text, blob=block.data)
        return {"type": "resource", "resource": inner}
    return given(type=block.kind, text=block.text, data=block.data, mimeType=block.mime_type)
