"""`TurnDiffTracker`: what the patches of one turn changed, as one unified diff in git's form."""

import difflib
import hashlib
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from bascule.agent.patch.plan import Change

_NOTHING: Final = "0" * 40
_MODE: Final = "100644"
_UNENDED: Final = "\\ No newline at end of file\n"


class _Tracked(msgspec.Struct):
    """`name` is where it began; content is None where there is no file."""

    name: str
    before: bytes | None
    now: bytes | None


class TurnDiffTracker:
    """Told of each patch that was written. What commands change is not looked at."""

    def __init__(self) -> None:
        self._files: dict[str, _Tracked] = {}
        """By the path where each is now."""

    def changed(self, changes: Sequence[Change]) -> None:
        """A patch was written: its changes, in order."""
        moved = {c.moved_from: c.path for c in changes if c.moved_from is not None}
        away: dict[str, _Tracked] = {}
        for change in changes:
            if change.path in moved:
                away[change.path] = self._files.pop(change.path, None) or _Tracked(
                    change.path, change.before, change.before
                )
        for change in changes:
            if change.moved_from is not None and change.moved_from in away:
                self._arrive(change, away[change.moved_from])
            elif change.path not in moved or change.after is not None:
                known = self._files.setdefault(
                    change.path, _Tracked(change.path, change.before, change.before)
                )
                known.now = change.after

    def _arrive(self, change: Change, tracked: _Tracked) -> None:
        """A file takes this place; what was here before is gone."""
        gone = self._files.pop(change.path, None)
        replaced = gone.before if gone is not None and gone.name == change.path else change.before
        if gone is not None and gone.name != change.path:
            replaced = None
            self._files[gone.name] = _Tracked(gone.name, gone.before, None)
        if replaced is not None:
            # It cannot be both a rename and a change of what was here.
            self._files[tracked.name] = _Tracked(tracked.name, tracked.before, None)
            self._files[change.path] = _Tracked(change.path, replaced, change.after)
            return
        tracked.now = change.after
        self._files[change.path] = tracked

    def diff(self) -> str:
        """Empty if nothing has changed in the end. Files that are no UTF-8 are told as binary."""
        return "".join(
            text
            for path, tracked in sorted(self._files.items())
            for text in [_file(tracked.name, path, tracked.before, tracked.now)]
        )


def file_diff(name: str, before: bytes | None, after: bytes | None) -> str:
    """One file's diff."""
    return _file(name, name, before, after)


def _file(old_name: str, new_name: str, before: bytes | None, after: bytes | None) -> str:
    if before is None and after is None:
        return ""
    if before == after and old_name == new_name:
        return ""
    old_name, new_name = old_name.lstrip("/"), new_name.lstrip("/")
    head = [f"diff --git {_quoted('a/' + old_name)} {_quoted('b/' + new_name)}\n"]
    if before is None:
        head.append(f"new file mode {_MODE}\n")
    elif after is None:
        head.append(f"deleted file mode {_MODE}\n")
    if old_name != new_name:
        head.append(f"similarity index {_similarity(before or b'', after or b'')}%\n")
        head += [f"rename from {_quoted(old_name)}\n", f"rename to {_quoted(new_name)}\n"]
    if before == after:
        return "".join(head)
    mode = "" if before is None or after is None else f" {_MODE}"
    head.append(f"index {_blob(before)}..{_blob(after)}{mode}\n")
    old = "/dev/null" if before is None else _quoted("a/" + old_name)
    new = "/dev/null" if after is None else _quoted("b/" + new_name)
    try:
        lines = list(_hunks(_lines(before or b""), _lines(after or b"")))
    except UnicodeDecodeError:
        return "".join([*head, f"Binary files {old} and {new} differ\n"])
    if not lines:  # an empty file comes or goes
        return "".join(head)
    return "".join([*head, f"--- {old}\n", f"+++ {new}\n", *lines])


def _hunks(old: list[str], new: list[str]) -> Iterator[str]:
    for line in list(difflib.unified_diff(old, new, n=3))[2:]:
        if line.endswith("\n"):
            yield line
        else:
            yield line + "\n"
            yield _UNENDED


def _lines(data: bytes) -> list[str]:
    text = data.decode()
    lines = text.split("\n")
    last = lines.pop()
    return [f"{line}\n" for line in lines] + ([last] if last else [])


def _blob(data: bytes | None) -> str:
    """git's name for a content."""
    if data is None:
        return _NOTHING
    return hashlib.sha1(b"blob %d\0%b" % (len(data), data), usedforsecurity=False).hexdigest()


def _similarity(before: bytes, after: bytes) -> int:
    if before == after:
        return 100
    old, new = before.split(b"\n"), after.split(b"\n")
    if len(old) + len(new) > 20_000:
        return 50
    return min(99, int(difflib.SequenceMatcher(None, old, new, autojunk=False).ratio() * 100))


def _quoted(name: str) -> str:
    """As git writes a path that holds what it escapes."""
    if name.isascii() and name.isprintable() and '"' not in name and "\\" not in name:
        return name
    signs: list[str] = []
    for byte in name.encode("utf-8", "surrogateescape"):
        if byte in (0x22, 0x5C):
            signs.append("\\" + chr(byte))
        elif 0x20 <= byte < 0x7F:
            signs.append(chr(byte))
        else:
            signs.append(f"\\{byte:03o}")
    return f'"{"".join(signs)}"'
