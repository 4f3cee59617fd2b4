"""`computer`: clicks and keys of the client's, answered with a screenshot."""

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Final, Literal, cast

import msgspec
from msgspec import Meta, Raw

from bascule.protocols.responses.items import Flat, Item, ItemStatus, Part
from bascule.protocols.responses.parts import check_part
from bascule.toolkit.handler import Tool, ToolHandler
from bascule.toolkit.names import Identity, Ledger
from bascule.toolkit.outcome import Call
from bascule.toolkit.projection import ItemWriter, Projection
from bascule.tools.built_in import (
    ONE_OBJECT,
    BuiltInCall,
    converted,
    function_schema,
)
from bascule.tools.computer_actions import ACTION_SCHEMA, ACTIONS_TOLD, Action
from bascule.tools.items_only import answer, call, given, wire_name
from bascule.tools.options import declared

PREVIEW: Final = "computer_use_preview"
_NAME: Final = "computer"

_SEVERAL: Final = function_schema(
    ["actions"], actions={"type": "array", "items": ACTION_SCHEMA, "minItems": 1}
)
_ONE: Final = function_schema(["action"], action=ACTION_SCHEMA)

_Size = Annotated[int, Meta(ge=1)]


class Computer(msgspec.Struct, tag_field="type", tag="computer"):
    """It has no options."""


class ComputerUse(msgspec.Struct, tag_field="type", tag="computer_use"):
    """Another name of it."""


class Preview(msgspec.Struct, tag_field="type", tag=PREVIEW):
    """The older form, which makes one action at a time."""

    display_width: _Size
    display_height: _Size
    environment: Literal["windows", "mac", "linux", "ubuntu", "browser"]


ComputerParams = Computer | ComputerUse | Preview


class ComputerCall(msgspec.Struct):
    """View of a `computer_call`: one action, or several in order."""

    call_id: str
    action: dict[str, Any] | None = None
    actions: list[dict[str, Any]] | None = None


class ComputerCallOutput(msgspec.Struct):
    """View of a `computer_call_output`; the output is a screenshot."""

    call_id: str
    output: Part


class ComputerCallItem(
    msgspec.Struct, tag_field="type", tag="computer_call", omit_defaults=True, kw_only=True
):
    id: str
    status: ItemStatus
    call_id: str
    action: Action | None = None
    actions: list[Action] | None = None
    pending_safety_checks: list[Any]


_decode = msgspec.json.Decoder(ComputerParams).decode


class ComputerHandler(ToolHandler[ComputerParams]):
    types: ClassVar[frozenset[str]] = frozenset({"computer", "computer_use", PREVIEW})
    item_types: ClassVar[frozenset[str]] = frozenset({"computer_call", "computer_call_output"})

    def parse(self, declaration: Raw, param: str) -> ComputerParams:
        return declared(_decode, declaration, param)

    def normalize(self, params: ComputerParams) -> Sequence[Tool]:
        if isinstance(params, Preview):
            where = f"{params.display_width} by {params.display_height} pixels"
            told = (
                f"Does one thing on a computer of the user's ({params.environment}, {where}) and "
                f"returns a screenshot. {ACTIONS_TOLD}"
            )
            return [Tool(Identity(None, _NAME, PREVIEW), told, _ONE)]
        told = (
            "Does things on a computer of the user's, one after the other, and returns a screenshot. "
            f"{ACTIONS_TOLD}"
        )
        return [Tool(Identity(None, _NAME, _NAME), told, _SEVERAL)]

    def restore(self, writer: ItemWriter, call: Call, identity: Identity) -> Projection:
        return ComputerProjection(writer, call, one=identity.kind == PREVIEW)

    def flatten(self, item: Item, names: Ledger, param: str) -> Sequence[Flat]:
        if item.type == "computer_call_output":
            shown = item.view(ComputerCallOutput, param)
            check_part(shown.output, f"{param}.output")
            return [answer(shown.call_id, [shown.output])]
        asked = item.view(ComputerCall, param)
        arguments = given(action=asked.action, actions=asked.actions)
        wire = names.wire(Identity(None, _NAME, PREVIEW)) or wire_name(names, _NAME)
        return [call(asked.call_id, wire, arguments)]

    def answers(self, item: Item) -> str | None:
        if item.type != "computer_call_output":
            return None
        return item.view(ComputerCallOutput).call_id


class ComputerProjection(BuiltInCall):
    """Added and done. One action is a list of one, and the other way round."""

    id_prefix: ClassVar[str] = "cu"

    def __init__(self, writer: ItemWriter, call: Call, *, one: bool) -> None:
        """`one` is the form that has a single action."""
        super().__init__(writer, call)
        self._one = one

    def finish_with(self, objects: list[dict[str, Any]]) -> str | None:
        if self._one and len(objects) > 1:
            return ONE_OBJECT
        written: list[Any] = [action for fields in objects for action in _written(fields)]
        actions = converted(written, list[Action])
        if isinstance(actions, str):
            return actions
        if not actions:
            return "There is no action."
        if self._one and len(actions) > 1:
            return "`action` must be one action. Make one call for each."
        self._show(actions, "completed")
        return None

    def cut(self) -> None:
        self._show([], "incomplete")

    def _show(self, actions: list[Action], status: ItemStatus) -> None:
        def item(status: ItemStatus) -> ComputerCallItem:
            one = actions[0] if self._one and actions else None
            shown = None if self._one else [] if status == "in_progress" else actions
            return ComputerCallItem(
                id=self.writer.item_id,
                status=status,
                call_id=self.call.call_id,
                action=one,
                actions=shown,
                pending_safety_checks=[],
            )

        self.whole(item, status)


def _written(fields: dict[str, Any]) -> list[Any]:
    """The actions as the model gave them, in either form; an action by itself is one too."""
    for name in ("actions", "action"):
        if name in fields:
            value = fields[name]
            return cast("list[Any]", value) if isinstance(value, list) else [value]
    return [fields] if "type" in fields else []
