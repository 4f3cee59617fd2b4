"""Sessions as they are kept: a file each, a line of JSON for each thing that happened."""

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Literal

import msgspec
from msgspec import Raw

from bascule.protocols import json
from bascule.telemetry.logger import Logger

_log = Logger("bascule.agent")

_ENDING: Final = ".jsonl"
Kind = Literal["session", "item", "turn"]


class About(msgspec.Struct, kw_only=True):
    """The first line: which session it is."""

    id: str
    cwd: str
    model: str
    created: float


class _Line(msgspec.Struct, omit_defaults=True):
    kind: Kind
    at: float
    data: Raw


_line = json.decoder(_Line)
_about = json.decoder(About)


class Rollout:
    """Writes one session's file. It is opened at the first line, and readable by its user alone."""

    def __init__(self, path: Path) -> None:
        self.path: Final = path
        self._fd: int | None = None

    def write(self, kind: Kind, data: bytes) -> None:
        """Each line with one call, so that none is ever half of two."""
        if self._fd is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
            self._fd = os.open(self.path, flags, 0o600)
            self._drop_half_a_line()
        line = json.encode(_Line(kind, time.time(), Raw(data))) + b"\n"
        os.write(self._fd, line)

    def _drop_half_a_line(self) -> None:
        """What was cut off the last time."""
        data = self.path.read_bytes()
        if data and not data.endswith(b"\n"):
            os.truncate(self.path, data.rfind(b"\n") + 1)

    def close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


def path_of(folder: Path, session_id: str) -> Path:
    return folder / "sessions" / f"{session_id}{_ENDING}"


def read(path: Path) -> tuple[About, list[bytes]]:
    """What a session was about, and its items. A last line that was cut off is left out.

    Raises OSError, ValueError for a file that is none.
    """
    about: About | None = None
    items: list[bytes] = []
    for line in _lines(path):
        if line.kind == "session":
            about = _about(line.data)
        elif line.kind == "item":
            items.append(bytes(line.data))
    if about is None:
        raise ValueError(f"{path} is no session")
    return about, items


def _lines(path: Path) -> Iterator[_Line]:
    data = path.read_bytes()
    ended = data.endswith(b"\n")
    lines = data.splitlines()
    for at, text in enumerate(lines):
        try:
            yield _line(text)
        except msgspec.DecodeError as e:
            if at == len(lines) - 1 and not ended:
                _log.warning("the last line of a session was cut off", path=str(path))
                return
            raise ValueError(f"{path}, line {at + 1}: {e}") from None


def find(folder: Path, wanted: str | None, cwd: Path | None = None) -> Path | None:
    """A session's file, by its id or the beginning of it; without one the last of those of a folder."""
    sessions = folder / "sessions"
    if wanted is not None:
        exact = path_of(folder, wanted)
        if exact.parent == sessions and exact.is_file():
            return exact
        found = sorted(p for p in sessions.glob(f"*{_ENDING}") if p.name.startswith(wanted))
        return found[0] if len(found) == 1 else None
    newest = sorted(sessions.glob(f"*{_ENDING}"), key=lambda p: p.stat().st_mtime, reverse=True)
    for path in newest:
        try:
            about, _ = read(path)
        except (OSError, ValueError):
            continue
        if cwd is None or about.cwd == str(cwd):
            return path
    return None
