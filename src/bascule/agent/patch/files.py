"""The files that a patch names, as they lie on the disk."""

import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from bascule.agent.patch.parse import AddFile, DeleteFile, Section, UpdateFile
from bascule.agent.patch.plan import PatchFailed

MAX_BYTES: Final = 64 * 1024 * 1024
"""Of one file; a patch is held in memory as a whole."""


class Disk:
    """See `plan.Files`. A path is known by the name under which the patch's author will find it: from
    `folder` on where it is inside, else in full; links on the way are followed first, so that one file
    has one name."""

    def __init__(self, folder: Path) -> None:
        self._folder: Final = Path(os.path.realpath(folder))
        self._real: dict[str, Path] = {}

    def located(self, sections: Sequence[Section]) -> list[Section]:
        """The sections with such paths. Raises PatchFailed for a link that would be deleted or moved."""
        located: list[Section] = []
        for section in sections:
            if isinstance(section, AddFile):
                located.append(AddFile(self._name(section.path), section.lines))
            elif isinstance(section, DeleteFile):
                self._refuse_link(section.path, "deleted")
                located.append(DeleteFile(self._name(section.path)))
            else:
                move = section.move_to
                if move is not None:
                    self._refuse_link(section.path, "moved")
                    move = self._name(move)
                located.append(UpdateFile(self._name(section.path), section.chunks, move))
        return located

    def real(self, path: str) -> Path:
        """Where it is, all links followed: as it was when this was first asked, whatever becomes of the
        links."""
        if path not in self._real:
            self._real[path] = Path(os.path.realpath(self._folder / path))
        return self._real[path]

    def read(self, path: str) -> bytes | None:
        return read(self.real(path), path)

    def _name(self, path: str) -> str:
        real = self.real(path)
        inside = real.is_relative_to(self._folder)
        name = str(real.relative_to(self._folder) if inside else real)
        self._real[name] = real
        return name

    def _refuse_link(self, path: str, what: str) -> None:
        if (self._folder / path).is_symlink():
            raise PatchFailed(f"'{path}' cannot be {what}: it is a symbolic link.")


def read(real: Path | str, shown: str, folder: int | None = None) -> bytes | None:
    """A regular file's bytes; None if nothing is there. `folder` is an open one, for a name in it.
    Raises PatchFailed."""
    try:
        fd = os.open(real, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    except FileNotFoundError:
        return None
    except OSError as e:
        raise PatchFailed(f"'{shown}' cannot be read: {e.strerror}.") from None
    try:
        about = os.fstat(fd)
        if stat.S_ISDIR(about.st_mode):
            raise PatchFailed(f"'{shown}' is a folder.")
        if not stat.S_ISREG(about.st_mode):
            raise PatchFailed(f"'{shown}' is no regular file.")
        if about.st_size > MAX_BYTES:
            raise PatchFailed(f"'{shown}' has {about.st_size} bytes; {MAX_BYTES} are allowed.")
        with os.fdopen(os.dup(fd), "rb") as file:
            return file.read()
    finally:
        os.close(fd)


class Placed(msgspec.Struct, frozen=True):
    """What becomes of one file, and where it is."""

    shown: str
    real: Path
    before: bytes | None
    after: bytes | None
