"""What came before, as the model's server can read it."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec
from msgspec import Raw

from bascule.engine.seal import Sealer
from bascule.engine.state import Origin
from bascule.protocols import json
from bascule.protocols.errors import invalid
from bascule.protocols.responses.items import (
    Flat,
    Item,
    Message,
    Part,
    Passed,
    Reasoning,
    Thought,
)
from bascule.protocols.responses.parts import TEXT_PARTS, check_part
from bascule.toolkit.handler import Handlers, ToolHandler
from bascule.toolkit.names import Ledger
from bascule.toolkit.outcome import SuspendedCall
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
        self.waiting = waiting
        self._names = names

    def items(self) -> list[Flat]:
        """Raises ApiError 400 that names the item which is malformed."""
        flat: list[Flat] = []
        at = 0
        for place, handler, item, param in self.waiting:
            flat += self._flat[at:place]
            if item.model is not None:  # settled together with others
                flat += item.model
            else:
                flat += handler.flatten(item, self._names, param)
            at = place
        return [*flat, *self._flat[at:]] if self.waiting else self._flat


def settle(histories: Iterable[Flattened], names: Ledger) -> list[SuspendedCall]:
    """The calls that wait, and that the items answer. Comes before `items`. Raises ApiError 400 that
    names the item which is wrong."""
    by_handler: dict[int, list[_Waiting]] = {}
    for history in histories:
        for waiting in history.waiting:
            if waiting.handler.settles:
                by_handler.setdefault(id(waiting.handler), []).append(waiting)
    suspended: list[SuspendedCall] = []
    for group in by_handler.values():
        items = [(waiting.item, waiting.param) for waiting in group]
        suspended += group[0].handler.settle(items, names)
    return suspended


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
                if handler.is_late(item, f"{param}[{i}]"):
                    waiting.append(_Waiting(len(flat), handler, item, f"{param}[{i}]"))
                else:
                    flat += handler.flatten(item, self._names, f"{param}[{i}]")
        return Flattened(flat, waiting, self._names)

    def _passed(self, item: Item, param: str) -> Sequence[Flat]:
        if item.type == "message":
            item.view(Message, param)
            return [Passed(item.unminted())]
        if item.type == "reasoning":
            return self._own_reasoning(item, param)
        handler = self._handlers.for_item(item.type)
        if handler is None:
            return [Passed(Raw(item.raw))]
        return handler.forward(item, self._names, self._surface, param)

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


class _Kind(msgspec.Struct):
    type: str | None = None


_kind = json.decoder(_Kind)


def is_item(detail: Raw) -> bool:
    """Whether a record of a reasoning is the item itself, of a server that speaks Responses."""
    return _kind(detail).type == "reasoning"


def _check_parts(content: Sequence[Part], param: str, i: int) -> None:
    for j, part in enumerate(content):
        if part.type not in TEXT_PARTS or part.text is None:
            check_part(part, f"{param}[{i}].content[{j}]")
