"""The port: a command and a boundary go in, a command that cannot cross it comes out."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, Protocol

import msgspec

Mode = Literal["read-only", "workspace-write", "danger-full-access"]
"""What a command may change: nothing, the workspace and temporary files, or all that its user may."""

TEMP = Path("/tmp")  # noqa: S108 -- where commands look for it, and find a folder of their own
PROTECTED = (".git",)
"""Folders of a workspace whose files are run or obeyed outside of the sandbox later."""


class SandboxError(Exception):
    """A sandbox cannot be had, or cannot do what is asked of it; the reason is for a person."""

    loggable = True


class Boundary(msgspec.Struct, frozen=True, kw_only=True):
    """What a command may do. Paths are absolute."""

    mode: Mode
    workspace: Path
    roots: tuple[Path, ...] = ()
    """Further folders that may be written to, with `workspace-write`."""
    network: bool = False
    """Whether it may talk to others; without that it has a loopback interface of its own."""
    protected: tuple[Path, ...] = ()
    """Paths that are not written to, although they are within."""
    temp: Path
    """The folder that stands in for `/tmp`."""

    @property
    def folders(self) -> tuple[Path, ...]:
        """The workspace and the further folders, outer ones first; real paths."""
        real = {Path(os.path.realpath(path)) for path in (self.workspace, *self.roots)}
        return tuple(sorted(real, key=lambda path: len(path.parts)))

    @property
    def writable(self) -> tuple[Path, ...]:
        """Those of them that may be written to."""
        return self.folders if self.mode == "workspace-write" else ()

    @property
    def kept(self) -> tuple[Path, ...]:
        """What is not written to within the folders that may be; real paths."""
        inner = [folder / name for folder in self.writable for name in PROTECTED]
        real = [Path(os.path.realpath(path)) for path in self.protected]
        return (*inner, *(p for p in real if any(p.is_relative_to(f) for f in self.writable)))

    def outside(self, path: Path) -> Path:
        """Where a path that a command says lies in fact."""
        if self.mode == "danger-full-access" or not path.is_relative_to(TEMP):
            return path
        if any(path.is_relative_to(folder) for folder in self.folders):
            return path
        return self.temp / path.relative_to(TEMP)


class Command(msgspec.Struct, frozen=True, kw_only=True):
    argv: Sequence[str]
    cwd: Path
    env: Mapping[str, str]


class Prepared(msgspec.Struct, kw_only=True):
    """What is to be started. `fds` are passed on to it, and closed by `release` when it has started."""

    argv: Sequence[str]
    cwd: Path
    env: Mapping[str, str]
    fds: tuple[int, ...] = ()

    def release(self) -> None:
        for fd in self.fds:
            os.close(fd)
        self.fds = ()


class Sandbox(Protocol):
    """An adapter."""

    name: str

    def fault(self) -> str | None:
        """Why it cannot be had here; None where it works, which was tried. May block for some
        milliseconds the first time."""
        ...

    def prepare(self, command: Command, boundary: Boundary) -> Prepared:
        """Raises SandboxError."""
        ...
