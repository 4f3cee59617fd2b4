"""What all tools share that run commands: where, with what, and how the sandbox shows."""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from bascule.agent.actions import Action, RunCommand
from bascule.agent.calls import ToolPayload
from bascule.agent.environment import environment
from bascule.agent.handler import S, ToolFault, ToolInvocation, arguments
from bascule.agent.patching import Planned, detect, planned, write
from bascule.agent.processes.output import Cleaner
from bascule.agent.processes.process import Heard
from bascule.services.sandbox import Command, Prepared, SandboxError

_DENIALS: Final = re.compile(
    r"Read-only file system|Permission denied|Operation not permitted|Network is unreachable"
    r"|Temporary failure in name resolution|Could not resolve host|Name or service not known"
    r"|No route to host|getaddrinfo|EROFS|EACCES|EPERM",
    re.IGNORECASE,
)
_SHELL: Final = "/bin/bash"


def shell(script: str, *, login: bool = False, program: str | None = None) -> tuple[str, ...]:
    """The command that has a shell read a script."""
    default = _SHELL if os.path.exists(_SHELL) else "/bin/sh"  # noqa: PTH110 -- a constant
    return (program or default, "-lc" if login else "-c", script)


def folder(invocation: ToolInvocation, said: str | None) -> Path:
    """The folder that a command runs in. Raises ToolFault for one that is none."""
    workspace = invocation.session.boundary.workspace
    path = workspace if not said else workspace / Path(said).expanduser()
    if not path.is_dir():
        raise ToolFault(f"the folder '{said}' does not exist")
    return path


async def action(command: RunCommand) -> Action:
    """What a command is about to do: a patch in its words is a patch. Raises ToolFault."""
    patch = detect(command.argv)
    if patch is None:
        return command
    into = command.cwd if patch.folder is None else command.cwd / patch.folder
    return await planned(patch.text, into)


def is_patch(payload: ToolPayload, type_: type[S], argv: Callable[[S], Sequence[str]]) -> bool:
    """Whether a function's call runs a command that is a patch."""
    try:
        return detect(argv(arguments(payload, type_))) is not None
    except ToolFault:
        return False


async def intercepted(invocation: ToolInvocation) -> str | None:
    """Write the patch that a command is; None for any other command."""
    act = invocation.action
    return await write(act, invocation) if isinstance(act, Planned) else None


def prepared(
    invocation: ToolInvocation,
    argv: Sequence[str],
    cwd: Path,
    extra: Mapping[str, str] | None = None,
) -> Prepared:
    """The command within its boundary. Raises ToolFault."""
    session = invocation.session
    env = environment({**session.settings.env, **(extra or {})}, keep=session.settings.env_keep)
    try:
        command = Command(argv=argv, cwd=cwd, env=env)
        return session.sandbox.prepare(command, invocation.boundary)
    except SandboxError as e:
        raise ToolFault(f"the command was not run: {e}") from None


def heard(invocation: ToolInvocation) -> Heard:
    """Passes on what is printed, as text that no terminal obeys."""
    cleaner = Cleaner()
    return lambda data: invocation.live(cleaner.feed(data))


def is_denial(invocation: ToolInvocation, exit_code: int | None, text: str) -> bool:
    """Whether a command looks as if the sandbox had stopped it."""
    if not exit_code or invocation.boundary.mode == "danger-full-access":
        return False
    return _DENIALS.search(text) is not None
