"""What handlers share whose items stand in histories, while their types cannot be declared here."""

import hashlib
from collections.abc import Sequence
from typing import Any, ClassVar

import msgspec
from msgspec import Raw

from bascule.protocols import json
from bascule.protocols.responses.items import Flat, FunctionCall, FunctionCallOutput, Item, Part
from bascule.toolkit.handler import Tool, ToolHandler
from bascule.toolkit.names import Identity, Ledger


class ItemsOnly(ToolHandler[None]):
    """A handler of history items, which nobody declares."""

    types: ClassVar[frozenset[str]] = frozenset()

    def parse(self, declaration: Raw, param: str) -> None:
        raise TypeError(f"{type(self).__name__} has no declarations")

    def normalize(self, params: None) -> Sequence[Tool]:
        return ()


def wire_name(names: Ledger, type_: str) -> str:
    """The name under which a hosted tool's calls are said to the model."""
    return names.assign(Identity(None, type_, type_))


def call_id_of(item: Item, given: str | None = None) -> str:
    """What pairs a call with its output: the item's own call id, else its id. Clients that keep no
    state leave ids out; then the item's content makes one."""
    if given or item.id:
        return given or item.id or ""
    return f"call_{hashlib.sha256(item.raw).hexdigest()[:24]}"


def pair(call_id: str, wire: str, arguments: Any, output: str | Sequence[Part]) -> list[Flat]:
    """A call and its output, as the model would have made them."""
    return [call(call_id, wire, arguments), answer(call_id, output)]


def call(call_id: str, wire: str, arguments: Any) -> FunctionCall:
    """`arguments` is the object, or its text."""
    text = arguments if isinstance(arguments, str) else json.encode(arguments).decode()
    return FunctionCall(call_id, wire, text)


def answer(call_id: str, output: str | Sequence[Part]) -> FunctionCallOutput:
    return FunctionCallOutput(call_id, output if isinstance(output, str) else list(output))


def texts(*lines: str) -> list[Part]:
    """The lines that say something, as one text part."""
    text = "\n".join(line for line in lines if line)
    return [Part("input_text", text=text)] if text else []


def given(**members: Any) -> dict[str, Any]:
    """An object without what is null or was not said."""
    return {
        name: value
        for name, value in members.items()
        if value is not None and value is not msgspec.UNSET
    }


def failed(status: str | None, what: str) -> str:
    """What the output says of a call that did not end well; empty for one that did."""
    if status in (None, "completed"):
        return ""
    return f"The {what} did not complete: its status is {status}."
