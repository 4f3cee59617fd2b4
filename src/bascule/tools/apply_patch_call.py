"""How a call of `apply_patch` is shown: its diff while the model writes it."""

from typing import Any, ClassVar, Final, cast

import msgspec

from bascule.protocols import json
from bascule.protocols.responses.events import ItemEvent
from bascule.protocols.responses.items import ItemStatus
from bascule.toolkit.outcome import Call
from bascule.toolkit.projection import ItemWriter
from bascule.tools.built_in import ONE_OBJECT, BuiltInCall
from bascule.tools.json_strings import Path, Piece, StringReader, objects_in, whole_characters

_KINDS: Final = ("create_file", "update_file", "delete_file")
_MEMBERS: Final = ("type", "path", "diff")


class DiffDelta(ItemEvent, tag="response.apply_patch_call_operation_diff.delta"):
    delta: str = ""


class DiffDone(ItemEvent, tag="response.apply_patch_call_operation_diff.done"):
    diff: str = ""


class PatchOperation(msgspec.Struct):
    type: str
    diff: str
    path: str


class Deletion(msgspec.Struct):
    type: str
    path: str


class ApplyPatchCallItem(msgspec.Struct, tag_field="type", tag="apply_patch_call"):
    id: str
    status: ItemStatus
    call_id: str
    operation: PatchOperation | Deletion


class ApplyPatchProjection(BuiltInCall):
    """Added when type and path are known, diff.delta as it comes, diff.done; a deletion has neither.

    The operation's members may stand at the top, the operation may be JSON in a string, and a diff
    may be a list of lines. A missing diff is an empty one. What another type, no path, or several
    operations mean is for the model to say again.
    """

    id_prefix: ClassVar[str] = "apc"

    def __init__(self, writer: ItemWriter, call: Call) -> None:
        super().__init__(writer, call)
        self._reader = StringReader()
        self._begun: dict[str, Path] = {}
        """Where each member stands that the model has begun to write."""
        self._texts: dict[str, str] = {"type": "", "path": ""}
        self._known: set[str] = set()
        self._diff: list[str] = []

    def arguments(self, fragment: str) -> None:
        for piece in self._reader.feed(fragment):
            name = _member(piece.path)
            if name is not None:
                self._take(name, piece)

    def _take(self, name: str, piece: Piece) -> None:
        if self._begun.setdefault(name, piece.path) != piece.path or name in self._known:
            return  # a second one of the same name: the end says what is wrong with that
        if name == "diff":
            if piece.text:
                self._diff.append(piece.text)
                self._delta(piece.text)
        else:
            self._texts[name] += piece.text
        if piece.last:
            self._known.add(name)
            if name != "diff" and {"type", "path"} <= self._known:
                self._show(self._texts["type"], self._texts["path"])

    def _show(self, kind: str, path: str) -> None:
        if kind not in _KINDS or not path:
            return
        self.shown = True
        self._texts = {"type": kind, "path": path}
        self.writer.added(self._item("in_progress", ""))
        self._delta("".join(self._diff))

    def _delta(self, text: str) -> None:
        if text and self.shown and self._texts["type"] != "delete_file":
            self.writer.event(DiffDelta(-1, "", 0, text))

    def finish_with(self, objects: list[dict[str, Any]]) -> str | None:
        if len(objects) > 1:
            return ONE_OBJECT
        operation = _operation(objects[0])
        if isinstance(operation, str):
            return operation
        kind, path, diff = operation
        if not self.shown:
            self._diff = [diff]
            self._show(kind, path)
        elif [self._texts["type"], self._texts["path"]] != [kind, path]:
            return "`operation` must be one object, and each of its members must be there once."
        elif not self._diff and diff:
            self._diff = [diff]
            self._delta(diff)
        elif "".join(self._diff) != diff:
            return "`diff` must be one string."
        self._finish("completed")
        return None

    def cut(self) -> None:
        if self.shown:
            self._finish("incomplete")

    def _finish(self, status: ItemStatus) -> None:
        diff = "".join(self._diff)
        if self._texts["type"] != "delete_file":
            self.writer.event(DiffDone(-1, "", 0, diff))
        self.writer.done(self._item(status, diff))

    def _item(self, status: ItemStatus, diff: str) -> ApplyPatchCallItem:
        kind, path = self._texts["type"], self._texts["path"]
        operation = Deletion(kind, path)
        if kind != "delete_file":
            operation = PatchOperation(kind, diff, path)
        return ApplyPatchCallItem(self.writer.item_id, status, self.call.call_id, operation)


def _member(path: Path) -> str | None:
    """Which member of the operation a string is."""
    if path[:1] == ("operation",):
        path = path[1:]
    name = path[0] if len(path) == 1 else None
    return name if isinstance(name, str) and name in _MEMBERS else None


def _operation(written: dict[str, Any]) -> tuple[str, str, str] | str:
    """Type, path and diff; or what is wrong."""
    found: Any = written.get("operation", written)
    if isinstance(found, str):
        inside = objects_in(found)
        found = inside[0] if not isinstance(inside, str) and len(inside) == 1 else None
    operation = json.as_object(found)
    if operation is None:
        return "`operation` must be one object."
    kind, path = operation.get("type"), operation.get("path")
    if kind not in _KINDS:
        return f"`operation.type` must be one of {', '.join(_KINDS)}."
    if not isinstance(path, str) or not path:
        return "`operation.path` must be the path of a file."
    diff = _diff(operation.get("diff"))
    if diff is None:
        return "`operation.diff` must be a string."
    return cast("str", kind), whole_characters(path), whole_characters(diff)


def _diff(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value or ""
    if not isinstance(value, list):
        return None
    lines = cast("list[Any]", value)
    if not all(isinstance(line, str) for line in lines):
        return None
    return "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)
