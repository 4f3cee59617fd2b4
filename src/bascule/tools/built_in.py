"""What the tools share that every Responses client knows by their type and runs itself: `shell`,
`local_shell`, `apply_patch`, `computer`."""

from collections.abc import Callable
from typing import Any, Literal, TypeVar

import msgspec
from msgspec import Raw

from bascule.protocols import json
from bascule.protocols.responses.items import ItemStatus
from bascule.toolkit.outcome import Call
from bascule.toolkit.projection import ItemWriter, Projection
from bascule.tools.json_strings import objects_in

A = TypeVar("A")

Status = Literal["in_progress", "completed", "incomplete"]


class BuiltInCall(Projection):
    """A call that is shown in one piece when its arguments are complete: added and done.

    Arguments of a wrong shape are understood where they can mean one thing only; else the call is
    not shown, and the model is told what is wrong. A call that the model's limit cut is shown as
    `incomplete` where an item of its type can say so without anything in it, else not at all: the
    response is incomplete then, and says why.
    """

    def __init__(self, writer: ItemWriter, call: Call) -> None:
        super().__init__(writer, call)
        self.shown = False

    def begin(self) -> None:
        """Nothing is shown before it is known to make sense."""

    def complete(self, arguments: str, status: ItemStatus) -> None:
        if status == "incomplete":
            self.cut()
            return
        objects = objects_in(arguments)
        self.fault = objects if isinstance(objects, str) else self.finish_with(objects)
        if self.fault is not None and self.shown:
            self.cut()

    def finish_with(self, objects: list[dict[str, Any]]) -> str | None:
        """Finish the item by all that the model wrote; else what is wrong, in words for the model."""
        raise NotImplementedError

    def cut(self) -> None:
        """Finish the item as incomplete, with what there is."""
        raise NotImplementedError

    def whole(self, item: Callable[[Status], Any], status: ItemStatus) -> None:
        """Show an item in one piece."""
        self.shown = True
        self.writer.added(item("in_progress"))
        self.writer.done(item(status))


ONE_OBJECT = "The arguments must be one JSON object. Make one call for each."


def converted(value: Any, type_: type[A]) -> A | str:
    """A decoded value as `type_`, numbers and booleans also from strings; else what is wrong."""
    try:
        return msgspec.convert(value, type_, strict=False)
    except msgspec.ValidationError as e:
        return f"The arguments do not fit the tool's parameters: {e}"


def natural(value: Any) -> int | None:
    """A limit that a model gave; None for one that makes no sense, which then does not limit."""
    found = converted(value, int)
    return found if isinstance(found, int) and found > 0 else None


def function_schema(required: list[str], **properties: Any) -> Raw:
    """A function's parameters."""
    return Raw(
        json.encode(
            {
                "type": "object",
                "properties": properties,
                "required": required,
                "additionalProperties": False,
            }
        )
    )
