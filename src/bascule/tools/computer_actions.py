"""What can be done to a computer: the actions of `computer` calls, and how the model is told of them.

Source: the action types of openai-python.
"""

from collections.abc import Sequence
from typing import Any, Final, Literal

import msgspec


class Click(msgspec.Struct, tag_field="type", tag="click", omit_defaults=True):
    x: int
    y: int
    button: Literal["left", "right", "wheel", "back", "forward"]
    keys: list[str] | None = None


class DoubleClick(msgspec.Struct, tag_field="type", tag="double_click"):
    """`keys` is there in any case."""

    x: int
    y: int
    keys: list[str] | None = None


class Point(msgspec.Struct):
    x: int
    y: int


class Drag(msgspec.Struct, tag_field="type", tag="drag", omit_defaults=True):
    path: list[Point]
    keys: list[str] | None = None


class Keypress(msgspec.Struct, tag_field="type", tag="keypress"):
    keys: list[str]


class Move(msgspec.Struct, tag_field="type", tag="move", omit_defaults=True):
    x: int
    y: int
    keys: list[str] | None = None


class Screenshot(msgspec.Struct, tag_field="type", tag="screenshot"):
    pass


class Scroll(msgspec.Struct, tag_field="type", tag="scroll", omit_defaults=True):
    x: int
    y: int
    scroll_x: int
    scroll_y: int
    keys: list[str] | None = None


class Type(msgspec.Struct, tag_field="type", tag="type"):
    text: str


class Wait(msgspec.Struct, tag_field="type", tag="wait"):
    pass


Action = Click | DoubleClick | Drag | Keypress | Move | Screenshot | Scroll | Type | Wait

_INTEGER: Final = {"type": "integer"}
_STRING: Final = {"type": "string"}
_KEYS: Final = {"type": "array", "items": _STRING}
_AT: Final = {"x": _INTEGER, "y": _INTEGER}


def _kind(
    name: str, properties: dict[str, Any] | None = None, optional: Sequence[str] = ()
) -> dict[str, Any]:
    members: dict[str, Any] = {"type": {"type": "string", "enum": [name]}, **(properties or {})}
    return {
        "type": "object",
        "properties": members,
        "required": [member for member in members if member not in optional],
        "additionalProperties": False,
    }


_POINT: Final = {
    "type": "object",
    "properties": _AT,
    "required": ["x", "y"],
    "additionalProperties": False,
}
_BUTTON: Final = {"type": "string", "enum": ["left", "right", "wheel", "back", "forward"]}

ACTION_SCHEMA: Final[dict[str, Any]] = {
    "anyOf": [
        _kind("click", {**_AT, "button": _BUTTON, "keys": _KEYS}, ["keys"]),
        _kind("double_click", {**_AT, "keys": _KEYS}, ["keys"]),
        _kind("drag", {"path": {"type": "array", "items": _POINT}, "keys": _KEYS}, ["keys"]),
        _kind("keypress", {"keys": _KEYS}),
        _kind("move", {**_AT, "keys": _KEYS}, ["keys"]),
        _kind("screenshot"),
        _kind(
            "scroll", {**_AT, "scroll_x": _INTEGER, "scroll_y": _INTEGER, "keys": _KEYS}, ["keys"]
        ),
        _kind("type", {"text": _STRING}),
        _kind("wait"),
    ]
}

ACTIONS_TOLD: Final = (
    "Coordinates are pixels from the upper left corner of the screenshot. Actions: `click` (with a "
    "`button`), `double_click`, `move`, `drag` (along a `path` of points), `scroll` (by `scroll_x` and "
    "`scroll_y` pixels, down and right are positive, with the pointer at `x`, `y`), `keypress` (all "
    '`keys` together, such as ["CTRL", "c"]), `type` (a `text`), `wait` (a moment) and `screenshot`. '
    "`keys` of another action are held down during it."
)
