"""`TurnDiffTracker`: what the patches of one turn changed, as one unified diff in git's form."""

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from bascule.agent.line_diff import hunks
from bascule.agent.patch.plan import Change

_NOTHING: Final = "0" * 40
_MODE: Final = "100644"
_UNENDED: Final = "\\ No newline at end of file\n"


class TurnDiffTracker:
    """Told of each patch that was written. What commands change is not looked at."""

    def __init__(self) -> None:
        self._before: dict[str, bytes | None] = {}
        self._now: dict[str, bytes | None] = {}
        self._came_from: dict[str, str] = {}
        """Where the file of a path was at the beginning."""

    def changed(self, changes: Sequence[Change]) -> None:
        """A patch was written: its changes, in order."""
        origins = dict(self._came_from)
        for change in changes:
            self._before.setdefault(change.path, change.before)
            self._now[change.path] = change.after
            self._came_from.pop(change.path, None)
        for change in changes:
            if change.moved_from is not None:
                self._came_from[change.path] = origins.get(change.moved_from, change.moved_from)

    def diff(self) -> str:
        """Empty if nothing has changed in the end. Files that are no UTF-8 are told as binary."""
        renamed = self._renames()
        gone = set(renamed.values())
        texts: list[str] = []
        for path in sorted(self._now):
            if path in renamed:
                old = renamed[path]
                texts.append(_file(old, path, self._before[old], self._now[path]))
            elif path not in gone:
                texts.append(_file(path, path, self._before[path], self._now[path]))
        return "".join(texts)

    def _renames(self) -> dict[str, str]:
        """New paths, and the old path of each. A path that was there and is there again has not moved."""
        renamed: dict[str, str] = {}
        for path, old in sorted(self._came_from.items()):
            new = self._before.get(path) is None and self._now.get(path) is not None
            left = self._before.get(old) is not None and self._now.get(old) is None
            if new and left and old not in renamed.values():
                renamed[path] = old
        return renamed


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
    for line in hunks(old, new):
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
    old, new = Counter(before.split(b"\n")), Counter(after.split(b"\n"))
    shared = sum((old & new).values())
    return min(99, 200 * shared // (sum(old.values()) + sum(new.values())))


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
