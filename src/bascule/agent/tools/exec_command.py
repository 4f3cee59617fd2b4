"""`exec_command`: a command that may outlive its call."""

import asyncio
import secrets
import time
from typing import Annotated, ClassVar, Final

import msgspec
from msgspec import Meta

from bascule.agent.actions import Action, RunCommand
from bascule.agent.calls import ToolKind, ToolName, ToolOutput, ToolPayload
from bascule.agent.handler import (
    LocalHandler,
    ToolFault,
    ToolInvocation,
    ToolSpec,
    arguments,
    function,
    schema,
)
from bascule.agent.processes.commands import Running, TooMany
from bascule.agent.processes.output import Printed, shown, tokens
from bascule.agent.running import (
    action,
    folder,
    heard,
    intercepted,
    is_denial,
    is_patch,
    prepared,
    shell,
)
from bascule.agent.tools.escalation import PROPERTIES, Permissions

Milliseconds = Annotated[float, Meta(ge=0)]
Tokens = Annotated[float, Meta(ge=0)]

SHORTEST: Final = 0.25
LONGEST: Final = 30.0
"""Seconds that a call may wait for its command."""

_STRING: Final = {"type": "string"}


class Arguments(msgspec.Struct, forbid_unknown_fields=True):
    cmd: str
    workdir: str | None = None
    shell: str | None = None
    login: bool = False
    tty: bool = False
    yield_time_ms: Milliseconds = 10_000
    max_output_tokens: Tokens | None = None
    sandbox_permissions: Permissions = "use_default"
    justification: str | None = None
    prefix_rule: tuple[str, ...] | None = None


class ExecCommand(LocalHandler):
    parallel: ClassVar[bool] = True
    name = ToolName(None, "exec_command")

    def spec(self) -> ToolSpec:
        return function(
            "exec_command",
            "Runs a command in a shell, and returns its output and its exit code. A command that runs "
            "longer than `yield_time_ms` goes on: the output then names its session, and write_stdin "
            "waits for more.",
            schema(  # noqa: S604 -- an argument of this name
                ["cmd"],
                cmd={**_STRING, "description": "The command, as it would be typed into a shell."},
                workdir={
                    **_STRING,
                    "description": "The folder to run it in; the project's by default.",
                },
                shell={**_STRING, "description": "The shell's program; /bin/bash by default."},
                login={
                    "type": "boolean",
                    "description": "Whether it is a login shell; false by default.",
                },
                tty={
                    "type": "boolean",
                    "description": "Whether it gets a terminal, so that it can be written to. Without "
                    "one its input is empty.",
                },
                yield_time_ms={
                    "type": "number",
                    "description": "Milliseconds to wait for its end; 10000 by default, 30000 at most.",
                },
                max_output_tokens={
                    "type": "number",
                    "description": "Tokens of output at most; the middle is left out of more.",
                },
                **PROPERTIES,
                prefix_rule={
                    "type": "array",
                    "items": _STRING,
                    "description": "With `require_escalated`: the first words of commands that the user "
                    'could allow for good, such as ["git", "fetch"].',
                },
            ),
        )

    def kind(self) -> ToolKind:
        return ToolKind.UNIFIED_EXEC

    def alone(self, payload: ToolPayload) -> bool:
        """A patch in a command's words is a patch: what comes after it sees its files."""
        return is_patch(payload, Arguments, lambda a: shell(a.cmd))

    async def action(self, invocation: ToolInvocation) -> Action:
        asked = arguments(invocation.payload, Arguments)
        if not asked.cmd.strip():
            raise ToolFault("failed to parse function arguments: `cmd` is empty")
        return await action(
            RunCommand(
                argv=shell(asked.cmd, login=asked.login, program=asked.shell),
                cwd=folder(invocation, asked.workdir),
                script=asked.cmd,
                escalated=asked.sandbox_permissions == "require_escalated",
                justification=asked.justification,
                prefix=asked.prefix_rule or None,
            )
        )

    async def handle(self, invocation: ToolInvocation) -> ToolOutput:
        asked = arguments(invocation.payload, Arguments)
        began = time.monotonic()
        if (done := await intercepted(invocation)) is not None:
            return ToolOutput(content=header(began, done.encode(), exit_code=0) + done, exit_code=0)
        command = invocation.action
        if not isinstance(command, RunCommand):
            raise TypeError("exec_command runs commands")
        started = prepared(invocation, command.argv, command.cwd)
        session = invocation.session
        try:
            streams = "terminal" if asked.tty else "merged"
            running = await session.commands.start(started, streams, heard=heard(invocation))
        except (OSError, TooMany) as e:
            raise ToolFault(f"the command could not be started: {e}") from None
        running.confined = invocation.boundary == session.boundary
        try:
            seconds = min(max(asked.yield_time_ms / 1000, SHORTEST), LONGEST)
            await running.process.wait(seconds)
        except asyncio.CancelledError:
            await running.process.stop()
            session.commands.forget(running)
            raise
        return report(invocation, running, began, asked.max_output_tokens)


def report(
    invocation: ToolInvocation, running: Running, began: float, max_tokens: float | None
) -> ToolOutput:
    """What a command has printed since the last time, and whether it goes on. One that has ended is
    forgotten with this."""
    session, process = invocation.session, running.process
    limit = session.settings.tools.max_output_tokens
    wanted = limit if max_tokens is None else min(int(max_tokens), limit)
    printed: Printed = process.printing.take()
    ended = process.ended.is_set()
    process.listen(None)
    text = shown(printed, running.cleaner, wanted, last=ended)
    code = process.exit_code if ended else None
    if ended:
        session.commands.forget(running)
    head = header(began, printed, exit_code=code, session_id=running.number)
    return ToolOutput(content=head + text, exit_code=code, denied=is_denial(invocation, code, text))


def header(
    began: float,
    printed: Printed | bytes,
    *,
    exit_code: int | None,
    session_id: int | None = None,
) -> str:
    """The lines before the output, in the order that models of this tool know."""
    size = len(printed) if isinstance(printed, bytes) else printed.size
    state = (
        f"Process running with session ID {session_id}"
        if exit_code is None
        else f"Process exited with code {exit_code}"
    )
    return (
        f"Chunk ID: {secrets.token_hex(3)}\n"
        f"Wall time: {time.monotonic() - began:.4f} seconds\n"
        f"{state}\n"
        f"Original token count: {tokens(size)}\n"
        "Output:\n"
    )
