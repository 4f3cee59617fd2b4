"""The patch format of `apply_patch`: sections that add, delete and update files."""

import re
from collections.abc import Iterator, Sequence
from typing import Final, Literal

import msgspec

BEGIN: Final = "*** Begin Patch"
END: Final = "*** End Patch"
_ADD: Final = "*** Add File: "
_DELETE: Final = "*** Delete File: "
_UPDATE: Final = "*** Update File: "
_MOVE: Final = "*** Move to: "
_END_OF_FILE: Final = "*** End of File"
_HEREDOC: Final = re.compile(
    r"\A\s*(?:apply_patch\s+)?<<-?\s*(['\"]?)(\w+)\1\n(.*)\n\s*\2\s*\Z", re.DOTALL
)

Sign = Literal[" ", "-", "+"]


class MalformedPatch(Exception):
    """What is wrong, and in which line, in words for the model."""

    loggable = True


class AddFile(msgspec.Struct, frozen=True):
    path: str
    lines: tuple[str, ...]


class DeleteFile(msgspec.Struct, frozen=True):
    path: str


class Chunk(msgspec.Struct, frozen=True):
    """A change at one place. `headers` are lines that stand before it, each further down than the one
    before."""

    headers: tuple[str, ...]
    lines: tuple[tuple[Sign, str], ...]
    at_end: bool = False
    """Whether it belongs to the end of the file."""

    @property
    def old(self) -> list[str]:
        """The lines that it is found by."""
        return [text for sign, text in self.lines if sign != "+"]


class UpdateFile(msgspec.Struct, frozen=True):
    path: str
    chunks: tuple[Chunk, ...]
    move_to: str | None = None


Section = AddFile | DeleteFile | UpdateFile


def parse(text: str) -> list[Section]:
    """Raises MalformedPatch."""
    wrapped = _HEREDOC.match(text)
    lines = (wrapped[3] if wrapped else text).strip().split("\n")
    lines = [line.removesuffix("\r") for line in lines]
    if lines[0].strip() != BEGIN:
        raise MalformedPatch(f"The first line of the patch must be '{BEGIN}'.")
    if len(lines) < 2 or lines[-1].strip() != END:
        raise MalformedPatch(f"The last line of the patch must be '{END}'.")
    reader = _Reader(lines)
    sections = list(reader.sections())
    if not sections:
        raise MalformedPatch("The patch is empty.")
    return sections


class _Reader:
    """Reads the lines between the first and the last."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._lines = lines
        self._at = 1
        self._end = len(lines) - 1

    def sections(self) -> Iterator[Section]:
        while self._at < self._end:
            line = self._next()
            mark = line.strip()
            if not mark:
                continue
            if (path := _path(mark, _ADD)) is not None:
                yield self._add(self._checked(path))
            elif (path := _path(mark, _DELETE)) is not None:
                yield DeleteFile(self._checked(path))
            elif (path := _path(mark, _UPDATE)) is not None:
                yield self._update(self._checked(path))
            else:
                raise self._fault(
                    f"'{line}' begins no file: a section begins with '{_ADD}', '{_DELETE}' or '{_UPDATE}'."
                )

    def _next(self) -> str:
        line = self._lines[self._at]
        self._at += 1
        return line

    def _peek(self) -> str | None:
        return self._lines[self._at] if self._at < self._end else None

    def _checked(self, path: str) -> str:
        if not path or "\0" in path:
            raise self._fault("A file has no name.")
        return path

    def _add(self, path: str) -> AddFile:
        lines: list[str] = []
        while (line := self._peek()) is not None and line.startswith("+"):
            lines.append(self._next()[1:])
        if not lines:
            raise self._fault(f"The new file '{path}' has no lines: each begins with '+'.")
        return AddFile(path, tuple(lines))

    def _update(self, path: str) -> UpdateFile:
        move = None
        line = self._peek()
        if line is not None and (to := _path(line.strip(), _MOVE)) is not None:
            self._next()
            move = self._checked(to)
        chunks: list[Chunk] = []
        while (line := self._peek()) is not None and not _begins_section(line):
            if not line and (not chunks or self._is_blank_between()):
                self._next()
                continue
            chunks.append(self._chunk(path))
        if not chunks and move is None:
            raise self._fault(f"The update of '{path}' changes nothing.")
        return UpdateFile(path, tuple(chunks), move)

    def _is_blank_between(self) -> bool:
        """Whether the blank lines here stand before a new chunk or section, or before the end."""
        at = self._at
        while at < self._end and not self._lines[at].strip():
            at += 1
        return at == self._end or self._lines[at].startswith(("@@", "***"))

    def _chunk(self, path: str) -> Chunk:
        headers: list[str] = []
        while (line := self._peek()) is not None and line.rstrip().startswith("@@"):
            header = self._next().rstrip()[2:]
            if header.strip():
                headers.append(header.removeprefix(" "))
        lines: list[tuple[Sign, str]] = []
        while (line := self._peek()) is not None and not _ends_chunk(line):
            if not line and self._is_blank_between():
                break
            lines.append(self._line())
        at_end = False
        if line is not None and line.strip() == _END_OF_FILE:
            self._next()
            at_end = True
        if not any(sign != " " for sign, _ in lines):
            raise self._fault(f"A change of '{path}' neither adds nor removes a line.")
        return Chunk(tuple(headers), tuple(lines), at_end)

    def _line(self) -> tuple[Sign, str]:
        line = self._next()
        if not line:
            return " ", ""
        match line[0]:
            case " ":
                return " ", line[1:]
            case "-":
                return "-", line[1:]
            case "+":
                return "+", line[1:]
            case _:
                raise self._fault(f"'{line}' must begin with ' ', '+' or '-'.")

    def _fault(self, message: str) -> MalformedPatch:
        return MalformedPatch(f"Line {self._at}: {message}")


def _path(line: str, mark: str) -> str | None:
    start = mark.rstrip()
    return line[len(start) :].strip() if line.startswith(start) else None


def _begins_section(line: str) -> bool:
    return line.strip().startswith((_ADD.strip(), _DELETE.strip(), _UPDATE.strip()))


def _ends_chunk(line: str) -> bool:
    return line.rstrip().startswith("@@") or _begins_section(line) or line.strip() == _END_OF_FILE
