"""Calls that a model wrote as text, because its server's parser did not know their form.

The forms, for declared names only: `<tool_call>` tags (Hermes, Qwen), a JSON object with `name` and
`arguments` or `parameters`, bare at the beginning of a line or fenced, a list of such objects,
`<|python_tag|>` (Llama) and `[TOOL_CALLS]` (Mistral, with a list or with `name[ARGS]{...}`).
"""

import re
from collections.abc import Container, Generator
from typing import Final, TypeVar

import msgspec

from bascule.protocols import json

T = TypeVar("T")
_Reading = Generator[None, None, T]
"""Reads at the cursor; yields when the text ends before that is decided."""

_TRIGGER: Final = re.compile(r"[<\[{`]")
_SPACE: Final = re.compile(r"\s*")
_STRING: Final = re.compile(r'["\\\n]')
_NESTING: Final = re.compile(r'["{}\[\]]')
_SCALAR: Final = re.compile(r"[-+.\w]*")
_NAME: Final = re.compile(r"[\w.-]*")
_KEYS: Final = frozenset({"name", "arguments", "parameters", "type", "id"})
_FENCES: Final = frozenset({"", "json"})


class WrittenCall(msgspec.Struct, frozen=True):
    """A call: a declared name, and its arguments as the model wrote them, a JSON object."""

    name: str
    arguments: str


class _Function(msgspec.Struct):
    name: str
    type: str = "function"
    arguments: msgspec.Raw = msgspec.Raw()
    parameters: msgspec.Raw = msgspec.Raw()


class CallScanner:
    """Splits one text, which comes in pieces, into plain text and calls, in order.

    Text is kept back only while it can still become a call, and comes out byte for byte otherwise.
    White space that would stand alone before, between or after calls is part of their form.
    """

    def __init__(self, names: Container[str]) -> None:
        self._names = names
        self._cursor = _Cursor()
        self._reading: _Reading[list[WrittenCall] | None] | None = None
        self._start = 0
        """Where the candidate begins, or the search for the next one."""
        self._fresh = True
        """Nothing but space since the beginning or the last call."""
        self._found = False
        self._last = "\n"
        """The last character that came out."""
        self._fenced = False
        """Inside a block of code that is no call."""

    def feed(self, text: str) -> list[str | WrittenCall]:
        self._cursor.text += text
        return self._advance()

    def finish(self) -> list[str | WrittenCall]:
        """The text is over: what is still kept back comes out."""
        self._cursor.final = True
        out = self._advance()
        rest = self._cursor.text
        if rest and not self._found:
            out.append(rest)
        self._cursor.text = ""
        return out

    def _advance(self) -> list[str | WrittenCall]:
        out: list[str | WrittenCall] = []
        cursor = self._cursor
        while True:
            if self._reading is None:
                start = self._candidate()
                self._release(len(cursor.text) if start < 0 else start, out)
                if start < 0:
                    return out
                cursor.pos = self._start
                self._reading = self._read()
            try:
                next(self._reading)
            except StopIteration as e:
                self._decide(e.value, out)
            else:
                return out

    def _decide(self, calls: list[WrittenCall] | None, out: list[str | WrittenCall]) -> None:
        self._reading = None
        cursor = self._cursor
        if calls is not None:
            out += calls
            cursor.text = cursor.text[cursor.pos :]
            self._start = 0
            self._fresh = self._found = True
            return
        if cursor.text.startswith("```", self._start):
            self._fenced = not self._fenced
            self._start += 3
        else:
            self._start += 1
        if cursor.final and cursor.pos >= len(cursor.text):
            self._start = len(cursor.text)  # what never closed holds no other call
        self._fresh = False

    def _candidate(self) -> int:
        """The next place at which a call may begin; -1 if there is none."""
        text = self._cursor.text
        at = self._start
        while (found := _TRIGGER.search(text, at)) is not None:
            at = found.start()
            if text[at] in "<[" or self._begins_line(at):
                return at
            at += 1
        return -1

    def _begins_line(self, at: int) -> bool:
        text = self._cursor.text
        if self._fresh and not text[:at].strip():
            return True
        return (text[at - 1] if at else self._last) == "\n"

    def _release(self, end: int, out: list[str | WrittenCall]) -> None:
        cursor = self._cursor
        text = cursor.text[:end]
        self._start = end
        if not text or (self._fresh and text.isspace()):
            return
        if out and isinstance(out[-1], str):
            out[-1] += text
        else:
            out.append(text)
        self._last = text[-1]
        self._fresh = False
        cursor.text = cursor.text[end:]
        self._start = 0

    def _read(self) -> _Reading[list[WrittenCall] | None]:
        cursor, names = self._cursor, self._names
        mark = cursor.text[cursor.pos]
        begins = self._begins_line(cursor.pos)
        if mark == "<":
            return (yield from _tagged(cursor, names))
        if mark == "`":
            return (yield from _fenced(cursor, names))
        if mark == "[":
            cursor.pos += 1
            following = yield from _peek(cursor)
            cursor.pos -= 1
            if following == "T":
                return (yield from _mistral(cursor, names))
        if not begins or self._fenced:
            return None
        return (yield from _sequence(cursor, names))


class _Cursor:
    """The text that is still undecided, and a place in it."""

    __slots__ = ("final", "pos", "text")

    def __init__(self) -> None:
        self.text = ""
        self.pos = 0
        self.final = False

    def at_end(self) -> bool:
        return self.pos >= len(self.text)


def _tagged(cursor: _Cursor, names: Container[str]) -> _Reading[list[WrittenCall] | None]:
    cursor.pos += 1
    following = yield from _peek(cursor)
    cursor.pos -= 1
    if following == "|":
        if not (yield from _literal(cursor, "<|python_tag|>")):
            return None
        yield from _space(cursor)
        return (yield from _sequence(cursor, names))
    if not (yield from _literal(cursor, "<tool_call>")):
        return None
    yield from _space(cursor)
    calls = yield from _calls(cursor, names)
    if calls is None or not (yield from _close(cursor, "</tool_call>")):
        return None
    return calls


def _fenced(cursor: _Cursor, names: Container[str]) -> _Reading[list[WrittenCall] | None]:
    if not (yield from _literal(cursor, "```")):
        return None
    language = yield from _run(cursor, _NAME)
    if language not in _FENCES:
        return None
    yield from _space(cursor)
    calls = yield from _calls(cursor, names)
    if calls is None or not (yield from _close(cursor, "```")):
        return None
    return calls


def _mistral(cursor: _Cursor, names: Container[str]) -> _Reading[list[WrittenCall] | None]:
    if not (yield from _literal(cursor, "[TOOL_CALLS]")):
        return None
    yield from _space(cursor)
    if (yield from _peek(cursor)) in "[{":
        return (yield from _calls(cursor, names))
    name = yield from _run(cursor, _NAME)
    if name not in names or not (yield from _literal(cursor, "[ARGS]")):
        return None
    yield from _space(cursor)
    start = cursor.pos
    if (yield from _peek(cursor)) != "{" or not (yield from _value(cursor)):
        return None
    arguments = cursor.text[start : cursor.pos]
    return [WrittenCall(name, arguments)] if json.is_object(arguments) else None


def _sequence(cursor: _Cursor, names: Container[str]) -> _Reading[list[WrittenCall] | None]:
    """Calls with semicolons between them."""
    calls = yield from _calls(cursor, names)
    while calls is not None:
        end = cursor.pos
        yield from _space(cursor)
        more = None
        if (yield from _peek(cursor)) == ";":
            cursor.pos += 1
            yield from _space(cursor)
            more = yield from _calls(cursor, names)
        if more is None:
            cursor.pos = end
            return calls
        calls += more
    return None


def _calls(cursor: _Cursor, names: Container[str]) -> _Reading[list[WrittenCall] | None]:
    """One object, or a list of them."""
    if (yield from _peek(cursor)) == "{":
        call = yield from _object(cursor, names)
        return None if call is None else [call]
    if not (yield from _literal(cursor, "[")):
        return None
    calls: list[WrittenCall] = []
    while True:
        yield from _space(cursor)
        call = yield from _object(cursor, names)
        if call is None:
            return None
        calls.append(call)
        yield from _space(cursor)
        mark = yield from _peek(cursor)
        cursor.pos += 1
        if mark == "]":
            return calls
        if mark != ",":
            return None


def _object(cursor: _Cursor, names: Container[str]) -> _Reading[WrittenCall | None]:
    """An object is given up at its first member that no call has."""
    start = cursor.pos
    if not (yield from _literal(cursor, "{")):
        return None
    while True:
        yield from _space(cursor)
        key = yield from _string(cursor)
        if key not in _KEYS:
            return None
        yield from _space(cursor)
        if not (yield from _literal(cursor, ":")):
            return None
        yield from _space(cursor)
        if key == "name":
            name = yield from _string(cursor)
            if name is None or name not in names:
                return None
        elif not (yield from _value(cursor)):
            return None
        yield from _space(cursor)
        mark = yield from _peek(cursor)
        cursor.pos += 1
        if mark == "}":
            return _as_call(cursor.text[start : cursor.pos])
        if mark != ",":
            return None


def _as_call(text: str) -> WrittenCall | None:
    try:
        function = msgspec.json.decode(text, type=_Function)
    except (msgspec.DecodeError, RecursionError):
        return None
    written = bytes(function.arguments) or bytes(function.parameters)
    if function.type != "function" or not written:
        return None
    if written.startswith(b'"'):
        arguments = msgspec.json.decode(written, type=str)
    else:
        arguments = written.decode()
    return WrittenCall(function.name, arguments) if json.is_object(arguments) else None


# --- the small steps


def _peek(cursor: _Cursor) -> _Reading[str]:
    """The next character, without taking it; empty at the end."""
    while cursor.at_end() and not cursor.final:
        yield
    return cursor.text[cursor.pos : cursor.pos + 1]


def _literal(cursor: _Cursor, word: str) -> _Reading[bool]:
    while not cursor.text.startswith(word, cursor.pos):
        rest = cursor.text[cursor.pos : cursor.pos + len(word)]
        if cursor.final or not word.startswith(rest):
            return False
        yield
    cursor.pos += len(word)
    return True


def _close(cursor: _Cursor, word: str) -> _Reading[bool]:
    """The end of a form, which models that stop there leave out, whole or half."""
    yield from _space(cursor)
    if (yield from _literal(cursor, word)):
        return True
    rest = cursor.text[cursor.pos :]
    if cursor.final and word.startswith(rest):
        cursor.pos = len(cursor.text)
        return True
    return False


def _space(cursor: _Cursor) -> _Reading[None]:
    yield from _run(cursor, _SPACE)


def _run(cursor: _Cursor, pattern: "re.Pattern[str]") -> _Reading[str]:
    """What matches, to its end."""
    start = cursor.pos
    while True:
        found = pattern.match(cursor.text, cursor.pos)
        if found is not None:
            cursor.pos = found.end()
        if cursor.final or not cursor.at_end():
            return cursor.text[start : cursor.pos]
        yield


def _string(cursor: _Cursor) -> _Reading[str | None]:
    """A JSON string's characters, escapes as they are; None for anything else."""
    if (yield from _peek(cursor)) != '"':
        return None
    cursor.pos += 1
    start = cursor.pos
    while True:
        found = _STRING.search(cursor.text, cursor.pos)
        if found is None:
            cursor.pos = len(cursor.text)
        elif found.group() == '"':
            cursor.pos = found.end()
            return cursor.text[start : found.start()]
        elif found.group() == "\n":
            return None
        elif found.end() < len(cursor.text):
            cursor.pos = found.end() + 1
            continue
        else:
            cursor.pos = found.start()
        if cursor.final:
            return None
        yield


def _value(cursor: _Cursor) -> _Reading[bool]:
    """A JSON value by its brackets and quotes; whether it is valid is seen when it is whole."""
    mark = yield from _peek(cursor)
    if mark not in "{[":
        if mark == '"':
            return (yield from _string(cursor)) is not None
        return bool((yield from _run(cursor, _SCALAR)))
    depth = 0
    while True:
        found = _NESTING.search(cursor.text, cursor.pos)
        if found is None:
            cursor.pos = len(cursor.text)
            if cursor.final:
                return False
            yield
            continue
        cursor.pos = found.start()
        if found.group() == '"':
            if (yield from _string(cursor)) is None:
                return False
            continue
        cursor.pos += 1
        depth += 1 if found.group() in "{[" else -1
        if depth == 0:
            return True
