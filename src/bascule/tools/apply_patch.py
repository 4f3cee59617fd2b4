"""`apply_patch`: changes to files, which the client makes."""

from collections.abc import Sequence
from typing import ClassVar, Final, Literal

import msgspec
from msgspec import Raw

from bascule.protocols import json
from bascule.protocols.responses.items import Flat, Item
from bascule.toolkit.handler import Tool, ToolHandler
from bascule.toolkit.names import Identity, Ledger
from bascule.toolkit.outcome import Call
from bascule.toolkit.projection import ItemWriter, Projection
from bascule.tools.apply_patch_call import ApplyPatchProjection
from bascule.tools.built_in import function_schema
from bascule.tools.items_only import answer, call, wire_name
from bascule.tools.options import Callers, declared, ignored_options, may_be_called

_DESCRIPTION: Final = """\
Creates, updates or deletes one file; make a call for each file. `operation` has a `type`, a `path` and, \
except for deletions, a `diff`.
- create_file: `diff` is the whole new file, every line of it with a `+` in front.
- update_file: `diff` consists of sections. A section begins with a line `@@`, which may name the class \
or function that the change is in, as in `@@ def main():`; no line numbers. Then come the lines in their \
order: a space in front of those that stay, `-` of those that go, `+` of those that are new. Give about \
three lines that stay before and after a change, exactly as they are in the file, so that its place is \
clear.
- delete_file: no `diff`.
An example of a diff for update_file:
@@ def greet():
     name = "you"
-    print("Hi")
+    print("Hello")
     return name"""
_PARAMETERS: Final = function_schema(
    ["operation"],
    operation={
        "type": "object",
        "properties": {
            "type": {"type": "string", "enum": ["create_file", "update_file", "delete_file"]},
            "path": {"type": "string", "description": "The file, relative to the workspace."},
            "diff": {"type": "string", "description": "The change, as described."},
        },
        "required": ["type", "path"],
        "additionalProperties": False,
    },
)


class ApplyPatchParams(msgspec.Struct):
    allowed_callers: Callers = None


class CreateFile(msgspec.Struct, tag_field="type", tag="create_file"):
    path: str
    diff: str


class UpdateFile(msgspec.Struct, tag_field="type", tag="update_file"):
    path: str
    diff: str


class DeleteFile(msgspec.Struct, tag_field="type", tag="delete_file"):
    path: str


class ApplyPatchCall(msgspec.Struct):
    """View of an `apply_patch_call`."""

    call_id: str
    operation: CreateFile | UpdateFile | DeleteFile


class ApplyPatchCallOutput(msgspec.Struct):
    """View of an `apply_patch_call_output`."""

    call_id: str
    status: Literal["completed", "failed"]
    output: str | None = None


_decode = json.decoder(ApplyPatchParams)


class ApplyPatchHandler(ToolHandler[ApplyPatchParams]):
    types: ClassVar[frozenset[str]] = frozenset({"apply_patch"})
    item_types: ClassVar[frozenset[str]] = frozenset(
        {"apply_patch_call", "apply_patch_call_output"}
    )

    def parse(self, declaration: Raw, param: str) -> ApplyPatchParams:
        return declared(_decode, declaration, param)

    def normalize(self, params: ApplyPatchParams) -> Sequence[Tool]:
        callers = params.allowed_callers
        return [
            Tool(
                Identity(None, "apply_patch", "apply_patch"),
                _DESCRIPTION,
                _PARAMETERS,
                offered=may_be_called(callers),
                ignored=ignored_options(callers),
            )
        ]

    def restore(self, writer: ItemWriter, call: Call, identity: Identity) -> Projection:
        return ApplyPatchProjection(writer, call)

    def flatten(self, item: Item, names: Ledger, param: str) -> Sequence[Flat]:
        if item.type == "apply_patch_call_output":
            said = item.view(ApplyPatchCallOutput, param)
            return [answer(said.call_id, _output(said))]
        asked = item.view(ApplyPatchCall, param)
        arguments = {"operation": asked.operation}
        return [call(asked.call_id, wire_name(names, "apply_patch"), arguments)]

    def answers(self, item: Item) -> str | None:
        if item.type != "apply_patch_call_output":
            return None
        return item.view(ApplyPatchCallOutput).call_id


def _output(view: ApplyPatchCallOutput) -> str:
    return f"{view.status}: {view.output}" if view.output else view.status
