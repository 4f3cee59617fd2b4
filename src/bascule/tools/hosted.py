"""Tools that run on a server: on the model's own, or here where there is an executor for them."""

from collections.abc import Sequence
from typing import Any, ClassVar, TypeVar

from msgspec import Raw

from bascule.protocols import json
from bascule.toolkit.handler import Tool, ToolHandler
from bascule.toolkit.names import Identity
from bascule.toolkit.ownership import UNAVAILABLE, Ownership

P = TypeVar("P")


def with_defaults(declaration: Raw, **defaults: Any) -> Raw:
    """A declaration as it is shown: what it left out is filled in."""
    members: dict[str, Any] = dict(json.envelope(bytes(declaration)))
    for name, value in defaults.items():
        members.setdefault(name, value)
    return Raw(json.encode(members))


class HostedHandler(ToolHandler[P]):
    """Without an executor the declaration is accepted, and the model is not told of the tool."""

    kind: ClassVar[str]
    """The type by its newest name, which is also the name of the model's function."""

    def normalize(self, params: P) -> Sequence[Tool]:
        return [Tool(Identity(None, self.kind, self.kind))]

    def owner(self, params: P, identity: Identity) -> Ownership:
        return UNAVAILABLE
