"""What came before, as the model's server can read it."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec
from msgspec import Raw

from bascule.engine.seal import Sealer
from bascule.engine.state import Origin
from bascule.protocols import json
from bascule.protocols.errors import invalid
from bascule.protocols.ids import is_minted
from bascule.protocols.responses.items import (
    Flat,
    FunctionCall,
    Item,
    Message,
    Part,
    Passed,
    Reasoning,
    Thought,
)
from bascule.protocols.responses.parts import TEXT_PARTS, check_part
from bascule.toolkit.handler import Handlers, ToolHandler
from bascule.toolkit.names import Identity, Ledger
from bascule.upstreams.target import Target


class _Waiting(NamedTuple):
    """An item of a hosted tool, whose name is given after those of the declared functions."""

    place: int
    handler: ToolHandler[object]
    item: Item
    param: str


class Flattened:
    """A history, of which `items` is asked once the tools of the turn are named."""

    def __init__(self, flat: list[Flat], waiting: Sequence[_Waiting], names: Ledger) -> None:
        self._flat = flat
        self._waiting = waiting
        self._names = names

    def items(self) -> list[Flat]:
        """Raises ApiError 400 that names the item which is malformed."""
        flat: list[Flat] = []
        at = 0
        for place, handler, item, param in self._waiting:
            flat += self._flat[at:place]
            flat += handler.flatten(item, self._names, param)
            at = place
        return [*flat, *self._flat[at:]] if self._waiting else self._flat


class Flattener:
    """Flattens items for one upstream and model. `warnings` collects what had to be left out."""

    def __init__(self, handlers: Handlers, names: Ledger, sealer: Sealer, target: Target) -> None:
        self._handlers = handlers
        self._names = names
        self._sealer = sealer
        self._upstream = target.upstream
        self._model = target.model
        self._surface = target.surface
        self.warnings: list[str] = []

    def flatten(self, items: Iterable[Item], param: str = "input") -> "Flattened":
        """Raises ApiError 400 that names the item which is malformed or unknown."""
        flat: list[Flat] = []
        waiting: list[_Waiting] = []
        passes = self._surface.items
        for i, item in enumerate(items):
            if item.model is not None:
                flat += item.model
            elif passes and self._handlers.passes(self._surface, item.type):
                flat += self._passed(item, f"{param}[{i}]")
            elif item.type == "message":
                message = item.known(Message) or item.view(Message, f"{param}[{i}]")
                if not isinstance(message.content, str):
                    _check_parts(message.content, param, i)
                flat.append(message)
            elif item.type == "reasoning":
                flat += self._reasoning(item.view(Reasoning, f"{param}[{i}]"))
            else:
                handler = self._handler(item, f"{param}[{i}]")
                if handler.names_late:
                    waiting.append(_Waiting(len(flat), handler, item, f"{param}[{i}]"))
                else:
                    flat += handler.flatten(item, self._names, f"{param}[{i}]")
        return Flattened(flat, waiting, self._names)

    def _passed(self, item: Item, param: str) -> Sequence[Flat]:
        data = Raw(item.raw)
        match item.type:
            case "message":
                item.view(Message, param)
            case "reasoning":
                return self._own_reasoning(item, param)
            case "function_call":
                return [self._passed_call(item.view(FunctionCall, param), item)]
            case "function_call_output" | "custom_tool_call_output":
                view = item.view(_Answer, param)
                return [Passed(without_own_id(item), answers=view.call_id)]
            case "custom_tool_call":
                made = item.view(_Made, param)
                awaited = None if made.asynchronous else made.call_id
                return [Passed(without_own_id(item), call_id=awaited)]
            case _:
                return [Passed(data)]
        return [Passed(without_own_id(item))]

    def _passed_call(self, call: FunctionCall, item: Item) -> Flat:
        """Under the name that the server knows; of a namespace that it keeps itself, as it is."""
        data = without_own_id(item)
        awaited = None if call.asynchronous else call.call_id
        identity = Identity.of(call.namespace, call.name, "function")
        native = self._surface.takes("namespace", known=True)
        if native and call.namespace is not None and self._names.wire(identity) is None:
            return Passed(data, call_id=awaited)
        wire = self._names.assign(identity)
        if wire != call.name or call.namespace is not None:
            members = json.envelope(bytes(data))
            members.pop("namespace", None)
            data = Raw(json.encode({**members, "name": wire}))
        return Passed(data, call_id=awaited)

    def _own_reasoning(self, item: Item, param: str) -> Sequence[Flat]:
        """What we sealed is given back as it was to the server that it came from, and to no other;
        what somebody else encrypted is for the server to judge."""
        view = item.view(Reasoning, param)
        if view.encrypted_content is None or not self._sealer.is_sealed(view.encrypted_content):
            return [Passed(Raw(item.raw))] if view.encrypted_content is not None else ()
        opened = self._sealer.open(view.encrypted_content)
        if opened is None:
            self.warnings.append("reasoning whose encrypted_content does not open was left out")
            return ()
        if (opened.upstream, opened.model) != (self._upstream, self._model):
            return ()
        return [Passed(detail) for detail in opened.details if is_item(detail)]

    def _handler(self, item: Item, param: str) -> ToolHandler[object]:
        handler = self._handlers.for_item(item.type)
        if handler is None:
            raise invalid(
                f"Invalid value: '{item.type}'. Items of this type are not supported here.",
                f"{param}.type",
                "unsupported_value",
            )
        return handler

    def _reasoning(self, item: Reasoning) -> Sequence[Flat]:
        if item.encrypted_content is not None:
            opened = self._sealer.open(item.encrypted_content)
            if opened is None:
                self.warnings.append("reasoning whose encrypted_content does not open was left out")
                return ()
            return [
                Thought(opened.text, self._details(opened.upstream, opened.model, opened.details))
            ]
        if item.content:
            return [Thought("".join(part.text for part in item.content))]
        return ()

    def _details(self, upstream: str, model: str, details: list[Raw]) -> list[Raw]:
        """A reasoning's own records, for the model that they came from; items are none."""
        if (upstream, model) != (self._upstream, self._model):
            return []
        return [detail for detail in details if not is_item(detail)]

    def stored(self, item: Item, origin: Origin | None) -> Item:
        """An item of our own store, with what was kept of its origin."""
        if origin is None:
            return item
        if origin.model is not None:
            item.model = origin.model
        elif item.type == "reasoning":
            item.model = self._stored_reasoning(item, origin)
        elif origin.id and self._surface.items and origin.upstream == self._upstream:
            # Under the id that it has there.
            return Item(item.type, origin.id, json.merge(item.raw, id=origin.id))
        return item

    def _stored_reasoning(self, item: Item, origin: Origin) -> list[Flat]:
        same = (origin.upstream, origin.model_name) == (self._upstream, self._model)
        if self._surface.items:
            return [Passed(detail) for detail in origin.details if same and is_item(detail)]
        view = item.view(Reasoning)
        text = "".join(part.text for part in view.content or view.summary)
        return [Thought(text, self._details(origin.upstream, origin.model_name, origin.details))]


class _Answer(msgspec.Struct):
    call_id: str


class _Made(msgspec.Struct):
    call_id: str
    asynchronous: bool | None = msgspec.field(name="async", default=None)


class _Kind(msgspec.Struct):
    type: str | None = None


_kind = json.decoder(_Kind)


def is_item(detail: Raw) -> bool:
    """Whether a record of a reasoning is the item itself, of a server that speaks Responses."""
    return _kind(detail).type == "reasoning"


def without_own_id(item: Item) -> Raw:
    """An item for another server, which would not know an id of ours."""
    if item.id is None or not is_minted(item.id):
        return Raw(item.raw)
    members = json.envelope(item.raw)
    members.pop("id", None)
    return Raw(json.encode(members))


def _check_parts(content: Sequence[Part], param: str, i: int) -> None:
    for j, part in enumerate(content):
        if part.type not in TEXT_PARTS or part.text is None:
            check_part(part, f"{param}[{i}].content[{j}]")
