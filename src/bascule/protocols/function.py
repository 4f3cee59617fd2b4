"""Tools as a model server is told of them: functions, which all of them know, and what one takes as it is."""

import msgspec


class FunctionSpec(msgspec.Struct, frozen=True):
    """A function under its wire name; `parameters` is a JSON schema as bytes, empty if none."""

    name: str
    description: str | None = None
    parameters: msgspec.Raw = msgspec.Raw()
    strict: bool | None = None
    declared: msgspec.Raw = msgspec.Raw()
    """The client's own declaration, for a server that speaks Responses; empty for other tools."""


Offered = FunctionSpec | msgspec.Raw
"""What goes into a request's list: a function, or a declaration that the server takes as it is."""


class WireChoice(msgspec.Struct, frozen=True):
    """A tool choice in wire names. `name` goes with mode `required`."""

    mode: str = "auto"
    name: str | None = None
    allowed: tuple[str, ...] | None = None
    native: tuple[msgspec.Raw, ...] = ()
    """Tools that the server runs or knows by itself, as a choice names them; with mode `required`
    and without `allowed` there is one, and it must be used."""
