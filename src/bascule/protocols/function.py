"""Functions as a model server is told of them: the one kind of tool that all of them know."""

import msgspec


class FunctionSpec(msgspec.Struct, frozen=True):
    """A function under its wire name; `parameters` is a JSON schema as bytes, empty if none."""

    name: str
    description: str | None = None
    parameters: msgspec.Raw = msgspec.Raw()
    strict: bool | None = None


class WireChoice(msgspec.Struct, frozen=True):
    """A tool choice in wire names. `name` goes with mode `required`."""

    mode: str = "auto"
    name: str | None = None
    allowed: tuple[str, ...] | None = None
