"""`local_shell`: one command, run by the client; the older form of `shell`."""

from collections.abc import Sequence
from typing import ClassVar

import msgspec
from msgspec import Raw

from bascule.protocols import json
from bascule.protocols.responses.items import Flat, Item
from bascule.toolkit.names import Ledger
from bascule.tools.hosted import HostedHandler, declared
from bascule.tools.items_only import answer, call, call_id_of, given, wire_name


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


class LocalShellHandler(HostedHandler[None]):
    kind: ClassVar[str] = "local_shell"
    types: ClassVar[frozenset[str]] = frozenset({"local_shell"})
    item_types: ClassVar[frozenset[str]] = frozenset(
        {"local_shell_call", "local_shell_call_output"}
    )

    def parse(self, declaration: Raw, param: str) -> None:
        json.field(declared, declaration, param)

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
