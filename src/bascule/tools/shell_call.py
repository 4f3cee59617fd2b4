"""How a call of `shell` is shown: each command while the model writes it."""

import shlex
from typing import Any, ClassVar, cast

import msgspec

from bascule.protocols.responses.events import IndexEvent
from bascule.protocols.responses.items import ItemStatus
from bascule.toolkit.outcome import Call
from bascule.toolkit.projection import ItemWriter
from bascule.tools.built_in import BuiltInCall, natural
from bascule.tools.json_strings import Path, Piece, StringReader, whole_characters


class CommandAdded(IndexEvent, tag="response.shell_call_command.added"):
    command_index: int = 0
    command: str = ""


class CommandDelta(IndexEvent, tag="response.shell_call_command.delta"):
    command_index: int = 0
    delta: str = ""


class CommandDone(IndexEvent, tag="response.shell_call_command.done"):
    command_index: int = 0
    command: str = ""


class ShellAction(msgspec.Struct):
    """With explicit nulls, as recorded."""

    commands: list[str]
    max_output_length: int | None = None
    timeout_ms: int | None = None


class ShellCallItem(msgspec.Struct, tag_field="type", tag="shell_call", omit_defaults=True):
    id: str
    status: ItemStatus
    action: ShellAction
    call_id: str
    environment: Any = None


class ShellProjection(BuiltInCall):
    """Added with the first command, then each command: added, deltas, done.

    `commands` may be one string, and a command may be a list of words, which are quoted. Commands of
    several objects are run in the order in which they stand. Limits that are no positive numbers are
    left out.
    """

    id_prefix: ClassVar[str] = "sh"

    def __init__(self, writer: ItemWriter, call: Call) -> None:
        super().__init__(writer, call)
        self._reader = StringReader()
        self._commands: list[str] = []
        """Those that have ended."""
        self._written: list[str] | None = None
        """What there is of the open one."""

    def arguments(self, fragment: str) -> None:
        for piece in self._reader.feed(fragment):
            if _is_command(piece.path):
                self._take(piece)

    def _take(self, piece: Piece) -> None:
        if piece.first:
            self._open()
        if piece.text:
            self._delta(piece.text)
        if piece.last:
            self._close()

    def _open(self) -> None:
        if not self.shown:
            self.shown = True
            self.writer.added(self._item("in_progress", ShellAction([])))
        self._written = []
        self.writer.event(CommandAdded(-1, 0, len(self._commands)))

    def _delta(self, text: str) -> None:
        if self._written is not None:
            self._written.append(text)
        self.writer.event(CommandDelta(-1, 0, len(self._commands), text))

    def _close(self) -> None:
        command, self._written = "".join(self._written or ()), None
        self.writer.event(CommandDone(-1, 0, len(self._commands), command))
        self._commands.append(command)

    def finish_with(self, objects: list[dict[str, Any]]) -> str | None:
        commands = _commands(objects)
        if isinstance(commands, str):
            return commands
        if not self.shown:
            for command in commands:
                self._take(Piece((), command, first=True, last=True))
        elif commands != self._commands:
            return "`commands` must be a list of strings."
        limits = {name: value for written in objects for name, value in written.items()}
        action = ShellAction(
            self._commands,
            natural(limits.get("max_output_length")),
            natural(limits.get("timeout_ms")),
        )
        self.writer.done(self._item("completed", action))
        return None

    def cut(self) -> None:
        if not self.shown:
            self.shown = True
            self.writer.added(self._item("in_progress", ShellAction([])))
        if self._written is not None:
            self._close()
        self.writer.done(self._item("incomplete", ShellAction(self._commands)))

    def _item(self, status: ItemStatus, action: ShellAction) -> ShellCallItem:
        return ShellCallItem(
            self.writer.item_id,
            status,
            action,
            self.call.call_id,
            self.members.get("environment"),
        )


def _is_command(path: Path) -> bool:
    return path[:1] == ("commands",) and len(path) < 3


def _commands(objects: list[dict[str, Any]]) -> list[str] | str:
    """All commands, or what is wrong with them."""
    commands: list[str] = []
    for written in objects:
        given: Any = written.get("commands")
        members = cast("list[Any]", given) if isinstance(given, list) else [given]
        for member in members:
            command = _command(member)
            if command is None:
                return "`commands` must be a list of strings."
            commands.append(command)
    return commands or "`commands` is empty."


def _command(member: Any) -> str | None:
    if isinstance(member, str):
        return whole_characters(member)
    if not isinstance(member, list):
        return None
    words = cast("list[Any]", member)
    if not words or not all(isinstance(word, str) for word in words):
        return None
    return whole_characters(shlex.join(words))
