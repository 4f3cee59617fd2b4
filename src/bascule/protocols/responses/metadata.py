"""Metadata of responses and conversations."""

from typing import Annotated

from msgspec import Meta

_Key = Annotated[str, Meta(max_length=64)]
_Value = Annotated[str, Meta(max_length=512)]

Metadata = Annotated[dict[_Key, _Value], Meta(max_length=16)]
"""At most 16 pairs; keys of 64, values of 512 characters."""
