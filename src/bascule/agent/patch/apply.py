# ruff: noqa: PTH -- pathlib cannot work from an open folder
"""Writing a planned patch: all of it or nothing, also when the machine stops in between.

New contents are written beside the files first. Then a journal says what is about to happen, the old
files get a second name, and the new ones take their places one by one. What fails on the way is undone
at once; what is cut off is undone by whoever looks at the journal next (`recover`).

Folders are opened from the root on, and none of them may be a link: whoever judged the patch has seen
where it goes, and a link that takes a folder's place afterwards leads nowhere.
"""

import contextlib
import hashlib
import os
import secrets
import shutil
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import msgspec

from bascule.agent.patch.files import Disk, Placed, read
from bascule.agent.patch.plan import Change, PatchFailed

_JOURNAL: Final = ".journal"


class _Step(msgspec.Struct):
    """One file's part. `old` is the second name of what was there, `new` the first name of what
    comes, both beside it."""

    path: str
    old: str | None
    new: str | None
    inode: int | None = None
    """Of the new file, so that nothing else is taken away that stands there meanwhile."""


class _Journal(msgspec.Struct):
    steps: list[_Step]
    folders: list[str] = []
    """Those made for new files, outer ones first."""
    done: bool = False
    """Whether all is written, and only second names are left to be taken away."""


_read_journal = msgspec.json.Decoder(_Journal).decode


class _Folders:
    """Open folders, by path. Closed when it is left."""

    def __init__(self) -> None:
        self._open: dict[Path, int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for fd in self._open.values():
            os.close(fd)

    def of(self, path: Path, *, make: bool = False) -> int:
        """The folder that a file is in. Raises OSError where it is none, or there is a link on the way;
        FileNotFoundError where it is missing, unless it is to be made."""
        folder = path.parent
        if folder not in self._open:
            self._open[folder] = _opened(folder, make=make)
        return self._open[folder]


def _opened(folder: Path, *, make: bool) -> int:
    flags = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open("/", flags)
    for part in folder.parts[1:]:
        above = fd
        try:
            if make:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(part, dir_fd=above)
            fd = os.open(part, flags, dir_fd=above)
        finally:
            os.close(above)
    return fd


class Applier:
    """Writes patches. `journals` is a folder of the agent's own, out of the commands' reach."""

    def __init__(self, journals: Path) -> None:
        self._journals = journals

    def apply(self, changes: Sequence[Change], disk: Disk) -> None:
        """Raises PatchFailed: then everything is as it was."""
        self.recover()
        placed = [Placed(c.path, disk.real(c.path), c.before, c.after) for c in changes]
        with _Folders() as folders:
            for one in placed:
                if _now(one, folders) != one.before:
                    raise PatchFailed(
                        f"'{one.shown}' was changed meanwhile: read it again, and write the patch anew."
                    )
            if placed:
                self._write(placed, folders)

    def _write(self, placed: Sequence[Placed], folders: _Folders) -> None:
        journal = self._journals / f"{secrets.token_hex(8)}{_JOURNAL}"
        plan = _Journal([_step(one) for one in placed])
        try:
            plan.folders = _missing_folders(placed)
            self._journals.mkdir(parents=True, exist_ok=True)
            _write_journal(journal, plan)
            for one, step in zip(placed, plan.steps, strict=True):
                _prepare(one, step, folders)
            _write_journal(journal, plan)
            for step in plan.steps:
                _take_place(step, folders)
            plan.done = True
            _write_journal(journal, plan)
        except OSError as e:
            plan.done = False
            _undo(plan)
            journal.unlink(missing_ok=True)
            told = f"The patch could not be written: {e.strerror}. Nothing was changed."
            raise PatchFailed(told) from e
        except BaseException:
            plan.done = False
            _undo(plan)
            journal.unlink(missing_ok=True)
            raise
        _undo(plan)
        journal.unlink(missing_ok=True)

    def recover(self) -> list[str]:
        """Undo what was cut off; the files that are again as they were."""
        undone: list[str] = []
        with contextlib.suppress(FileNotFoundError):
            for path in sorted(self._journals.glob(f"*{_JOURNAL}")):
                try:
                    journal = _read_journal(path.read_bytes())
                except msgspec.DecodeError:
                    # The journal itself was cut off: nothing had begun.
                    journal = _Journal([])
                undone += _undo(journal)
                path.unlink(missing_ok=True)
        return undone


def journals_of(folder: Path, workspace: Path) -> Path:
    """Where the journals of a workspace are, below the agent's own folder."""
    digest = hashlib.sha256(os.fsencode(os.path.realpath(workspace))).hexdigest()[:16]
    return folder / "journals" / digest


# --- forward


def _step(one: Placed) -> _Step:
    mark = secrets.token_hex(6)
    return _Step(
        str(one.real),
        None if one.before is None else f".bascule-{mark}.old",
        None if one.after is None else f".bascule-{mark}.new",
    )


def _missing_folders(placed: Sequence[Placed]) -> list[str]:
    missing: dict[str, None] = {}
    for one in placed:
        if one.after is None:
            continue
        for folder in reversed(one.real.parents):
            if not folder.exists():
                missing[str(folder)] = None
    return list(missing)


def _now(one: Placed, folders: _Folders) -> bytes | None:
    """What is there."""
    try:
        return read(one.real.name, one.shown, folders.of(one.real))
    except FileNotFoundError:
        return None  # nor is its folder
    except OSError as e:
        raise PatchFailed(f"'{one.shown}' cannot be reached: {e.strerror}.") from None


def _prepare(one: Placed, step: _Step, folders: _Folders) -> None:
    """The new content beside its place, with the old one's permissions."""
    fd, name = folders.of(one.real, make=one.after is not None), one.real.name
    if step.old is not None:
        try:
            os.link(name, step.old, src_dir_fd=fd, dst_dir_fd=fd, follow_symlinks=False)
        except FileExistsError:
            raise
        except OSError:  # a file system without second names
            _copy(name, step.old, fd)
    if step.new is None or one.after is None:
        return
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_EXCL
    mode = 0o666 if step.old is None else 0o600  # until it has the old one's
    with os.fdopen(os.open(step.new, flags, mode, dir_fd=fd), "wb") as file:
        new = file.fileno()
        file.write(one.after)
        file.flush()
        if step.old is not None:
            about = os.stat(name, dir_fd=fd, follow_symlinks=False)
            with contextlib.suppress(PermissionError):
                os.fchown(new, about.st_uid, about.st_gid)
            os.fchmod(new, about.st_mode & 0o7777)
        os.fsync(new)
        step.inode = os.fstat(new).st_ino


def _copy(name: str, copy: str, fd: int) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_EXCL
    with (
        os.fdopen(os.open(name, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=fd), "rb") as source,
        os.fdopen(os.open(copy, flags, 0o600, dir_fd=fd), "wb") as target,
    ):
        shutil.copyfileobj(source, target)
        os.fchmod(target.fileno(), os.fstat(source.fileno()).st_mode & 0o7777)


def _take_place(step: _Step, folders: _Folders) -> None:
    path = Path(step.path)
    fd = folders.of(path)
    if step.new is None:
        os.unlink(path.name, dir_fd=fd)
    else:
        os.replace(step.new, path.name, src_dir_fd=fd, dst_dir_fd=fd)


def _write_journal(path: Path, journal: _Journal) -> None:
    """As a whole, and on the disk."""
    part = path.with_suffix(".part")
    with part.open("wb") as file:
        file.write(msgspec.json.encode(journal))
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)


# --- back


def _undo(journal: _Journal) -> list[str]:
    """In whatever state it is; of one that is done, take away the second names. The files that had been
    changed."""
    undone: list[str] = []
    with _Folders() as folders:
        for step in reversed(journal.steps):
            path = Path(step.path)
            try:
                fd = folders.of(path)
            except OSError:
                continue  # the folder is not there, or something else has its name
            if not journal.done and _undo_step(step, path.name, fd):
                undone.append(step.path)
            for name in (step.old, step.new):
                if name is not None:
                    with contextlib.suppress(OSError):
                        os.unlink(name, dir_fd=fd)
        for folder in () if journal.done else reversed(journal.folders):
            with contextlib.suppress(OSError):
                os.rmdir(Path(folder).name, dir_fd=folders.of(Path(folder)))
    return undone


def _undo_step(step: _Step, name: str, fd: int) -> bool:
    """Whether there was something to undo. What somebody else has put there meanwhile stays."""
    here, old = _about(name, fd), None if step.old is None else _about(step.old, fd)
    new = here is not None and here.st_ino == step.inode
    if step.old is not None and old is not None:
        kept = here is not None and os.path.samestat(here, old)
        if kept or not (new or here is None):
            return False
        os.replace(step.old, name, src_dir_fd=fd, dst_dir_fd=fd)
        return True
    if step.old is None and new:
        os.unlink(name, dir_fd=fd)
        return True
    return False


def _about(name: str, fd: int) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=fd, follow_symlinks=False)
    except OSError:
        return None
