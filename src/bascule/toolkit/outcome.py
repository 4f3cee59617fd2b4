"""A call that the gateway runs, and how that can end."""

from collections.abc import Sequence

import msgspec
from msgspec import Raw

from bascule.protocols.responses.items import Part


class Call(msgspec.Struct, kw_only=True):
    """One call of a gateway-owned tool, in the model's words."""

    call_id: str
    name: str
    """The wire name."""
    arguments: str
    approved_by: str | None = None
    """The id of the question to which somebody said yes."""


class Output(msgspec.Struct, kw_only=True):
    """The call ended well. `declare` are tool declarations for the rounds to come."""

    output: str | list[Part]
    declare: Sequence[Raw] = ()
    public: bytes = b"null"
    """JSON that the item's projection may show; the model does not see it."""


class Failed(msgspec.Struct, kw_only=True):
    """The call ended badly; `message` is for the model and the client."""

    message: str
    code: str = "tool_error"
    public: bytes = b"null"
    """JSON that the item's projection may show as its error; the model does not see it."""


class Suspended(msgspec.Struct, kw_only=True):
    """The call waits for the client. `items` are shown to it as they are; each needs a type and
    an id. `awaits` are the keys of the input items that will answer, one at least."""

    items: Sequence[bytes]
    awaits: Sequence[str]
    state: bytes = b"null"
    """The executor's own JSON, given back to `resume`."""


Outcome = Output | Failed | Suspended


class SuspendedCall(msgspec.Struct, kw_only=True):
    """A suspended call as it is stored with the response."""

    call: Call
    tool: bytes = b"null"
    """The declaration that it was made under, without its secrets; null where that is not known."""
    awaits: Sequence[str]
    state: bytes = b"null"
    approval: bool = False
    """Whether it waits to be approved, not for what its executor has asked."""
