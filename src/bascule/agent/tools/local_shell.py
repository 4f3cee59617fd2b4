"""`local_shell`: the older form of `shell`, which servers know of by itself.

See docs/decisions for what becomes of it: its calls are always served, it is declared only on request.
"""

from typing import ClassVar

from bascule.agent.actions import Action, RunCommand
from bascule.agent.calls import LocalShellPayload, ToolKind, ToolName, ToolOutput, ToolPayload
from bascule.agent.handler import LocalHandler, ToolFault, ToolInvocation, ToolSpec
from bascule.agent.patching import detect
from bascule.agent.running import action, folder
from bascule.agent.tools.shell import DEFAULT_SECONDS, run_to_end


class LocalShell(LocalHandler):
    """Implicit unless it is declared: a model may call it that was made for it."""

    name = ToolName(None, "local_shell")
    takes: ClassVar[tuple[type, ...]] = (LocalShellPayload,)
    parallel: ClassVar[bool] = True

    def __init__(self, *, declared: bool = False) -> None:
        self._declared = declared

    def spec(self) -> ToolSpec | None:
        return ToolSpec({"type": "local_shell"}) if self._declared else None

    def kind(self) -> ToolKind:
        return ToolKind.LOCAL_SHELL

    def alone(self, payload: ToolPayload) -> bool:
        """A patch in a command's words is a patch: what comes after it sees its files."""
        return isinstance(payload, LocalShellPayload) and detect(payload.command) is not None

    async def action(self, invocation: ToolInvocation) -> Action:
        asked = _payload(invocation)
        if not asked.command:
            raise ToolFault("the command is empty")
        if asked.user:
            raise ToolFault(f"commands cannot be run as the user '{asked.user}' here")
        cwd = folder(invocation, asked.working_directory)
        return await action(RunCommand(argv=tuple(asked.command), cwd=cwd))

    async def handle(self, invocation: ToolInvocation) -> ToolOutput:
        asked = _payload(invocation)
        seconds = asked.timeout_ms / 1000 if asked.timeout_ms else DEFAULT_SECONDS
        return await run_to_end(invocation, seconds, asked.env)


def _payload(invocation: ToolInvocation) -> LocalShellPayload:
    if not isinstance(invocation.payload, LocalShellPayload):
        raise TypeError("local_shell has calls of its own")
    return invocation.payload
