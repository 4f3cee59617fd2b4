"""`write_stdin`: more of a command that goes on."""

import time
from typing import ClassVar, Final

import msgspec

from bascule.agent.actions import Action, RunCommand
from bascule.agent.calls import ToolKind, ToolName, ToolOutput
from bascule.agent.handler import (
    LocalHandler,
    ToolFault,
    ToolInvocation,
    ToolSpec,
    arguments,
    function,
    schema,
)
from bascule.agent.processes.commands import Running
from bascule.agent.running import heard
from bascule.agent.tools.exec_command import LONGEST, SHORTEST, Milliseconds, Tokens, report

_POLL_SHORTEST: Final = 5.0
_POLL_LONGEST: Final = 300.0
_INTERRUPT: Final = "\x03"
_CONTROLS: Final = "\x03\x04\r\n \t"
_PATIENT: Final = 10
"""Polls in a row without anything, after which the model is told to wait longer."""


class Arguments(msgspec.Struct, forbid_unknown_fields=True):
    session_id: int
    chars: str = ""
    yield_time_ms: Milliseconds | None = None
    max_output_tokens: Tokens | None = None


class WriteStdin(LocalHandler):
    parallel: ClassVar[bool] = True
    name = ToolName(None, "write_stdin")

    def spec(self) -> ToolSpec:
        return function(
            "write_stdin",
            "Writes to a command that exec_command started with a terminal, or waits for more output of "
            "one that goes on. \\u0003 interrupts it, with or without a terminal.",
            schema(
                ["session_id"],
                session_id={
                    "type": "number",
                    "description": "The session that exec_command named.",
                },
                chars={"type": "string", "description": "What to write; nothing to wait only."},
                yield_time_ms={
                    "type": "number",
                    "description": "Milliseconds to wait: 250 by default after writing, 5000 at least "
                    "and 300000 at most without.",
                },
                max_output_tokens={"type": "number", "description": "Tokens of output at most."},
            ),
        )

    def kind(self) -> ToolKind:
        return ToolKind.UNIFIED_EXEC

    async def action(self, invocation: ToolInvocation) -> Action | None:
        """What is typed into a shell is a command, too: of the boundary that the shell has."""
        asked = arguments(invocation.payload, Arguments)
        running = _found(invocation, asked.session_id)
        if not asked.chars.strip(_CONTROLS) or not running.process.interactive:
            return None
        return RunCommand(
            argv=("write_stdin", str(running.number), asked.chars),
            cwd=invocation.session.boundary.workspace,
            script=asked.chars,
            escalated=not running.confined,
            justification=f"It types this into command {running.number}, which has no sandbox."
            if not running.confined
            else None,
        )

    async def handle(self, invocation: ToolInvocation) -> ToolOutput:
        asked = arguments(invocation.payload, Arguments)
        began = time.monotonic()
        running = _found(invocation, asked.session_id)
        running.process.listen(heard(invocation))
        if asked.chars:
            _write(running, asked.chars)
        await running.process.wait(_seconds(asked))
        silent = not asked.chars and running.process.printing.size == 0
        output = report(invocation, running, began, asked.max_output_tokens)
        running.empty_polls = running.empty_polls + 1 if silent else 0
        if running.empty_polls >= _PATIENT and output.exit_code is None:
            note = (
                f"\nNote: it has printed nothing for {running.empty_polls} polls. Wait longer at a "
                f"time (yield_time_ms up to {int(_POLL_LONGEST * 1000)}), or do something else first."
            )
            return msgspec.structs.replace(output, content=output.text + note)
        return output


def _found(invocation: ToolInvocation, number: int) -> Running:
    """Raises ToolFault."""
    commands = invocation.session.commands
    running = commands.get(number)
    if running is None:
        code = commands.exit_code_of(number)
        told = "there is none of this number" if code is None else f"it has ended with code {code}"
        raise ToolFault(f"write_stdin failed: session {number}: {told}")
    return running


def _write(running: Running, chars: str) -> None:
    """Raises ToolFault where nobody reads it."""
    process = running.process
    if process.ended.is_set():
        return  # the report tells how
    if process.interactive:
        if process.write(chars.encode("utf-8", "replace")):
            return
        raise ToolFault("write_stdin failed: the command does not read its input")
    if chars == _INTERRUPT:
        process.interrupt()
        return
    raise ToolFault(
        "write_stdin failed: stdin is closed for this session; start the command with tty=true to "
        "write to it"
    )


def _seconds(asked: Arguments) -> float:
    given = None if asked.yield_time_ms is None else asked.yield_time_ms / 1000
    if asked.chars:
        return min(max(given or 0, SHORTEST), LONGEST)
    return min(max(given or 0, _POLL_SHORTEST), _POLL_LONGEST)
