"""A session's items: what goes to the model, and what is kept of it."""

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from bascule.agent.calls import OUTPUTS, ToolCall, aborted, read_call
from bascule.protocols import json

_ANSWERS: Final = frozenset(OUTPUTS.values())


class _Head(msgspec.Struct):
    type: str = "message"
    call_id: str | None = None


_head = json.decoder(_Head)


class History:
    """Items in order, each as its bytes. Only ever added to, so that a prompt begins as the one before."""

    def __init__(self, items: Iterable[bytes] = ()) -> None:
        self._items: list[bytes] = list(items)

    def __len__(self) -> int:
        return len(self._items)

    @property
    def items(self) -> Sequence[bytes]:
        return self._items

    def add(self, item: bytes) -> None:
        self._items.append(item)

    def encoded(self) -> bytes:
        """As a request's `input`."""
        return b"[" + b",".join(self._items) + b"]"

    def orphans(self) -> list[ToolCall]:
        """Calls that nothing answers."""
        answered: set[str] = set()
        calls: dict[str, ToolCall] = {}
        for item in self._items:
            head = _head(item)
            if head.type in _ANSWERS:
                answered.add(head.call_id or "")
            elif (call := read_call(item)) is not None:
                calls[call.call_id] = call
        return [call for call_id, call in calls.items() if call_id not in answered]

    def repair(self, text: str = "aborted") -> list[bytes]:
        """Answer calls that nothing answers: no endpoint takes a history that has some. Gives what was
        added."""
        added = [aborted(text).input_item(call) for call in self.orphans()]
        self._items += added
        return added


def message(role: str, text: str, images: Sequence[str] = ()) -> bytes:
    """A message of ours; images are URLs."""
    content = [{"type": "input_text", "text": text}]
    content += [{"type": "input_image", "image_url": url, "detail": "auto"} for url in images]
    return json.encode({"type": "message", "role": role, "content": content})
