"""Patches, whichever way they come: verified as a whole, then written."""

import asyncio
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from bascule.agent.actions import ChangeFiles
from bascule.agent.approvals.script import script_of
from bascule.agent.calls import PatchPayload
from bascule.agent.handler import ToolFault, ToolInvocation
from bascule.agent.patch.files import Disk
from bascule.agent.patch.parse import BEGIN, END, MalformedPatch, parse
from bascule.agent.patch.plan import Change, PatchFailed, plan

_FAILED: Final = "apply_patch verification failed: "
_SHELL: Final = re.compile(
    r"""\A\s*(?:cd\s+(?P<folder>'[^']*'|"[^"$`\\]*"|[^\s;&|<>'"$`\\]+)\s*&&\s*)?"""
    r"""(?:apply_patch|applypatch)\s+<<-?\s*(?P<quote>['"]?)(?P<mark>\w+)(?P=quote)[ \t]*\n"""
    r"""(?P<patch>.*)\n\s*(?P=mark)\s*\Z""",
    re.DOTALL,
)


class WrittenPatch(msgspec.Struct, frozen=True):
    """A patch that a command is, and the folder that it goes to."""

    text: str
    folder: str | None


def detect(argv: Sequence[str]) -> WrittenPatch | None:
    """The patch that a command would apply, were there a program for it: `apply_patch` with the text,
    or a shell's script that is just this with a heredoc, perhaps after `cd FOLDER &&`."""
    if len(argv) == 2 and argv[0] in ("apply_patch", "applypatch"):
        return WrittenPatch(argv[1], None)
    script = script_of(argv)
    found = None if script is None else _SHELL.match(script)
    if found is None:
        return None
    folder = found["folder"]
    return WrittenPatch(found["patch"], None if folder is None else folder.strip("'\""))


class Planned(ChangeFiles, frozen=True, kw_only=True):
    """A patch that fits, and has not been written."""

    disk: Disk


async def planned(text: str, folder: Path) -> Planned:
    """Verify a patch as a whole. Raises ToolFault."""
    return await asyncio.to_thread(_planned, text, folder)


def _planned(text: str, folder: Path) -> Planned:
    lines = [line.strip() for line in text.strip().splitlines() if line.strip()]
    if lines == [BEGIN, END]:
        raise ToolFault("patch rejected: empty patch")
    disk = Disk(folder)
    try:
        changes = plan(disk.located(parse(text)), disk)
    except (MalformedPatch, PatchFailed) as e:
        raise ToolFault(f"{_FAILED}{e}") from None
    except OSError as e:
        raise ToolFault(f"{_FAILED}{e.strerror}") from None
    paths = [disk.real(path) for c in changes for path in (c.path, c.moved_from) if path]
    return Planned(paths=tuple(dict.fromkeys(paths)), cwd=folder, changes=tuple(changes), disk=disk)


async def write(patch: Planned, invocation: ToolInvocation) -> str:
    """Write it; what was done, in words. Raises ToolFault, and then nothing has changed."""
    applier = invocation.session.applier
    try:
        await asyncio.to_thread(applier.apply, patch.changes, patch.disk)
    except PatchFailed as e:
        raise ToolFault(str(e)) from None
    invocation.tracker.changed(patch.changes)
    return "\n".join(["Success. Updated the following files:", *map(_line, _shown(patch.changes))])


def operation(payload: PatchPayload) -> str:
    """A hosted call's operation, as a patch. Raises ToolFault."""
    path, diff = payload.path, payload.diff or ""
    if not path.strip() or "\n" in path or "\r" in path:
        raise ToolFault(f"{_FAILED}the operation has no path")
    match payload.type:
        case "create_file":
            lines = diff.removesuffix("\n").split("\n")
            if not all(line.startswith("+") for line in lines):
                lines = [f"+{line}" for line in lines]
            body = "\n".join([f"*** Add File: {path}", *lines])
        case "update_file":
            body = f"*** Update File: {path}\n{diff}".removesuffix("\n")
        case "delete_file":
            body = f"*** Delete File: {path}"
        case _:
            raise ToolFault(f"{_FAILED}there is no operation '{payload.type}'")
    return f"{BEGIN}\n{body}\n{END}"


def _shown(changes: Sequence[Change]) -> list[Change]:
    """A move is one change, under its new name."""
    moved = {change.moved_from for change in changes}
    return [c for c in changes if not (c.path in moved and c.after is None)]


def _line(change: Change) -> str:
    if change.after is None:
        return f"D {change.path}"
    new = change.before is None and change.moved_from is None
    return f"{'A' if new else 'M'} {change.path}"
