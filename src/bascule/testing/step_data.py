"""Steps from plain data, as script files hold them."""

from collections.abc import Sequence
from typing import Any, TypeVar, cast

import msgspec

from bascule.testing import steps as kinds
from bascule.testing.steps import CONTENT, Content, Interleave, Json, Raw, Step, Text, Together

T = TypeVar("T")

KINDS: dict[str, type[Step]] = {
    "text": kinds.Text,
    "reasoning": kinds.Reasoning,
    "refusal": kinds.Refusal,
    "call": kinds.Call,
    "delta": kinds.Delta,
    "interleave": kinds.Interleave,
    "together": kinds.Together,
    "finish": kinds.Finish,
    "usage": kinds.Usage,
    "stream_error": kinds.StreamError,
    "eof": kinds.Eof,
    "cut": kinds.Cut,
    "stall": kinds.Stall,
    "delay": kinds.Delay,
    "gate": kinds.Gate,
    "chunk": kinds.Chunk,
    "data": kinds.Data,
    "comment": kinds.Comment,
    "half_line": kinds.HalfLine,
    "bad_json": kinds.BadJson,
    "flood": kinds.Flood,
    "raw": kinds.Raw,
}
"""The name of each step in a script file."""


class ScriptError(ValueError):
    """A script file is wrong; the message names the place."""


def convert(data: object, kind: type[T], place: str) -> T:
    """The data as this type, strictly.

    Raises `ScriptError`, which names the place within the data.
    """
    try:
        return msgspec.convert(data, kind)
    except msgspec.ValidationError as error:
        what, _, path = str(error).partition(" - at `$")
        where = f"{place}{path.removesuffix('`')}".removeprefix(".")
        raise ScriptError(f"{where}: {what}" if where else what) from error


def steps_from(data: Sequence[object], place: str) -> list[Step]:
    """The steps of a list: strings are texts, objects have one key, the kind of the step.

    Raises `ScriptError`.
    """
    return [_step(entry, f"{place}[{number}]") for number, entry in enumerate(data)]


def _step(data: object, place: str) -> Step:
    if isinstance(data, str):
        return Text(data)
    if not isinstance(data, dict) or len(cast("Json", data)) != 1:
        raise ScriptError(f"{place}: a step is a string or an object with one key, its kind")
    ((name, value),) = cast("Json", data).items()
    kind = KINDS.get(name)
    if kind is None:
        raise ScriptError(f"{place}: no step `{name}`; there are {', '.join(KINDS)}")
    place = f"{place}.{name}"
    if kind is Interleave or kind is Together:
        return kind(_content(value, place))
    if kind is Raw and isinstance(value, str):
        return Raw(value.encode())
    return convert(_fields(value, kind), kind, place)


def _fields(value: object, kind: type[Step]) -> object:
    """An object names the fields, `true` means the defaults, anything else is the first field."""
    if isinstance(value, dict):
        return cast("Json", value)
    if value is True:
        return {}
    names = kind.__struct_fields__
    return {names[0]: value} if names else value


def _content(value: Any, place: str) -> list[Content]:
    if not isinstance(value, list):
        raise ScriptError(f"{place}: a list of content steps is needed")
    steps = steps_from(cast("list[object]", value), place)
    for number, step in enumerate(steps):
        if not isinstance(step, CONTENT):
            raise ScriptError(f"{place}[{number}]: only content steps can stand here")
    return cast("list[Content]", steps)
