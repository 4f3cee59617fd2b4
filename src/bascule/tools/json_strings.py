"""The strings inside a JSON text, while the text is still being written."""

import json as stdlib_json
import re
from typing import Any, Final, NamedTuple, cast

Path = tuple[str | int, ...]
"""Where a value stands: names of members and places in lists, from the outside in."""

_MAX_DEPTH: Final = 64
_SPACE: Final = re.compile(r"[ \t\r\n]*")
_PLAIN: Final = re.compile(r'[^"\\]*')
_LITERAL: Final = re.compile(r'[^\s"{}\[\],:]+')
_ESCAPE: Final = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}"
    r'|["\\/bfnrt])'
)
_MAY_BE_ESCAPE: Final = re.compile(r"\\(?:u[0-9a-fA-F]{0,3})?")
_HIGH: Final = re.compile(r"\\u[dD][89abAB]")
_MAY_BE_LOW: Final = re.compile(r"(?:\\(?:u(?:[dD](?:[c-fC-F][0-9a-fA-F]?)?)?)?)?")
_ANY_ESCAPE: Final = re.compile(r'\\(u[0-9a-fA-F]{4}|["\\/bfnrt])?')


class Piece(NamedTuple):
    """A part of one string. `first` says that the string begins with it, `last` that it ends."""

    path: Path
    text: str
    first: bool
    last: bool


class StringReader:
    """`feed` fragments of a JSON text; each call returns what became sure of its strings.

    Names of members are no strings here. What is no JSON gives pieces that mean nothing: whether the
    whole was JSON is for `objects_in` to say. A backslash that begins no escape stands for itself.
    """

    def __init__(self) -> None:
        self._levels: list[str | int | None] = []
        """A place in a list, or a member's name; None before the name is known."""
        self._names: list[bool] = []
        """Of each level, whether a name may come next; lists never have one."""
        self._in_string = False
        self._path: Path = ()
        """Of the string that is being read."""
        self._is_name = False
        self._name: list[str] = []
        self._first = False
        self._tail = ""
        self._lost = False

    def feed(self, fragment: str) -> list[Piece]:
        if self._is_plain(fragment):
            piece = Piece(self._path, fragment, self._first, False)
            self._first = False
            return [piece]
        pieces: list[Piece] = []
        source, self._tail = self._tail + fragment, ""
        at = 0
        while at < len(source) and not self._lost:
            if self._in_string:
                at = self._characters(source, at, pieces)
            else:
                at = self._token(source, at)
        return pieces

    def _is_plain(self, fragment: str) -> bool:
        """Whether it is nothing but the middle of a string: most fragments are."""
        return (
            self._in_string
            and not self._is_name
            and not self._tail
            and fragment != ""
            and '"' not in fragment
            and "\\" not in fragment
        )

    def _characters(self, source: str, at: int, pieces: list[Piece]) -> int:
        text, end, closed = _read(source, at)
        if not closed:
            self._tail, end = source[end:], len(source)
        if self._is_name:
            self._name.append(text)
            if closed:
                self._levels[-1] = "".join(self._name)
        elif text or closed or self._first:
            pieces.append(Piece(self._path, text, self._first, closed))
            self._first = False
        self._in_string = not closed
        return end

    def _token(self, source: str, at: int) -> int:
        at = _SPACE.match(source, at).end()  # pyright: ignore[reportOptionalMemberAccess] -- may be empty
        if at == len(source):
            return at
        match source[at]:
            case '"':
                self._in_string = self._first = True
                self._is_name = bool(self._names) and self._names[-1]
                self._name = []
                self._path = cast("Path", tuple(self._levels))
            case "{" | "[" as bracket:
                self._lost = len(self._levels) == _MAX_DEPTH
                self._levels.append(None if bracket == "{" else 0)
                self._names.append(bracket == "{")
            case "}" | "]":
                if self._levels:
                    self._levels.pop()
                    self._names.pop()
            case ",":
                self._next()
            case ":":
                if self._names:
                    self._names[-1] = False
            case _:
                literal = _LITERAL.match(source, at)
                return at + 1 if literal is None else literal.end()
        return at + 1

    def _next(self) -> None:
        """A comma: the next place of a list, or the next name."""
        if not self._levels:
            return
        place = self._levels[-1]
        if isinstance(place, int):
            self._levels[-1] = place + 1
        else:
            self._names[-1] = True


def _read(source: str, at: int) -> tuple[str, int, bool]:
    """The characters of a string from `at` on, where reading ended, and whether at its quote.

    Without the quote, what is left may be the begin of an escape.
    """
    out: list[str] = []
    while True:
        end = _PLAIN.match(source, at).end()  # pyright: ignore[reportOptionalMemberAccess] -- may be empty
        out.append(source[at:end])
        if end == len(source):
            return "".join(out), end, False
        if source[end] == '"':
            return "".join(out), end + 1, True
        escape = _ESCAPE.match(source, end)
        if escape is None:
            if _MAY_BE_ESCAPE.fullmatch(source, end):
                return "".join(out), end, False
            out.append("\\")
            at = end + 1
        elif _is_half(source, escape):
            return "".join(out), end, False
        else:
            out.append(_unescape(escape.group()))
            at = escape.end()


def _is_half(source: str, escape: "re.Match[str]") -> bool:
    """A high surrogate whose other half has not come yet."""
    if escape.end() - escape.start() != 6 or not _HIGH.match(escape.group()):
        return False
    return _MAY_BE_LOW.fullmatch(source, escape.end()) is not None


def _unescape(escape: str) -> str:
    return whole_characters(stdlib_json.loads(f'"{escape}"'))


def whole_characters(text: str) -> str:
    """Text in which halves of characters, which no UTF-8 can hold, are replaced."""
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


_decoder: Final = stdlib_json.JSONDecoder(strict=False)


def objects_in(text: str) -> list[dict[str, Any]] | str:
    """The JSON objects of a text, of which some models write several, or what is wrong with it.

    Line breaks inside strings are let through, and so are backslashes that begin no escape.
    """
    try:
        return _objects(text)
    except RecursionError:
        return "The arguments are nested too deeply."
    except ValueError:
        pass
    try:
        return _objects(_ANY_ESCAPE.sub(_doubled, text))
    except RecursionError:
        return "The arguments are nested too deeply."
    except ValueError as e:
        return f"The arguments are not valid JSON: {e}."


def _objects(text: str) -> list[dict[str, Any]] | str:
    objects: list[dict[str, Any]] = []
    at = _space(text, 0)
    while at < len(text):
        value: Any
        value, end = _decoder.raw_decode(text, at)
        if not isinstance(value, dict):
            return "The arguments must be a JSON object."
        objects.append(cast("dict[str, Any]", value))
        at = _space(text, end)
    return objects or "The arguments must be a JSON object."


def _space(text: str, at: int) -> int:
    return _SPACE.match(text, at).end()  # pyright: ignore[reportOptionalMemberAccess] -- may be empty


def _doubled(found: "re.Match[str]") -> str:
    return found.group() if found.group(1) else "\\\\"
