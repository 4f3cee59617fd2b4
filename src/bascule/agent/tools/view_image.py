"""`view_image`: an image file, for the model to look at."""

import asyncio
import base64
import os
import stat
from pathlib import Path
from typing import ClassVar, Final

import msgspec

from bascule.agent.calls import ToolKind, ToolName, ToolOutput
from bascule.agent.handler import (
    LocalHandler,
    ToolFault,
    ToolInvocation,
    ToolSpec,
    arguments,
    function,
    schema,
)
from bascule.protocols.responses.items import Part
from bascule.services.sandbox import Boundary

MAX_BYTES: Final = 10 * 1024 * 1024
_TYPES: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)


class Arguments(msgspec.Struct):
    path: str


class ViewImage(LocalHandler):
    name = ToolName(None, "view_image")
    parallel: ClassVar[bool] = True

    def spec(self) -> ToolSpec:
        path = {"type": "string", "description": "The file: PNG, JPEG, GIF or WebP."}
        about = "Shows you an image file of this machine."
        return function("view_image", about, schema(["path"], path=path))

    def kind(self) -> ToolKind:
        return ToolKind.FUNCTION

    async def handle(self, invocation: ToolInvocation) -> ToolOutput:
        said = arguments(invocation.payload, Arguments).path
        boundary = invocation.boundary
        data = await asyncio.to_thread(_read, said, boundary)
        type_ = image_type(data)
        if type_ is None:
            raise ToolFault(f"unable to show '{said}': it is no PNG, JPEG, GIF or WebP image")
        url = f"data:{type_};base64,{base64.b64encode(data).decode()}"
        return ToolOutput(content=[Part("input_image", image_url=url, detail="original")])


def image_type(data: bytes) -> str | None:
    """By how it begins, whatever its name is."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((type_ for begin, type_ in _TYPES if data.startswith(begin)), None)


def _read(said: str, boundary: Boundary) -> bytes:
    path = boundary.outside(boundary.workspace / Path(said).expanduser())
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError as e:
        raise ToolFault(f"unable to locate image at {said}: {e.strerror}") from None
    try:
        about = os.fstat(fd)
        if not stat.S_ISREG(about.st_mode):
            raise ToolFault(f"unable to show '{said}': it is no regular file")
        if about.st_size > MAX_BYTES:
            raise ToolFault(
                f"unable to show '{said}': it has {about.st_size} bytes; {MAX_BYTES} are allowed"
            )
        with os.fdopen(os.dup(fd), "rb") as file:
            return file.read(MAX_BYTES + 1)
    finally:
        os.close(fd)
