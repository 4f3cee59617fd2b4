"""`local_shell`: one command, run by the client; the older form of `shell`."""

from collections.abc import Sequence
from typing import Any, ClassVar, Final, Literal

import msgspec
from msgspec import Raw

from bascule.protocols import json
from bascule.protocols.responses.items import Flat, Item, ItemStatus
from bascule.toolkit.handler import Tool, ToolHandler
from bascule.toolkit.names import Identity, Ledger
from bascule.toolkit.outcome import Call
from bascule.toolkit.projection import ItemWriter, Projection
from bascule.tools.built_in import (
    ONE_OBJECT,
    BuiltInCall,
    converted,
    function_schema,
    natural,
)
from bascule.tools.items_only import answer, call, call_id_of, given, wire_name
from bascule.tools.options import declared

_DESCRIPTION: Final = (
    "Runs one command on the user's machine and returns what it printed. `command` is the program and "
    'its arguments, each a string; nothing is expanded: for pipes, variables and wildcards use ["bash", '
    '"-lc", "..."].'
)
_STRING: Final = {"type": "string"}
_PARAMETERS: Final = function_schema(
    ["command"],
    command={"type": "array", "items": _STRING, "description": "The program and its arguments."},
    env={
        "type": "object",
        "additionalProperties": _STRING,
        "description": "Environment variables to set.",
    },
    timeout_ms={"type": "integer", "description": "Milliseconds after which it is stopped."},
    user={"type": "string", "description": "The user to run it as."},
    working_directory={"type": "string", "description": "The directory to run it in."},
)


class LocalShellParams(msgspec.Struct):
    """It has no options."""

    type: str


class Action(msgspec.Struct):
    command: list[str]
    env: dict[str, str] | None = None
    timeout_ms: int | None = None
    user: str | None = None
    working_directory: str | None = None


class LocalShellCall(msgspec.Struct):
    """View of a `local_shell_call`. Agents leave the call id out where there is an id."""

    action: Action
    call_id: str | None = None


class LocalShellCallOutput(msgspec.Struct):
    """View of a `local_shell_call_output`. The call's id stands in `call_id`, by the types in `id`."""

    output: str
    call_id: str | None = None


class ExecAction(msgspec.Struct, omit_defaults=True, tag_field="type", tag="exec"):
    command: list[str]
    env: dict[str, str]
    timeout_ms: int | None = None
    user: str | None = None
    working_directory: str | None = None


class LocalShellCallItem(msgspec.Struct, tag_field="type", tag="local_shell_call"):
    id: str
    status: ItemStatus
    call_id: str
    action: ExecAction


_decode = json.decoder(LocalShellParams)


class LocalShellHandler(ToolHandler[LocalShellParams]):
    types: ClassVar[frozenset[str]] = frozenset({"local_shell"})
    item_types: ClassVar[frozenset[str]] = frozenset(
        {"local_shell_call", "local_shell_call_output"}
    )

    def parse(self, declaration: Raw, param: str) -> LocalShellParams:
        return declared(_decode, declaration, param)

    def normalize(self, params: LocalShellParams) -> Sequence[Tool]:
        return [Tool(Identity(None, "local_shell", "local_shell"), _DESCRIPTION, _PARAMETERS)]

    def restore(self, writer: ItemWriter, call: Call, identity: Identity) -> Projection:
        return LocalShellProjection(writer, call)

    def flatten(self, item: Item, names: Ledger, param: str) -> Sequence[Flat]:
        if item.type == "local_shell_call_output":
            said = item.view(LocalShellCallOutput, param)
            return [answer(call_id_of(item, said.call_id), said.output)]
        asked = item.view(LocalShellCall, param)
        action = asked.action
        arguments = given(
            command=action.command,
            env=action.env or None,
            timeout_ms=action.timeout_ms,
            user=action.user,
            working_directory=action.working_directory,
        )
        wire = wire_name(names, "local_shell")
        return [call(call_id_of(item, asked.call_id), wire, arguments)]

    def answers(self, item: Item) -> str | None:
        if item.type != "local_shell_call_output":
            return None
        return call_id_of(item, item.view(LocalShellCallOutput).call_id)


class _Written(msgspec.Struct):
    """The model's arguments; a command in one string is for a shell to read."""

    command: list[str] | str
    env: dict[str, str] | None = None
    timeout_ms: Any = None
    user: str | None = None
    working_directory: str | None = None

    def action(self) -> ExecAction:
        command = self.command
        return ExecAction(
            ["bash", "-lc", command] if isinstance(command, str) else command,
            self.env or {},
            natural(self.timeout_ms),
            self.user or None,
            self.working_directory or None,
        )


class LocalShellProjection(BuiltInCall):
    """Added and done, as recorded. A command in one string is run by `bash -lc`."""

    id_prefix: ClassVar[str] = "lsh"

    def finish_with(self, objects: list[dict[str, Any]]) -> str | None:
        if len(objects) > 1:
            return ONE_OBJECT
        written = converted(objects[0], _Written)
        if isinstance(written, str):
            return written
        if not written.command:
            return "`command` is empty."
        self._show(written.action(), "completed")
        return None

    def cut(self) -> None:
        self._show(ExecAction([], {}), "incomplete")

    def _show(self, action: ExecAction, status: Literal["completed", "incomplete"]) -> None:
        def item(status: ItemStatus) -> LocalShellCallItem:
            shown = ExecAction([], {}) if status == "in_progress" else action
            return LocalShellCallItem(self.writer.item_id, status, self.call.call_id, shown)

        self.whole(item, status)
