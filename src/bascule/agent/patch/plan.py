"""What a patch makes of files: all of it in memory, so that a patch which fits nowhere changes nothing."""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from bascule.agent.patch.match import Lines
from bascule.agent.patch.parse import AddFile, Chunk, DeleteFile, Section, Sign, UpdateFile


class PatchFailed(Exception):
    """Why a patch cannot be applied, in words for the model."""

    loggable = True


class Files(Protocol):
    """The files that a patch is about, by the paths that it says."""

    def read(self, path: str) -> bytes | None:
        """Its content; None if there is no file. Raises PatchFailed for what is none."""
        ...


class Change(msgspec.Struct, frozen=True):
    """What becomes of one path. `before` is None for a new file, `after` for one that goes."""

    path: str
    before: bytes | None
    after: bytes | None
    moved_from: str | None = None


def plan(sections: Sequence[Section], files: Files) -> list[Change]:
    """The changes, one for each path, in the order in which the patch first says them. Raises
    PatchFailed."""
    working = _Working(files)
    for section in sections:
        if isinstance(section, AddFile):
            working.put(section.path, _joined(section.lines))
        elif isinstance(section, DeleteFile):
            working.existing(section.path, "deleted")
            working.put(section.path, None)
        else:
            _update(section, working)
    return working.changes()


def _update(section: UpdateFile, working: "_Working") -> None:
    content = working.existing(section.path, "updated")
    updated = _updated(section.path, content, section.chunks)
    if section.move_to is None or section.move_to == section.path:
        working.put(section.path, updated)
        return
    working.put(section.path, None)
    working.put(section.move_to, updated, moved_from=section.path)


class _Working:
    """The files as the patch has changed them so far."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._before: dict[str, bytes | None] = {}
        self._now: dict[str, bytes | None] = {}
        self._moved: dict[str, str] = {}

    def existing(self, path: str, what: str) -> bytes:
        content = self._get(path)
        if content is None:
            raise PatchFailed(f"'{path}' cannot be {what}: there is no such file.")
        return content

    def put(self, path: str, content: bytes | None, moved_from: str | None = None) -> None:
        self._get(path)
        self._now[path] = content
        if moved_from is not None:
            self._moved[path] = self._moved.pop(moved_from, moved_from)

    def changes(self) -> list[Change]:
        return [
            Change(path, self._before[path], after, self._moved.get(path))
            for path, after in self._now.items()
            if after != self._before[path] or path in self._moved
        ]

    def _get(self, path: str) -> bytes | None:
        if path not in self._now:
            self._before[path] = self._now[path] = self._files.read(path)
        return self._now[path]


def _joined(lines: Sequence[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogateescape")


def _updated(path: str, content: bytes, chunks: Sequence[Chunk]) -> bytes:
    """The file with its changes. Lines that are not changed keep their bytes, ends of lines included;
    new lines end as the file's lines do, and a last line without an end stays without one."""
    kept = _split(content.decode("utf-8", "surrogateescape"))
    bare = [line.rstrip("\n").removesuffix("\r") for line in kept]
    newline = "\r\n" if kept and kept[0].endswith("\r\n") else "\n"
    lines = Lines(bare)
    made: list[str] = []
    at = 0
    for chunk in chunks:
        place, written = _place(path, lines, chunk, at)
        made += kept[at:place]
        at = place
        for sign, text in written:
            if sign == "+":
                _end(made, newline)
                made.append(text + newline)
                continue
            if sign == " ":
                _end(made, newline)
                made.append(kept[at])
            at += 1
    rest = kept[at:]
    if rest:
        _end(made, newline)
    made += rest
    if kept and not kept[-1].endswith("\n") and made and made[-1].endswith("\n"):
        made[-1] = made[-1].removesuffix("\n").removesuffix("\r")
    return "".join(made).encode("utf-8", "surrogateescape")


def _end(made: list[str], newline: str) -> None:
    """What comes next begins a line."""
    if made and not made[-1].endswith("\n"):
        made[-1] += newline


def _split(text: str) -> list[str]:
    """Lines with their ends, which are line feeds and nothing else: a form feed is a sign like others."""
    lines = text.split("\n")
    last = lines.pop()
    return [f"{line}\n" for line in lines] + ([last] if last else [])


def _place(
    path: str, lines: Lines, chunk: Chunk, start: int
) -> tuple[int, Sequence[tuple[Sign, str]]]:
    """Where a change goes, and its lines. Raises PatchFailed."""
    for header in chunk.headers:
        found = lines.find([header], start)
        if found is None:
            raise PatchFailed(f"'{path}' does not have the line '{header}' where it is looked for.")
        start = found + 1
    old = chunk.old
    if not old and not chunk.headers:
        return lines.size, chunk.lines
    place = lines.find(old, start, at_end=chunk.at_end)
    if place is not None:
        return place, chunk.lines
    written = chunk.lines
    while written[-1] == (" ", ""):  # models end with empty lines that are not in the file
        written, old = written[:-1], old[:-1]
        if not old and not chunk.headers:
            return lines.size, written
        place = lines.find(old, start, at_end=chunk.at_end)
        if place is not None:
            return place, written
    shown = "\n".join(chunk.old)
    raise PatchFailed(f"'{path}' does not have these lines where they are looked for:\n{shown}")
