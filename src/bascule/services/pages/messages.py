"""What goes between the gateway and the process that reads pages: MessagePack, each with its length."""

from typing import Final

import msgspec

LENGTH: Final = 4
"""Bytes before each message, big-endian."""


class Task(msgspec.Struct):
    """A page as it came. `content_type` is a media type, empty if nobody has said it."""

    url: str
    content_type: str
    charset: str | None
    body: bytes


class Extracted(msgspec.Struct):
    """What is to be read on a page."""

    title: str = ""
    text: str = ""
    fault: str = ""
    """Why there is nothing to be read, in words for the model."""


encode = msgspec.msgpack.Encoder().encode
task_of = msgspec.msgpack.Decoder(Task).decode
extracted_of = msgspec.msgpack.Decoder(Extracted).decode
