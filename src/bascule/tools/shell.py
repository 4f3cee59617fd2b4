"""`shell`: commands, and what each of them printed."""

from collections.abc import Sequence
from typing import ClassVar, Final

import msgspec
from msgspec import Raw

from bascule.protocols import json
from bascule.protocols.responses.items import Flat, Item
from bascule.toolkit.handler import Tool, ToolHandler
from bascule.toolkit.names import Identity, Ledger
from bascule.toolkit.outcome import Call
from bascule.toolkit.ownership import CLIENT, UNAVAILABLE, Ownership
from bascule.toolkit.projection import ItemWriter, Projection
from bascule.tools.built_in import function_schema
from bascule.tools.items_only import answer, call, given, wire_name
from bascule.tools.options import Callers, declared, ignored_options, may_be_called
from bascule.tools.shell_call import ShellProjection
from bascule.tools.shell_environment import Environment, LocalEnvironment, shown_environment

_DESCRIPTION: Final = (
    "Runs shell commands on the user's machine and returns the output and the exit code of each. Every "
    "command is run in a shell of its own, so a change of directory or a variable does not last from one "
    "to the next: join what belongs together with `&&`. Commands that ask for input cannot be answered."
)
_PARAMETERS: Final = function_schema(
    ["commands"],
    commands={
        "type": "array",
        "items": {"type": "string"},
        "description": "The commands, each as it would be typed into a shell.",
    },
    timeout_ms={
        "type": "integer",
        "description": "Milliseconds after which a command is stopped.",
    },
    max_output_length={
        "type": "integer",
        "description": "Characters of output to be returned at most, of each command.",
    },
)


class ShellParams(msgspec.Struct):
    """A declaration. Without an environment the client runs the commands, as with a local one."""

    environment: Environment | None = None
    allowed_callers: Callers = None


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
    max_output_length: int | None = None


_decode = json.decoder(ShellParams)


class ShellHandler(ToolHandler[ShellParams]):
    """Executed by the client, or in a container of the server's, for which there is nothing here."""

    types: ClassVar[frozenset[str]] = frozenset({"shell"})
    item_types: ClassVar[frozenset[str]] = frozenset({"shell_call", "shell_call_output"})

    def parse(self, declaration: Raw, param: str) -> ShellParams:
        return declared(_decode, declaration, param)

    def normalize(self, params: ShellParams) -> Sequence[Tool]:
        callers, environment = params.allowed_callers, params.environment
        local = isinstance(environment, LocalEnvironment)
        return [
            Tool(
                Identity(None, "shell", "shell"),
                _DESCRIPTION,
                _PARAMETERS,
                offered=may_be_called(callers),
                ignored=ignored_options(callers),
                members={"environment": {"type": "local"}} if local else {},
            )
        ]

    def owner(self, params: ShellParams, identity: Identity) -> Ownership:
        local = params.environment is None or isinstance(params.environment, LocalEnvironment)
        return CLIENT if local else UNAVAILABLE

    def masked(self, declaration: Raw) -> Raw:
        """Without the values of secrets."""
        return shown_environment(declaration, "environment")

    def restore(self, writer: ItemWriter, call: Call, identity: Identity) -> Projection:
        return ShellProjection(writer, call)

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
