"""Writing a planned patch: all of it or nothing, also when the machine stops in between.

New contents are written beside the files first. Then a journal says what is about to happen, the old
files get a second name, and the new ones take their places one by one. What fails on the way is undone
at once; what is cut off is undone by whoever looks at the journal next (`recover`).
"""

import contextlib
import hashlib
import os
import secrets
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from bascule.agent.patch.files import Disk, Placed, read
from bascule.agent.patch.plan import Change, PatchFailed

_JOURNAL: Final = ".journal"


class _Step(msgspec.Struct):
    """One file's part. `old` is the second name of what was there; `new` the first name of what comes."""

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


class Applier:
    """Writes patches. `journals` is a folder of the agent's own, out of the commands' reach."""

    def __init__(self, journals: Path) -> None:
        self._journals = journals

    def apply(self, changes: Sequence[Change], disk: Disk) -> None:
        """Raises PatchFailed: then everything is as it was."""
        self.recover()
        placed = [Placed(c.path, disk.real(c.path), c.before, c.after) for c in changes]
        for one in placed:
            if read(one.real, one.shown) != one.before:
                raise PatchFailed(
                    f"'{one.shown}' was changed meanwhile: read it again, and write the patch anew."
                )
        if not placed:
            return
        journal = self._journals / f"{secrets.token_hex(8)}{_JOURNAL}"
        plan = _Journal([_step(one) for one in placed])
        try:
            plan.folders = _missing_folders(placed)
            self._journals.mkdir(parents=True, exist_ok=True)
            _write(journal, msgspec.json.encode(plan))
            for one, step in zip(placed, plan.steps, strict=True):
                _prepare(one, step)
            _write(journal, msgspec.json.encode(plan))
            for step in plan.steps:
                _take_place(step)
            _write(journal, msgspec.json.encode(msgspec.structs.replace(plan, done=True)))
        except (OSError, PatchFailed) as e:
            _undo(plan)
            journal.unlink(missing_ok=True)
            reason = e.strerror if isinstance(e, OSError) else str(e)
            raise PatchFailed(
                f"The patch could not be written: {reason}. Nothing was changed."
            ) from e
        except BaseException:
            _undo(plan)
            journal.unlink(missing_ok=True)
            raise
        for step in plan.steps:
            _forget(step.old)
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
        None if one.before is None else _beside(one.real, f"{mark}.old"),
        None if one.after is None else _beside(one.real, f"{mark}.new"),
    )


def _beside(path: Path, ending: str) -> str:
    return str(path.with_name(f".bascule-{ending}"))


def _missing_folders(placed: Sequence[Placed]) -> list[str]:
    missing: dict[str, None] = {}
    for one in placed:
        if one.after is None:
            continue
        for folder in reversed(one.real.parents):
            if not folder.exists():
                missing[str(folder)] = None
    return list(missing)


def _prepare(one: Placed, step: _Step) -> None:
    """The new content beside its place, with the old one's permissions."""
    if step.old is not None:
        try:
            Path(step.old).hardlink_to(one.real)
        except FileExistsError:
            raise
        except OSError:  # a file system without second names
            shutil.copy2(step.path, step.old, follow_symlinks=False)
    if step.new is None or one.after is None:
        return
    one.real.parent.mkdir(parents=True, exist_ok=True)
    new = Path(step.new)
    _write(new, one.after, exclusive=True)
    if step.old is not None:
        about = one.real.lstat()
        with contextlib.suppress(PermissionError):
            os.chown(new, about.st_uid, about.st_gid)
        new.chmod(about.st_mode & 0o7777)
    step.inode = new.stat().st_ino


def _take_place(step: _Step) -> None:
    if step.new is None:
        Path(step.path).unlink()
    else:
        Path(step.new).replace(step.path)


def _write(path: Path, data: bytes, *, exclusive: bool = False) -> None:
    """As a whole, and on the disk."""
    target = path if exclusive else path.with_suffix(".part")
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | (os.O_EXCL if exclusive else os.O_TRUNC)
    fd = os.open(target, flags, 0o666)
    with os.fdopen(fd, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    if not exclusive:
        target.replace(path)


# --- back


def _undo(journal: _Journal) -> list[str]:
    """In whatever state it is. The files that had been changed."""
    undone: list[str] = []
    if journal.done:
        for step in journal.steps:
            _forget(step.old)
        return undone
    for step in reversed(journal.steps):
        path = Path(step.path)
        if step.old is not None and os.path.lexists(step.old):
            kept = os.path.lexists(path) and os.path.samestat(path.lstat(), Path(step.old).lstat())
            # What somebody else has put there meanwhile stays.
            if not kept and (_is_new(step) or not os.path.lexists(path)):
                undone.append(step.path)
                Path(step.old).replace(path)
            _forget(step.old)
        elif step.old is None and _is_new(step):
            undone.append(step.path)
            path.unlink(missing_ok=True)
        _forget(step.new)
    for folder in reversed(journal.folders):
        with contextlib.suppress(OSError):
            Path(folder).rmdir()
    return undone


def _is_new(step: _Step) -> bool:
    """Whether what stands at the path is what this patch has put there."""
    try:
        return step.inode is not None and Path(step.path).lstat().st_ino == step.inode
    except OSError:
        return False


def _forget(path: str | None) -> None:
    if path is not None:
        with contextlib.suppress(OSError):
            Path(path).unlink()
