"""Items of the Responses API.

An item from outside is its type, its id and its bytes (`Item`, or `OpenItem` while a server is still
writing it); typed views are decoded on demand and never write the item back, so that what a view does
not know survives. Items that the gateway makes are the structs at the end of this file.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any, Final, Literal, TypeVar

import msgspec

from bascule.protocols import json
from bascule.protocols.errors import invalid
from bascule.protocols.ids import is_minted

Role = Literal["user", "assistant", "system", "developer"]
ItemStatus = Literal["in_progress", "completed", "incomplete"]


class _Head(msgspec.Struct):
    type: str | None = None
    id: str | None = None
    role: msgspec.Raw = msgspec.Raw()


class Audio(msgspec.Struct, gc=False):
    """What an `input_audio` part holds: base64, and its format, such as `wav` or `mp3`."""

    data: str
    format: str


class Part(msgspec.Struct, omit_defaults=True, gc=False):
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
    input_audio: Audio | None = None


class Message(msgspec.Struct, tag_field="type", tag="message", omit_defaults=True, gc=False):
    """View of a message: the easy, the input and the output form."""

    role: Role
    content: str | list[Part]
    phase: str | None = None
    id: str | None = None


class ReasoningPart(msgspec.Struct):
    type: str
    text: str = ""


class Reasoning(msgspec.Struct, tag_field="type", tag="reasoning", gc=False):
    """View of a reasoning item. `encrypted_content` is opaque except to its origin."""

    summary: list[ReasoningPart] = []
    content: list[ReasoningPart] | None = None
    encrypted_content: str | None = None
    id: str | None = None


class FunctionCall(
    msgspec.Struct, tag_field="type", tag="function_call", omit_defaults=True, gc=False
):
    """View of a function call; an asynchronous one may be answered later."""

    call_id: str
    name: str
    arguments: str
    namespace: str | None = None
    id: str | None = None
    asynchronous: bool | None = msgspec.field(name="async", default=None)


class FunctionCallOutput(
    msgspec.Struct, tag_field="type", tag="function_call_output", omit_defaults=True, gc=False
):
    """View of a function call's output."""

    call_id: str
    output: str | list[Part]
    id: str | None = None


class Thought(msgspec.Struct, tag_field="type", tag="thought"):
    """Reasoning as it goes back to a model: its text, and the upstream's own details if it wants
    them back."""

    text: str
    details: list[msgspec.Raw] = []


class Passed(msgspec.Struct, tag_field="type", tag="passed"):
    """An item that goes as it is to a server that speaks Responses. `call_id` is set on a call that
    must be answered, `answers` on what answers one."""

    data: msgspec.Raw
    call_id: str | None = None
    answers: str | None = None


Flat = Message | Thought | FunctionCall | FunctionCallOutput | Passed

ITEM_REFERENCE: Final = "item_reference"
"""An input item that stands for a stored one. Its type may be left out: an id alone says it."""

V = TypeVar("V", bound=msgspec.Struct)
_Class = type  # inside Item the name `type` is a field


class _Source:
    """A list whose members' bytes are cut out when somebody asks for one."""

    __slots__ = ("_data", "_members")

    def __init__(self, data: bytes | msgspec.Raw) -> None:
        self._data = data
        self._members: list[msgspec.Raw] = []

    def member(self, index: int) -> bytes:
        if not self._members:
            self._members = _list(self._data)
        return bytes(self._members[index])


class Item:
    """One item as it came: its type, its id (if it has one) and its JSON object.

    `model` replaces what `raw` would say to the model: the pair of function call and output
    behind a public item, or nothing. `None` means that the item's handler flattens it.
    """

    __slots__ = ("_raw", "_view", "id", "key", "model", "type")

    def __init__(
        self, type_: str, id_: str | None, raw: bytes, model: Sequence[Flat] | None = None
    ) -> None:
        self.type = type_
        self.id = id_
        self._raw: bytes | tuple[_Source, int] | None = raw
        self.model = model
        self.key: str | None = None
        """Of an item that is stored already: its key in the store."""
        self._view: msgspec.Struct | None = None

    @property
    def raw(self) -> bytes:
        """The JSON object, byte for byte."""
        raw = self._raw
        if isinstance(raw, tuple):
            source, index = raw
            raw = self._raw = source.member(index)
        elif raw is None:
            raw = self._raw = json.encode(self._view)
        return raw

    @classmethod
    def seen(cls, view: "_View", raw: bytes | tuple[_Source, int] | None) -> "Item":
        """An item whose view is decoded already; without bytes it is the view."""
        item = cls(_TYPES[type(view)], view.id, b"")
        item._raw = raw
        item._view = view
        return item

    def unminted(self) -> msgspec.Raw:
        """The item for another server, which would not know an id of ours."""
        if self.id is None or not is_minted(self.id):
            return msgspec.Raw(self.raw)
        members = json.envelope(self.raw)
        members.pop("id", None)
        return msgspec.Raw(json.encode(members))

    def view(self, type_: _Class[V], param: str = "input") -> V:
        """The item as `type_`. Raises ApiError 400 that names the field below `param`."""
        view = self._view
        if not isinstance(view, type_):
            view = self._view = json.field(_decoder(type_), self.raw, param)
        return view

    def take(self, view: msgspec.Struct) -> None:
        """Keep a view that somebody else has decoded."""
        self._view = view

    def known(self, type_: _Class[V]) -> V | None:
        """The view, if it is decoded already."""
        view = self._view
        return view if isinstance(view, type_) else None

    def __repr__(self) -> str:
        return f"Item({self.type!r}, {self.id!r})"


_decoders: dict[type, Any] = {}


def _decoder(type_: type[V]) -> Callable[[bytes | msgspec.Raw], V]:
    found = _decoders.get(type_)
    if found is None:
        found = _decoders[type_] = json.decoder(type_)
    return found


_View = Message | Reasoning | FunctionCall | FunctionCallOutput
_TYPES: Final[dict[type, str]] = {
    Message: "message",
    Reasoning: "reasoning",
    FunctionCall: "function_call",
    FunctionCallOutput: "function_call_output",
}

_head = json.decoder(_Head)
_list = json.decoder(list[msgspec.Raw])
_members = json.decoder(dict[str, msgspec.Raw])
_string = json.decoder(str)
_view = msgspec.json.Decoder(_View).decode
_views = msgspec.json.Decoder(list[_View]).decode


def read_input(raw: bytes | msgspec.Raw, param: str = "input") -> list[Item]:
    """A request's `input`: a string is one user message; an item with a role needs no type."""
    if json.opens_with(raw, b'"'):
        text = json.field(_string, raw, param)
        return [Item.seen(Message("user", text), None)]
    return read_items(raw, param)


def read_items(raw: bytes | msgspec.Raw, param: str = "input") -> list[Item]:
    """A list of items. Raises ApiError 400 for a value that is no item."""
    try:
        # Most lists hold the common kinds only: one pass over the bytes reads them all.
        views = _views(raw)
    except (msgspec.DecodeError, RecursionError):
        members = json.field(_list, raw, param)
        return [read_item(data, f"{param}[{i}]") for i, data in enumerate(members)]
    source = _Source(raw)
    return [Item.seen(view, (source, i)) for i, view in enumerate(views)]


def read_item(data: bytes | msgspec.Raw, param: str) -> Item:
    """One item. Raises ApiError 400 for a value that is none; what is wrong inside one is for
    `Item.view` to say."""
    try:
        return Item.seen(_view(data), bytes(data))
    except (msgspec.DecodeError, RecursionError):
        head = json.field(_head, data, param)
    kind = head.type
    if kind is None:
        if not bytes(head.role):
            if head.id is not None and _members(data).keys() <= {"id", "type"}:
                return Item(ITEM_REFERENCE, head.id, bytes(data))
            raise invalid(f"Missing required parameter: '{param}.type'.", f"{param}.type")
        kind = "message"
    elif kind == ITEM_REFERENCE and head.id is None:
        place = f"{param}.id"
        raise invalid(
            f"Missing required parameter: '{place}'.", place, "missing_required_parameter"
        )
    elif kind == "":
        raise invalid(f"Invalid value for '{param}.type': it is empty.", f"{param}.type")
    return Item(kind, head.id, bytes(data))


_COMMON: Final = frozenset(_TYPES.values())


def stored_items(rows: Sequence[tuple[str, str, bytes]]) -> list[Item]:
    """Items that are known to be whole, by type, id and JSON object: the common kinds among them are
    decoded together, which a long history is worth."""
    items = [Item(type_, id_, data) for type_, id_, data in rows]
    common = [item for item in items if item.type in _COMMON]
    try:
        views = _views(b"[%b]" % b",".join([item.raw for item in common]))
    except (msgspec.DecodeError, RecursionError):
        return items  # each tells for itself what is odd about it
    for item, view in zip(common, views, strict=True):
        item.take(view)
    return items


_PREFIXES: Final = {"message": "msg", "reasoning": "rs"}
_PREFIX: Final = re.compile(r"[a-z]{2,8}(?=_)")


class OpenItem(msgspec.Struct):
    """An output item of a server that speaks Responses: its members, each as its bytes."""

    type: str
    members: dict[str, msgspec.Raw]

    def text(self, name: str) -> str:
        """A member that is a string; empty if it is missing or something else."""
        try:
            return _string(self.members.get(name, b'""'))
        except msgspec.DecodeError:
            return ""

    @property
    def id_prefix(self) -> str:
        """The server's own, which says what kind of item it is."""
        found = _PREFIX.match(self.text("id"))
        return found[0] if found else _PREFIXES.get(self.type, "item")

    def encode(self, **changes: Any) -> msgspec.Raw:
        """The JSON object with some members replaced or added; None leaves one out."""
        members = dict(self.members)
        for name, value in changes.items():
            if value is None:
                members.pop(name, None)
            else:
                members[name] = msgspec.Raw(json.encode(value))
        return msgspec.Raw(json.encode(members))


_texts = json.decoder(list[ReasoningPart])


def read_texts(item: OpenItem, member: str) -> list[str]:
    """The texts of a reasoning item's `summary` or `content`."""
    try:
        return [part.text for part in _texts(item.members.get(member, b"[]"))]
    except msgspec.DecodeError:
        return []


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
    """A call that the client executes; an asynchronous one may be answered later."""

    id: str
    status: ItemStatus
    call_id: str
    name: str
    arguments: str
    namespace: str | None = None
    asynchronous: bool = msgspec.field(name="async", default=False)
