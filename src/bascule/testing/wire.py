"""Events as bytes, and the bytes as writes."""

from collections.abc import Iterable, Iterator
from itertools import pairwise

import msgspec

from bascule.testing.answer import Wire
from bascule.testing.steps import Comment, Flow
from bascule.testing.stream import Event, Item


def writes(items: list[Item], wire: Wire) -> Iterator[bytes | Flow]:
    """The items in order: events encoded, grouped and split as the wire says, waits between them."""
    group: list[bytes] = []
    last = _last_event(items)
    for number, item in enumerate(items):
        if isinstance(item, bytes):
            yield from _flush(group)
            yield item
        elif isinstance(item, Event | Comment):
            encoded = (
                _shortened(_encoded(item, wire), wire) if number == last else _encoded(item, wire)
            )
            if wire.split:
                yield from pieces(encoded, wire.split)
                continue
            group.append(encoded)
            if len(group) >= wire.group:
                yield from _flush(group)
        else:
            yield from _flush(group)
            yield item
    yield from _flush(group)


def pieces(data: bytes, offsets: Iterable[int]) -> list[bytes]:
    """The data cut at these offsets; those beyond its end are ignored."""
    edges = [0, *sorted({at for at in offsets if 0 < at < len(data)}), len(data)]
    return [data[start:end] for start, end in pairwise(edges)]


def _flush(group: list[bytes]) -> Iterator[bytes]:
    if group:
        yield b"".join(group)
        group.clear()


def _last_event(items: list[Item]) -> int:
    return max((n for n, item in enumerate(items) if isinstance(item, Event)), default=-1)


def _encoded(item: Event | Comment, wire: Wire) -> bytes:
    if isinstance(item, Comment):
        return f":{item.content}{wire.line_end}{wire.line_end}".encode()
    space = " " if wire.space else ""
    lines = [f"event:{space}{item.name}"] if item.name else []
    lines += [f"data:{space}{line}" for line in _data(item, wire).split("\n")]
    return (wire.line_end.join(lines) + wire.line_end * 2).encode()


def _data(event: Event, wire: Wire) -> str:
    if isinstance(event.data, str):
        return event.data
    encoded = msgspec.json.encode(event.data)
    return (msgspec.json.format(encoded, indent=2) if wire.multiline else encoded).decode()


def _shortened(event: bytes, wire: Wire) -> bytes:
    dropped = {"full": 0, "no_blank": 1, "no_newline": 2}[wire.last_frame]
    return event[: len(event) - dropped * len(wire.line_end)]
