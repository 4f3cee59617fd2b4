"""Items of the Responses API.

An item from outside is its type, its id and its bytes (`Item`); typed views are decoded on demand and
never write the item back, so that what a view does not know survives. Items that the gateway makes
are the structs at the end of this file.
"""

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeVar

import msgspec

from bascule.protocols import json
from bascule.protocols.errors import invalid

Role = Literal["user", "assistant", "system", "developer"]
ItemStatus = Literal["in_progress", "completed", "incomplete"]


class _Head(msgspec.Struct):
    type: str | None = None
    id: str | None = None
    role: msgspec.Raw = msgspec.Raw()


class Part(msgspec.Struct, omit_defaults=True):
    """A content part of any type; `type` says which of the fields count."""

    type: str
    text: str | None = None
    refusal: str | None = None
    image_url: str | None = None
    detail: str | None = None
    file_id: str | None = None
    file_data: str | None = None
    file_url: str | None = None
    filename: str | None = None


class Message(msgspec.Struct, tag_field="type", tag="message"):
    """View of a message: the easy, the input and the output form."""

    role: Role
    content: str | list[Part]
    phase: str | None = None


class ReasoningPart(msgspec.Struct):
    type: str
    text: str = ""


class Reasoning(msgspec.Struct):
    """View of a reasoning item. `encrypted_content` is opaque except to its origin."""

    summary: list[ReasoningPart] = []
    content: list[ReasoningPart] | None = None
    encrypted_content: str | None = None


class FunctionCall(msgspec.Struct, tag_field="type", tag="function_call", omit_defaults=True):
    """View of a function call."""

    call_id: str
    name: str
    arguments: str
    namespace: str | None = None


class FunctionCallOutput(msgspec.Struct, tag_field="type", tag="function_call_output"):
    """View of a function call's output."""

    call_id: str
    output: str | list[Part]


class Thought(msgspec.Struct, tag_field="type", tag="thought"):
    """Reasoning as it goes back to a model: its text, and the upstream's own details if it wants
    them back."""

    text: str
    details: list[msgspec.Raw] = []


Flat = Message | Thought | FunctionCall | FunctionCallOutput

V = TypeVar("V", bound=msgspec.Struct)
_Class = type  # inside Item the name `type` is a field


class Item:
    """One item as it came: its type, its id (if it has one) and its JSON object.

    `model` replaces what `raw` would say to the model: the pair of function call and output
    behind a public item, or nothing. `None` means that the item's handler flattens it.
    """

    __slots__ = ("_view", "id", "model", "raw", "type")

    def __init__(
        self, type_: str, id_: str | None, raw: bytes, model: Sequence[Flat] | None = None
    ) -> None:
        self.type = type_
        self.id = id_
        self.raw = raw
        self.model = model
        self._view: msgspec.Struct | None = None

    def view(self, type_: _Class[V], param: str = "input") -> V:
        """The item as `type_`. Raises ApiError 400 that names the field below `param`."""
        view = self._view
        if not isinstance(view, type_):
            view = self._view = json.field(_decoder(type_), self.raw, param)
        return view

    def __repr__(self) -> str:
        return f"Item({self.type!r}, {self.id!r})"


_decoders: dict[type, Any] = {}


def _decoder(type_: type[V]) -> Callable[[bytes | msgspec.Raw], V]:
    found = _decoders.get(type_)
    if found is None:
        found = _decoders[type_] = json.decoder(type_)
    return found


_head = json.decoder(_Head)
_list = json.decoder(list[msgspec.Raw])
_string = json.decoder(str)


def read_input(raw: bytes | msgspec.Raw, param: str = "input") -> list[Item]:
    """A request's `input`: a string is one user message; an item with a role needs no type."""
    raw = bytes(raw)
    if raw.startswith(b'"'):
        text = json.field(_string, raw, param)
        return [Item("message", None, json.encode(InputMessage(text)))]
    return read_items(raw, param)


def read_items(raw: bytes | msgspec.Raw, param: str = "input") -> list[Item]:
    """A list of items. Raises ApiError 400 for a value that is no item."""
    items: list[Item] = []
    for i, data in enumerate(json.field(_list, raw, param)):
        items.append(read_item(data, f"{param}[{i}]"))
    return items


def read_item(data: bytes | msgspec.Raw, param: str) -> Item:
    """One item. Raises ApiError 400."""
    head = json.field(_head, data, param)
    kind = head.type
    if kind is None:
        if not bytes(head.role):
            raise invalid(f"Missing required parameter: '{param}.type'.", f"{param}.type")
        kind = "message"
    elif kind == "":
        raise invalid(f"Invalid value for '{param}.type': it is empty.", f"{param}.type")
    return Item(kind, head.id, bytes(data))


class InputMessage(msgspec.Struct, tag_field="type", tag="message"):
    """The message that string input stands for."""

    content: str
    role: Role = "user"


class OutputText(msgspec.Struct, tag_field="type", tag="output_text"):
    text: str
    annotations: list[Any] = []
    logprobs: list[Any] = []


class Refusal(msgspec.Struct, tag_field="type", tag="refusal"):
    refusal: str


class MessageItem(msgspec.Struct, tag_field="type", tag="message"):
    """A message of the model."""

    id: str
    status: ItemStatus
    content: list[OutputText | Refusal]
    role: Role = "assistant"


class ReasoningText(msgspec.Struct, tag_field="type", tag="reasoning_text"):
    text: str


class SummaryText(msgspec.Struct, tag_field="type", tag="summary_text"):
    text: str


class ReasoningItem(msgspec.Struct, tag_field="type", tag="reasoning", omit_defaults=True):
    """The model's reasoning; absent members are left out, since null fails Open Responses."""

    id: str
    summary: list[SummaryText]
    content: list[ReasoningText] | None = None
    encrypted_content: str | None = None
    status: ItemStatus | None = None


class FunctionCallItem(msgspec.Struct, tag_field="type", tag="function_call", omit_defaults=True):
    """A call that the client executes."""

    id: str
    status: ItemStatus
    call_id: str
    name: str
    arguments: str
    namespace: str | None = None
