"""What a call is about to do, in the words of whoever judges it."""

import shlex
from pathlib import Path

import msgspec

from bascule.agent.patch.plan import Change
from bascule.agent.turn_diff import file_diff


class RunCommand(msgspec.Struct, frozen=True, kw_only=True):
    """A command is run. `argv` is what it comes to, with its shell; `script` is what that shell reads.
    `each` are the commands that are run one after the other, where there are several."""

    argv: tuple[str, ...]
    cwd: Path
    script: str | None = None
    each: tuple[tuple[str, ...], ...] = ()
    escalated: bool = False
    """Whether the model asks to run it without the sandbox."""
    justification: str | None = None
    """The model's reason, as a question to the user."""
    prefix: tuple[str, ...] | None = None
    """The beginning of commands that the model would like to be allowed for good."""

    @property
    def judged(self) -> tuple[tuple[str, ...], ...]:
        """What is run, command by command: what several of them say as one text is another thing."""
        return self.each or (self.argv,)

    @property
    def shown(self) -> str:
        """As a person would type it."""
        return self.script if self.script is not None else shlex.join(self.argv)


class ChangeFiles(msgspec.Struct, frozen=True, kw_only=True):
    """A patch is written. Paths are real ones."""

    paths: tuple[Path, ...]
    cwd: Path
    changes: tuple[Change, ...] = ()

    @property
    def diff(self) -> str:
        """What a person reads of it."""
        return "".join(file_diff(c.path, c.before, c.after) for c in self.changes)

    @property
    def shown(self) -> str:
        return ", ".join(str(path) for path in self.paths)


class CallServer(msgspec.Struct, frozen=True, kw_only=True):
    """A tool of an MCP server is called, which runs outside of any sandbox."""

    server: str
    tool: str
    arguments: str
    read_only: bool
    asks: bool | None = None
    """What is configured of it: always ask, never, or nothing."""

    @property
    def shown(self) -> str:
        return f"{self.server}.{self.tool}({self.arguments})"


Action = RunCommand | ChangeFiles | CallServer
