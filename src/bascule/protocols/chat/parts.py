"""Content parts in the form of Chat Completions."""

import mimetypes
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from bascule.protocols import capabilities, json
from bascule.protocols.flags import Flags
from bascule.protocols.responses.items import Item, Part

_DETAIL: Final = {"original": "high"}
"""Chat knows low, high and auto; nothing is nearer to the original than high."""
_MEDIA: Final = frozenset({"input_image", "input_file", "input_audio", "computer_screenshot"})


class PartRefused(Exception):
    """The server cannot be given this part."""

    def __init__(self, message: str, part: Part) -> None:
        super().__init__(message)
        self.part = part


def is_media(part: Part) -> bool:
    """Whether a part is more than text."""
    return part.type in _MEDIA


def part_text(part: Part) -> str:
    return part.text or part.refusal or ""


def encode_part(part: Part, flags: Flags) -> dict[str, Any]:
    """The part as Chat has it. Raises PartRefused for one that the server does not take."""
    if not is_media(part):
        return {"type": "text", "text": part_text(part)}
    name = _row_name(part)
    if capabilities.verdict(capabilities.PARTS[name], "chat", flags) == "refused":
        raise PartRefused(f"The model's server does not take {_WHAT[name]}.", part)
    if part.type == "input_file":
        return {"type": "file", "file": _file(part)}
    if part.type == "input_audio":
        return {"type": "input_audio", "input_audio": part.input_audio}
    image: dict[str, Any] = {"url": part.image_url}
    if part.detail is not None:
        image["detail"] = _DETAIL.get(part.detail, part.detail)
    return {"type": "image_url", "image_url": image}


_WHAT: Final = {
    "input_image.image_url": "images",
    "computer_screenshot": "images",
    "input_file.file_data": "files",
    "input_file.file_url": "files by URL",
    "input_audio": "audio",
}


def _row_name(part: Part) -> str:
    if part.type == "input_image":
        return "input_image.image_url"
    if part.type == "input_file":
        return "input_file.file_url" if part.file_data is None else "input_file.file_data"
    return part.type


def _file(part: Part) -> dict[str, Any]:
    """Chat wants a name and a data URL; servers that take URLs read them in the same place."""
    data = part.file_data
    if data is None:
        return {"filename": part.filename or _last(part.file_url or ""), "file_data": part.file_url}
    name = part.filename
    if data.startswith("data:"):
        media = data[len("data:") :].partition(",")[0].partition(";")[0]
        return {
            "filename": name or f"file{mimetypes.guess_extension(media) or ''}",
            "file_data": data,
        }
    media = mimetypes.guess_type(name or "")[0] or "application/octet-stream"
    return {"filename": name or "file", "file_data": f"data:{media};base64,{data}"}


def _last(url: str) -> str:
    path = url.partition("?")[0].partition("#")[0].rstrip("/")
    return path.rpartition("/")[2] or "file"


class _Holder(msgspec.Struct):
    content: msgspec.Raw = msgspec.Raw()
    output: msgspec.Raw = msgspec.Raw()


_holder = json.decoder(_Holder)
_part = json.decoder(Part)
_list = json.decoder(list[msgspec.Raw])


def place_of(part: Part, items: Sequence[Item]) -> str:
    """The path of a part in a request's input; the input as a whole for one that stands in none of
    its items, but in the chain before them or in a tool's own record."""
    for i, item in enumerate(items):
        holder = _holder(item.raw)
        for name, raw in (("content", holder.content), ("output", holder.output)):
            if json.opens_with(raw, b"["):
                for j, data in enumerate(_list(raw)):
                    if _is(data, part):
                        return f"input[{i}].{name}[{j}]"
            elif json.opens_with(raw, b"{") and _is(raw, part):
                return f"input[{i}].{name}"
    return "input"


def _is(data: msgspec.Raw, part: Part) -> bool:
    try:
        return _part(data) == part
    except msgspec.DecodeError:
        return False  # of an item that has parts of its own, such as a shell's output
