"""`shell`: commands, and what each of them printed."""

from collections.abc import Sequence
from typing import ClassVar

import msgspec
from msgspec import Raw

from bascule.protocols import json
from bascule.protocols.responses.items import Flat, Item
from bascule.toolkit.names import Ledger
from bascule.tools.hosted import HostedHandler, declared
from bascule.tools.items_only import answer, call, given, wire_name


class Action(msgspec.Struct):
    commands: list[str]
    timeout_ms: int | None = None
    max_output_length: int | None = None


class ShellCall(msgspec.Struct):
    """View of a `shell_call`."""

    call_id: str
    action: Action


class Exit(msgspec.Struct, tag_field="type", tag="exit"):
    exit_code: int


class Timeout(msgspec.Struct, tag_field="type", tag="timeout"):
    pass


class Printed(msgspec.Struct):
    """What one command left."""

    outcome: Exit | Timeout
    stdout: str = ""
    stderr: str = ""


class ShellCallOutput(msgspec.Struct):
    """View of a `shell_call_output`."""

    call_id: str
    output: list[Printed]


class ShellHandler(HostedHandler[None]):
    """Executed by the client, or in a container of the server's; the items are the same."""

    kind: ClassVar[str] = "shell"
    types: ClassVar[frozenset[str]] = frozenset({"shell"})
    item_types: ClassVar[frozenset[str]] = frozenset({"shell_call", "shell_call_output"})

    def parse(self, declaration: Raw, param: str) -> None:
        json.field(declared, declaration, param)

    def flatten(self, item: Item, names: Ledger, param: str) -> Sequence[Flat]:
        if item.type == "shell_call_output":
            printed = item.view(ShellCallOutput, param)
            return [answer(printed.call_id, _output(printed.output))]
        asked = item.view(ShellCall, param)
        action = asked.action
        arguments = given(
            commands=action.commands,
            timeout_ms=action.timeout_ms,
            max_output_length=action.max_output_length,
        )
        return [call(asked.call_id, wire_name(names, "shell"), arguments)]

    def answers(self, item: Item) -> str | None:
        return item.view(ShellCallOutput).call_id if item.type == "shell_call_output" else None


def _output(output: Sequence[Printed]) -> str:
    return "\n\n".join(map(_one, output)) or "(no output)"


def _one(printed: Printed) -> str:
    outcome = printed.outcome
    ended = f"exit code {outcome.exit_code}" if isinstance(outcome, Exit) else "timed out"
    lines = [ended]
    for name, text in (("stdout", printed.stdout), ("stderr", printed.stderr)):
        if text:
            lines.append(f"{name}:\n{text}")
    return "\n".join(lines)
