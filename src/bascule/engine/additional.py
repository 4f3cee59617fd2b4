"""Declarations that came in the middle of a history, kept in the turns' records at
their places: they are no items that anybody could list."""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from msgspec import Raw

from bascule.engine.references import Stored
from bascule.engine.state import Additional
from bascule.protocols import json
from bascule.protocols.responses.items import Item
from bascule.toolkit.handler import Brought, Handlers


def brought_by(items: Iterable[Item], handlers: Handlers, param: str) -> list[Brought]:
    """All declarations that a history brings, in order. Raises ApiError 400 that names the item."""
    found: list[Brought] = []
    for i, item in enumerate(items):
        if item.type in handlers.brings:
            handler = handlers.for_item(item.type)
            if handler is not None:
                found += handler.brought(item, f"{param}[{i}]")
    return found


def newest(found: list[Brought]) -> list[Brought]:
    """Of servers that are declared again, the last declaration: it alone has what they ask for."""
    labels = [_head(brought.declaration).server_label for brought in found]
    return [b for i, b in enumerate(found) if labels[i] is None or labels[i] not in labels[i + 1 :]]


def put_back(
    stored: Sequence[Stored], keys: Sequence[str], additional: Sequence[Additional]
) -> list[Stored]:
    """The stored items, with declarations behind those that they followed; behind one that is gone they
    come first."""
    after: dict[str, list[Stored]] = {}
    present = set(keys)
    for one in additional:
        place = one.after if one.after in present else ""
        after.setdefault(place, []).append(
            (Item(_head(one.data).type, None, bytes(one.data)), None)
        )
    found = list(after.get("", ()))
    for item, key in zip(stored, keys, strict=True):
        found.append(item)
        found += after.get(key, ())
    return found


def without_repeated(
    inputs: Sequence[Item], known: Sequence[Additional], handlers: Handlers
) -> list[Item]:
    """An input without what a chain has already: clients send the same declarations each time."""
    if not known:
        return list(inputs)
    declared = [_tools(bytes(one.data)) for one in known]
    return [
        item
        for item in inputs
        if item.type not in handlers.unlisted or _tools(item.raw) not in declared
    ]


def kept(
    inputs: Sequence[Item], keys: Sequence[str | None], last: str, handlers: Handlers
) -> list[Additional]:
    """What a turn's record holds of its input's declarations, without their secrets. `keys` are those of
    the input's items, None for a declaration; `last` is the key of what came before the input."""
    found: list[Additional] = []
    for item, key in zip(inputs, keys, strict=True):
        if key is None:
            found.append(Additional(last, _masked(item.raw, handlers)))
        else:
            last = key
    return found


def _masked(data: bytes, handlers: Handlers) -> Raw:
    members = json.envelope(data)
    tools: list[Raw] = []
    for tool in _list(members["tools"]):
        handler = handlers.for_type(_head(tool).type)
        tools.append(tool if handler is None else handler.masked(tool))
    return Raw(json.encode({**members, "tools": tools}))


class _Head(msgspec.Struct):
    type: str = ""
    server_label: str | None = None


_head = json.decoder(_Head)
_list = json.decoder(list[Raw])


class _Tools(msgspec.Struct):
    tools: Any = None


_decode = json.decoder(_Tools)


def _tools(data: bytes) -> Any:
    return _decode(data).tools
