"""Linux: bubblewrap makes the namespaces, a system call filter closes what they leave open."""

import functools
import os
import shutil
import stat
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from bascule.services.sandbox import seccomp
from bascule.services.sandbox.port import (
    TEMP,
    Boundary,
    Command,
    Prepared,
    SandboxError,
)

_TRY_SECONDS: Final = 10.0
_RUN: Final = Path("/run")
RESOLVER: Final = Path("/etc/resolv.conf")
"""Says who knows the addresses of names; it may lead to a file below `/run`."""
_POINTERS: Final = frozenset(
    {
        "DBUS_SESSION_BUS_ADDRESS",
        "DISPLAY",
        "DOCKER_HOST",
        "SSH_AUTH_SOCK",
        "SSH_AGENT_PID",
        "TMUX",
        "WAYLAND_DISPLAY",
        "XDG_RUNTIME_DIR",
    }
)
"""Variables that lead to services outside."""


class Bubblewrap:
    """Files are read-only but for the boundary's folders, `/tmp` is the boundary's own, processes see
    only each other and end with the first one, and sockets of services outside are hidden."""

    name = "bubblewrap"

    def __init__(self, program: str = "bwrap") -> None:
        self._program = program

    @functools.cached_property
    def _fault(self) -> str | None:
        found = shutil.which(self._program)
        if found is None:
            return "bubblewrap is not installed (Debian's package `bubblewrap`)"
        try:
            self._filter  # noqa: B018 -- made once
        except KeyError as e:
            return f"there is no system call filter for the machine {e}"
        root = Path("/")
        boundary = Boundary(mode="read-only", workspace=root, temp=TEMP)
        try:
            prepared = self._prepare(Command(argv=["true"], cwd=root, env=os.environ), boundary)
            try:
                tried = subprocess.run(  # noqa: S603 -- what is run is said above
                    prepared.argv,
                    capture_output=True,
                    pass_fds=prepared.fds,
                    stdin=subprocess.DEVNULL,
                    timeout=_TRY_SECONDS,
                    check=False,
                )
            finally:
                prepared.release()
        except (OSError, subprocess.TimeoutExpired) as e:
            return f"bubblewrap could not be started: {e}"
        if tried.returncode == 0:
            return None
        said = tried.stderr.decode(errors="replace").strip()
        return f"bubblewrap does not work here: {said or tried.returncode}"

    @functools.cached_property
    def _filter(self) -> bytes:
        return seccomp.program()

    def fault(self) -> str | None:
        return self._fault

    def prepare(self, command: Command, boundary: Boundary) -> Prepared:
        if boundary.mode == "danger-full-access":
            return Prepared(argv=command.argv, cwd=command.cwd, env=command.env)
        if (fault := self.fault()) is not None:
            raise SandboxError(fault)
        return self._prepare(command, boundary)

    def _prepare(self, command: Command, boundary: Boundary) -> Prepared:
        fd = seccomp.as_file(self._filter)
        env = {name: value for name, value in command.env.items() if name not in _POINTERS}
        argv = [
            self._program,
            *("--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts"),
            *("--unshare-cgroup-try", "--die-with-parent", "--cap-drop", "ALL"),
            *(() if boundary.network else ("--unshare-net",)),
            *("--seccomp", str(fd)),
            *_files(boundary),
            *("--chdir", os.path.realpath(command.cwd), "--"),
            *command.argv,
        ]
        return Prepared(argv=argv, cwd=Path("/"), env={**env, "TMPDIR": str(TEMP)}, fds=(fd,))


def _files(boundary: Boundary) -> Iterator[str]:
    writable = boundary.writable
    everything = writable[:1] == (Path("/"),)
    yield from ("--bind" if everything else "--ro-bind", "/", "/")
    yield from ("--dev", "/dev", "--proc", "/proc", "--tmpfs", str(_RUN))
    if boundary.network:
        resolver = os.path.realpath(RESOLVER)
        if Path(resolver).is_relative_to(_RUN):
            yield from ("--ro-bind-try", resolver, resolver)
    else:
        for socket in _sockets(boundary):
            yield from ("--ro-bind", "/dev/null", socket)
    if boundary.temp != TEMP:
        yield from ("--bind", str(boundary.temp), str(TEMP))
    for folder in boundary.folders:
        if folder in writable:
            yield from () if folder == Path("/") else ("--bind", str(folder), str(folder))
        elif folder.is_relative_to(TEMP) and folder != TEMP:
            yield from ("--ro-bind", str(folder), str(folder))
    if not writable and boundary.temp != TEMP:
        yield from ("--remount-ro", str(TEMP))
    for path in boundary.kept:
        if path.exists():
            # What something is mounted on cannot be renamed, so nothing else takes the path's place.
            for above in _between(path, writable):
                yield from ("--bind", str(above), str(above))
            yield from ("--ro-bind", str(path), str(path))


def _between(path: Path, folders: Sequence[Path]) -> list[Path]:
    """The folders from one that may be written to down to a path, both left out."""
    above = [p for p in path.parents if any(p.is_relative_to(f) and p != f for f in folders)]
    return above[::-1]


def _sockets(boundary: Boundary) -> Iterator[str]:
    """Sockets of services of this machine: who may read a file system may connect to them."""
    hidden = (_RUN, TEMP, Path("/proc"), Path("/dev"))
    try:
        lines = Path("/proc/net/unix").read_text().splitlines()
    except OSError:
        return
    seen: set[str] = set()
    for line in lines[1:]:
        words = line.split(maxsplit=7)
        if len(words) < 8 or not words[7].startswith("/") or words[7] in seen:
            continue
        path = words[7]
        seen.add(path)
        if any(Path(path).is_relative_to(folder) for folder in hidden) or _below(path, boundary):
            continue
        try:
            if stat.S_ISSOCK(os.lstat(path).st_mode):
                yield os.path.realpath(path)
        except OSError:
            continue


def _below(path: str, boundary: Boundary) -> bool:
    """Whether it is a socket of the workspace's own."""
    return any(Path(path).is_relative_to(folder) for folder in boundary.writable)
