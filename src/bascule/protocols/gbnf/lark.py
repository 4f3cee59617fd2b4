"""Reads the part of Lark that describes texts: rules, terminals and what they are made of."""

import re
from typing import Final

import msgspec

from bascule.protocols.gbnf.nodes import (
    EMPTY,
    Chars,
    Node,
    Ref,
    Repeat,
    Text,
    Unconvertible,
    choice,
    folded,
    sequence,
)
from bascule.protocols.gbnf.regex import read_regex

_MAX_DEPTH: Final = 50
_MAX_TOKENS: Final = 20_000

_TOKEN: Final = re.compile(
    r"""(?P<space>[ \t\r\f]+|//[^\n]*|\#[^\n]*)
    |(?P<newline>\n)
    |(?P<string>"(?:[^"\\\n]|\\.)*"i?)
    |(?P<regex>/(?!/)(?:[^/\\\n]|\\.)+/[imslux]*)
    |(?P<directive>%[a-z]+[^\n]*)
    |(?P<number>\d+)
    |(?P<name>_?[A-Za-z][A-Za-z0-9_]*)
    |(?P<sign>\.\.|->|[:|()\[\]?!*+~])""",
    re.VERBOSE,
)
_IMPORT: Final = re.compile(
    r"%import\s+common\s*(?:\.(\w+)(?:\s*->\s*(\w+))?|\(([\w\s,]+)\))\s*(?://.*)?"
)
_HEX: Final = re.compile(r"((?:^|[^\\])(?:\\\\)*)\\x([0-9A-Fa-f]{2})")
"""Lark's strings are JSON's, with this escape beside them."""

# In the words of regular expressions; the names are those that OpenAI's variant knows.
_COMMON: Final = {
    "DIGIT": "[0-9]",
    "HEXDIGIT": "[0-9A-Fa-f]",
    "INT": "[0-9]+",
    "SIGNED_INT": "[+-]?[0-9]+",
    "DECIMAL": r"[0-9]+\.[0-9]*|\.[0-9]+",
    "_EXP": "[eE][+-]?[0-9]+",
    "FLOAT": r"[0-9]+[eE][+-]?[0-9]+|([0-9]+\.[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?",
    "SIGNED_FLOAT": r"[+-]?([0-9]+[eE][+-]?[0-9]+|([0-9]+\.[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?)",
    "NUMBER": r"[0-9]+([eE][+-]?[0-9]+)?|([0-9]+\.[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?",
    "SIGNED_NUMBER": r"[+-]?([0-9]+([eE][+-]?[0-9]+)?|([0-9]+\.[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?)",
    "ESCAPED_STRING": r'"([^"\\\n]|\\[^\n])*"',
    "LCASE_LETTER": "[a-z]",
    "UCASE_LETTER": "[A-Z]",
    "LETTER": "[A-Za-z]",
    "WORD": "[A-Za-z]+",
    "CNAME": "[_A-Za-z][_A-Za-z0-9]*",
    "WS_INLINE": r"[ \t]+",
    "WS": r"[ \t\f\r\n]+",
    "CR": r"\r",
    "LF": r"\n",
    "NEWLINE": r"(\r?\n)+",
    "SH_COMMENT": r"#[^\n]*",
    "CPP_COMMENT": r"//[^\n]*",
    "SQL_COMMENT": r"--[^\n]*",
}


def read_lark(definition: str) -> dict[str, Node]:
    """Rules and terminals by name; `start` is among them. Raises Unconvertible."""
    return _Reader(_tokens(definition)).rules()


def _tokens(definition: str) -> list[tuple[str, str]]:
    tokens: list[tuple[str, str]] = []
    at = 0
    while at < len(definition):
        found = _TOKEN.match(definition, at)
        kind = found.lastgroup if found is not None else None
        if found is None or kind is None:
            raise Unconvertible(f"{definition[at]!r}")
        at = found.end()
        if kind != "space":
            tokens.append((kind, found[0]))
        if len(tokens) > _MAX_TOKENS:
            raise Unconvertible("its length")
    return tokens


class _Reader:
    def __init__(self, tokens: list[tuple[str, str]]) -> None:
        self._tokens = tokens
        self._at = 0
        self._depth = 0
        self._rules: dict[str, Node] = {}

    def rules(self) -> dict[str, Node]:
        while True:
            self._skip_lines()
            while self._takes("?") or self._takes("!"):
                pass  # how the tree is shaped, which nobody here builds
            kind, text = self._peek()
            if not kind:
                break
            self._at += 1
            if kind == "directive":
                self._directive(text)
            elif kind == "name":
                self._definition(text)
            else:
                raise Unconvertible(f"{text!r} in the place of a rule")
        if "start" not in self._rules:
            raise Unconvertible("no rule `start`")
        return self._rules

    def _peek(self) -> tuple[str, str]:
        return self._tokens[self._at] if self._at < len(self._tokens) else ("", "")

    def _takes(self, sign: str) -> bool:
        found = self._peek() == ("sign", sign)
        self._at += found
        return found

    def _skip_lines(self) -> None:
        while self._peek()[0] == "newline":
            self._at += 1

    def _directive(self, text: str) -> None:
        found = _IMPORT.fullmatch(text)
        if found is None:
            raise Unconvertible(f"`{text.split(maxsplit=1)[0]}`")
        if found[1]:
            self._define(found[2] or found[1], _common(found[1]))
            return
        for name in found[3].split(","):
            self._define(name.strip(), _common(name.strip()))

    def _definition(self, name: str) -> None:
        if not self._takes(":"):
            raise Unconvertible(f"parameters or a priority of `{name}`")
        self._define(name, self._options())
        if self._peek()[0] not in ("newline", ""):
            raise Unconvertible(f"{self._peek()[1]!r} in a rule")

    def _define(self, name: str, node: Node) -> None:
        if name in self._rules:
            raise Unconvertible(f"`{name}` defined twice")
        self._rules[name] = node

    def _options(self) -> Node:
        options = [self._sequence()]
        while self._bar():
            options.append(self._sequence())
        return choice(options)

    def _bar(self) -> bool:
        """A `|`, which may stand on the next line."""
        before = self._at
        self._skip_lines()
        if self._takes("|"):
            return True
        if not self._depth:
            self._at = before
        return False

    def _sequence(self) -> Node:
        parts: list[Node] = []
        while True:
            if self._depth:
                self._skip_lines()
            kind, text = self._peek()
            if kind not in ("string", "regex", "name") and text not in ("(", "["):
                break
            self._at += 1
            parts.append(self._repeated(self._atom(kind, text)))
        if self._takes("->"):
            self._at += 1  # an alias, which names a part of the tree
        return sequence(parts) if parts else EMPTY

    def _atom(self, kind: str, text: str) -> Node:
        if kind == "name":
            return Ref(text)
        if kind == "regex":
            end = text.rindex("/")
            return read_regex(text[1:end].replace(r"\/", "/"), text[end + 1 :])
        if kind == "string":
            return self._string(text)
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise Unconvertible("groups nested too deeply")
        node = self._options()
        self._skip_lines()
        if not self._takes(")" if text == "(" else "]"):
            raise Unconvertible("a group that is not closed")
        self._depth -= 1
        return node if text == "(" else Repeat(node, 0, 1)

    def _string(self, text: str) -> Node:
        value = _unquoted(text.removesuffix("i"))
        if not self._takes(".."):
            return folded(value) if text.endswith("i") else Text(value)
        kind, end = self._peek()
        self._at += 1
        last = _unquoted(end) if kind == "string" and end.endswith('"') else ""
        if text.endswith("i") or len(value) != 1 or len(last) != 1 or last < value:
            raise Unconvertible("a range of other things than characters")
        return Chars(((ord(value), ord(last)),))

    def _repeated(self, part: Node) -> Node:
        for sign, least, most in (("?", 0, 1), ("*", 0, None), ("+", 1, None)):
            if self._takes(sign):
                return Repeat(part, least, most)
        if not self._takes("~"):
            return part
        least = self._number()
        return Repeat(part, least, self._number() if self._takes("..") else least)

    def _number(self) -> int:
        kind, text = self._peek()
        if kind != "number":
            raise Unconvertible("a repetition without a number")
        self._at += 1
        return int(text)


def _common(name: str) -> Node:
    if name not in _COMMON:
        raise Unconvertible(f"`common.{name}`")
    return read_regex(_COMMON[name])


def _unquoted(text: str) -> str:
    try:
        return msgspec.json.decode(_HEX.sub(r"\1\\u00\2", text), type=str)
    except msgspec.DecodeError:
        raise Unconvertible(f"the string {text}") from None
