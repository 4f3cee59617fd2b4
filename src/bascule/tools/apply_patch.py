"""`apply_patch`: changes to files, which the client makes."""

from collections.abc import Sequence
from typing import ClassVar, Literal

import msgspec
from msgspec import Raw

from bascule.protocols import json
from bascule.protocols.responses.items import Flat, Item
from bascule.toolkit.names import Ledger
from bascule.tools.hosted import HostedHandler, declared
from bascule.tools.items_only import answer, call, wire_name


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


class ApplyPatchHandler(HostedHandler[None]):
    kind: ClassVar[str] = "apply_patch"
    types: ClassVar[frozenset[str]] = frozenset({"apply_patch"})
    item_types: ClassVar[frozenset[str]] = frozenset(
        {"apply_patch_call", "apply_patch_call_output"}
    )

    def parse(self, declaration: Raw, param: str) -> None:
        json.field(declared, declaration, param)

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
