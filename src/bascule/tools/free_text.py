"""The text inside `{"input": "..."}`, while the JSON is still being written."""

import json as stdlib_json
import re
from typing import Final

import msgspec

_OPENING: Final = re.compile(r'\s*\{\s*"input"\s*:\s*"')
_MAY_BE_OPENING: Final = re.compile(r'\s*(\{\s*("(i(n(p(u(t("\s*(:\s*)?)?)?)?)?)?)?)?)?')
_ESCAPE: Final = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|[^u])"
)
_SHORT: Final = {
    '"': '"',
    "\\": "\\",
    "/": "/",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
}
_MAY_BE_ESCAPE: Final = re.compile(r"\\(?:u[0-9a-fA-F]{0,3})?")
_CLOSING: Final = re.compile(r"[\s\}\]]*")


class _Wrapped(msgspec.Struct):
    input: str


class FreeText:
    """`feed` fragments of the arguments; each call returns the text that became sure.

    Arguments of another shape are kept until `finish`, which gives the `input` member if there is
    one, else the arguments themselves: nothing the model wrote is lost. A quote that the model forgot
    to escape looks like the end of the text; what stands behind it then follows in `finish`.
    """

    def __init__(self) -> None:
        self._raw = ""
        self._streaming = False
        self._other = False
        self._closed = False
        self._plain = False
        """Whether the next fragment is text unless it holds a quote or an escape."""
        self._tail = ""
        self._behind: list[str] = []
        self._parts: list[str] = []

    @property
    def text(self) -> str:
        """All that was returned so far."""
        return "".join(self._parts)

    def feed(self, fragment: str) -> str:
        if self._plain and '"' not in fragment and "\\" not in fragment:
            if fragment:
                self._parts.append(fragment)
            return fragment
        text = self._feed(fragment)
        self._plain = self._streaming and not self._closed and not self._tail
        return text

    def _feed(self, fragment: str) -> str:
        if self._closed:
            self._behind.append(fragment)
            return ""
        if self._streaming:
            return self._stream(fragment)
        self._raw += fragment
        if self._other:
            return ""
        opening = _OPENING.match(self._raw)
        if opening is not None:
            self._streaming = True
            return self._stream(self._raw[opening.end() :])
        self._other = _MAY_BE_OPENING.fullmatch(self._raw) is None
        return ""

    def finish(self) -> str:
        if self._streaming:
            rest, self._tail = self._tail, ""  # half an escape, of a model that was cut
            behind = _rest("".join(self._behind)) if self._closed else _unescape_loosely(rest)
            return self._keep(behind)
        return self._keep(_member(self._raw))

    def _stream(self, fragment: str) -> str:
        source = self._tail + fragment
        end = at = 0
        out: list[str] = []
        while at < len(source):
            quote, slash = source.find('"', at), source.find("\\", at)
            if slash < 0 or 0 <= quote < slash:
                end = quote if quote >= 0 else len(source)
                out.append(source[at:end])
                self._closed = quote >= 0
                self._behind = [source[quote + 1 :]] if self._closed else []
                at = len(source)
                break
            out.append(source[at:slash])
            short = _SHORT.get(source[slash + 1 : slash + 2])
            if short is not None:
                out.append(short)
                at = slash + 2
                continue
            escape = _ESCAPE.match(source, slash)
            if escape is None and not _MAY_BE_ESCAPE.fullmatch(source, slash):
                out.append("\\")  # not an escape in JSON: the model meant the character
                at = slash + 1
                continue
            if escape is None or _may_go_on(source, escape):
                at = slash
                break
            out.append(_unescape(escape.group()))
            at = escape.end()
        self._tail = "" if self._closed else source[at:]
        return self._keep("".join(out))

    def _keep(self, text: str) -> str:
        if text:
            self._parts.append(text)
        return text


def _may_go_on(source: str, escape: "re.Match[str]") -> bool:
    """A high surrogate whose other half has not come yet."""
    text = escape.group()
    if len(text) != 6 or not re.match(r"\\u[dD][89abAB]", text):
        return False
    rest = source[escape.end() :]
    return len(rest) < 6 and "\\u"[: len(rest)] == rest[:2]


def _unescape(escape: str) -> str:
    try:
        text: str = stdlib_json.loads(f'"{escape}"')
    except ValueError:
        return escape  # not an escape in JSON: the model meant the characters
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _unescape_loosely(rest: str) -> str:
    return _unescape(rest) if rest else ""


def _rest(behind: str) -> str:
    """What the model wrote behind the first quote, if that was not the end of the text."""
    if _CLOSING.fullmatch(behind) or _is_json(f'{{"input":""{behind}'):
        return ""
    text = behind.rstrip()
    if text.endswith("}") and text[:-1].rstrip().endswith('"'):
        text = text[:-1].rstrip()[:-1]
    return '"' + _ESCAPE.sub(lambda escape: _unescape(escape.group()), text)


def _is_json(text: str) -> bool:
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True


def _member(arguments: str) -> str:
    try:
        return msgspec.json.decode(arguments, type=_Wrapped).input
    except msgspec.ValidationError:
        pass
    except (msgspec.DecodeError, RecursionError):
        return arguments
    if arguments.strip() == "{}":
        return ""  # a call without arguments is one without text
    try:
        return msgspec.json.decode(arguments, type=str)
    except msgspec.DecodeError:  # of another type, or with more behind it
        return arguments
