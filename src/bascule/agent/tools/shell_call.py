"""`shell` in the shape that servers know: several commands, and an output for each."""

from typing import Any, ClassVar, Final

from bascule.agent.actions import Action, RunCommand
from bascule.agent.calls import Ran, ShellPayload, ToolKind, ToolName, ToolOutput
from bascule.agent.handler import LocalHandler, ToolFault, ToolInvocation, ToolSpec
from bascule.agent.patching import Planned
from bascule.agent.processes.output import TOKEN_BYTES, Cleaner, Printed, shown
from bascule.agent.running import action, folder, intercepted, is_denial, shell
from bascule.agent.tools.shell import DEFAULT_SECONDS, run

_NAME: Final = ToolName(None, "shell")


class ShellCall(LocalHandler):
    """The commands of a call run one after the other; one that fails does not stop the next."""

    name = _NAME
    takes: ClassVar[tuple[type, ...]] = (ShellPayload,)

    def __init__(self, *, declared: bool = True) -> None:
        self._declared = declared

    def spec(self) -> ToolSpec | None:
        declaration: dict[str, Any] = {"type": "shell", "environment": {"type": "local"}}
        return ToolSpec(declaration) if self._declared else None

    def kind(self) -> ToolKind:
        return ToolKind.SHELL

    async def action(self, invocation: ToolInvocation) -> Action:
        commands = _payload(invocation).commands
        if not commands:
            raise ToolFault("there are no commands")
        cwd = folder(invocation, None)
        if len(commands) == 1:
            return await action(RunCommand(argv=shell(commands[0]), cwd=cwd, script=commands[0]))
        together = "\n".join(commands)
        each = tuple(shell(command) for command in commands)
        return RunCommand(argv=shell(together), cwd=cwd, script=together, each=each)

    async def handle(self, invocation: ToolInvocation) -> ToolOutput:
        asked = _payload(invocation)
        if isinstance(invocation.action, Planned):
            done = await intercepted(invocation) or ""
            return ToolOutput(content=done, ran=[Ran(done, "", 0)], exit_code=0)
        cwd = folder(invocation, None)
        seconds = asked.timeout_ms / 1000 if asked.timeout_ms else DEFAULT_SECONDS
        limit = invocation.session.settings.tools.max_output_tokens * TOKEN_BYTES
        length = limit if asked.max_output_length is None else min(asked.max_output_length, limit)
        ran: list[Ran] = []
        for command in asked.commands:
            ended = await run(invocation, shell(command), cwd, seconds, streams="separate")
            stdout, stderr = (_text(printed, length) for printed in ended.taken())
            ran.append(Ran(stdout, stderr, None if ended.timed_out else ended.exit_code))
        codes = [one.exit_code for one in ran if one.exit_code]
        text = "\n".join(one.stdout + one.stderr for one in ran)
        code = codes[-1] if codes else 0
        return ToolOutput(
            content=text, ran=ran, exit_code=code, denied=is_denial(invocation, code, text)
        )


def _text(printed: Printed, length: int) -> str:
    """Within a number of characters; a token stands for some of them."""
    return shown(printed, Cleaner(), max(length // TOKEN_BYTES, 0), last=True)


def _payload(invocation: ToolInvocation) -> ShellPayload:
    if not isinstance(invocation.payload, ShellPayload):
        raise TypeError("shell has calls of its own")
    return invocation.payload
