"""`shell`: a program and its arguments, run to its end."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final

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
from bascule.agent.processes.output import Cleaner, Printed, shown
from bascule.agent.processes.process import Process, Streams, start
from bascule.agent.running import action, folder, heard, intercepted, is_denial, is_patch, prepared
from bascule.agent.tools.escalation import PROPERTIES, Permissions

DEFAULT_SECONDS: Final = 60.0
TIMED_OUT: Final = 124
"""The exit code of a command that took too long, as that of `timeout`."""


class Arguments(msgspec.Struct):
    command: Annotated[list[str], Meta(min_length=1)]
    workdir: str | None = None
    timeout_ms: Annotated[float, Meta(gt=0)] | None = None
    sandbox_permissions: Permissions = "use_default"
    justification: str | None = None


class Shell(LocalHandler):
    name = ToolName(None, "shell")
    parallel: ClassVar[bool] = True

    def spec(self) -> ToolSpec:
        string: dict[str, Any] = {"type": "string"}
        return function(
            "shell",
            "Runs a program and returns its output and its exit code. Nothing is expanded: for pipes, "
            'variables and wildcards run ["bash", "-c", "..."].',
            schema(
                ["command"],
                command={
                    "type": "array",
                    "items": string,
                    "description": "The program and its arguments.",
                },
                workdir={**string, "description": "The folder to run it in."},
                timeout_ms={
                    "type": "number",
                    "description": "Milliseconds after which it is stopped; 60000 by default.",
                },
                **PROPERTIES,
            ),
        )

    def kind(self) -> ToolKind:
        return ToolKind.FUNCTION

    def alone(self, payload: ToolPayload) -> bool:
        """A patch in a command's words is a patch: what comes after it sees its files."""
        return is_patch(payload, Arguments, lambda a: a.command)

    async def action(self, invocation: ToolInvocation) -> Action:
        asked = arguments(invocation.payload, Arguments)
        return await action(
            RunCommand(
                argv=tuple(asked.command),
                cwd=folder(invocation, asked.workdir),
                escalated=asked.sandbox_permissions == "require_escalated",
                justification=asked.justification,
            )
        )

    async def handle(self, invocation: ToolInvocation) -> ToolOutput:
        asked = arguments(invocation.payload, Arguments)
        seconds = DEFAULT_SECONDS if asked.timeout_ms is None else asked.timeout_ms / 1000
        return await run_to_end(invocation, seconds)


async def run_to_end(
    invocation: ToolInvocation, seconds: float, env: Mapping[str, str] | None = None
) -> ToolOutput:
    """The command of an invocation's action, or the patch that it is; with a head of three lines."""
    began = time.monotonic()
    if (done := await intercepted(invocation)) is not None:
        return ToolOutput(content=_head(0, began) + done, exit_code=0)
    command = invocation.action
    if not isinstance(command, RunCommand):
        raise TypeError("a shell runs commands")
    process = await run(invocation, command.argv, command.cwd, seconds, env=env)
    limit = invocation.session.settings.tools.max_output_tokens
    text = shown(process.printing.take(), Cleaner(), limit, last=True)
    code = process.exit_code or 0
    if process.timed_out:
        code = TIMED_OUT
        text = f"command timed out after {seconds * 1000:.0f} milliseconds\n{text}"
    return ToolOutput(
        content=_head(code, began) + text,
        exit_code=code,
        denied=is_denial(invocation, code, text),
    )


class Ended(msgspec.Struct):
    """A command that has ended, or was ended."""

    process: Process
    timed_out: bool

    @property
    def exit_code(self) -> int | None:
        return self.process.exit_code

    @property
    def printing(self) -> Any:
        return self.process.printing

    def taken(self) -> tuple[Printed, Printed]:
        """Both outputs."""
        return self.process.printing.take(), self.process.errors.take()


async def run(
    invocation: ToolInvocation,
    argv: Sequence[str],
    cwd: Path,
    seconds: float,
    *,
    env: Mapping[str, str] | None = None,
    streams: Streams = "merged",
) -> Ended:
    """Run a command to its end, or until its time is over. Raises ToolFault."""
    ready = prepared(invocation, argv, cwd, env)
    try:
        process = await start(ready, streams, heard=heard(invocation))
    except OSError as e:
        raise ToolFault(f"the command could not be started: {e}") from None
    try:
        ended = await process.wait(seconds)
    except asyncio.CancelledError:
        await process.stop()
        raise
    # What it has left behind ends with it: nothing knows of it any more.
    await process.stop()
    return Ended(process, timed_out=not ended)


def _head(exit_code: int, began: float) -> str:
    seconds = time.monotonic() - began
    return f"Exit code: {exit_code}\nWall time: {seconds:.1f} seconds\nOutput:\n"
