"""What declarations of several hosted types share. Source of the shapes: openai-python's types and OpenAI's
recordings. Members that are not listed are kept and shown, and mean nothing here."""

from typing import Annotated, Final

from msgspec import Meta, Raw

from bascule.protocols import json

Name = Annotated[str, Meta(min_length=1)]
Share = Annotated[float, Meta(ge=0, le=1)]

NULL: Final = Raw(b"null")


def with_defaults(declaration: Raw, defaults: dict[str, Raw]) -> Raw:
    """A declaration as OpenAI shows it: what the client left out, filled in."""
    members = json.envelope(bytes(declaration))
    return Raw(json.encode({**members, **{k: v for k, v in defaults.items() if k not in members}}))
