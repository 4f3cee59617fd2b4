"""Writes GBNF: https://github.com/ggml-org/llama.cpp/blob/master/grammars/README.md"""

from collections.abc import Mapping
from typing import Final

from bascule.protocols.gbnf.nodes import (
    EMPTY,
    Chars,
    Choice,
    Node,
    Ref,
    Repeat,
    Seq,
    Text,
    Unconvertible,
    choice,
    sequence,
)

_PLAIN: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_ ")
_PLAIN_IN_TEXT: Final = _PLAIN | frozenset("!#$%&'()*+,-./:;<=>?@^`{|}~")
_MAX_REPEAT: Final = 2000
"""llama.cpp refuses more."""


def write(rules: Mapping[str, Node]) -> str:
    """A grammar whose `root` is the rule `start`; only rules that it needs are written. Raises
    Unconvertible for recursion on the left that cannot be turned into repetition."""
    kept = _reachable(rules)
    plain = {name: _without_left_recursion(name, kept[name]) for name in kept}
    _check_left_recursion(plain)
    names = {name: "root" if name == "start" else f"r{i}" for i, name in enumerate(plain)}
    lines = [f"{names[name]} ::= {_written(node, names)}" for name, node in plain.items()]
    return "\n".join(lines) + "\n"


def _reachable(rules: Mapping[str, Node]) -> dict[str, Node]:
    found: dict[str, Node] = {}
    waiting = ["start"]
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        if name not in rules:
            raise Unconvertible(f"`{name}` is not defined")
        found[name] = rules[name]
        waiting += reversed(_refs(rules[name]))
    return found


def _refs(node: Node) -> list[str]:
    match node:
        case Ref(name):
            return [name]
        case Seq(parts) | Choice(parts):
            return [name for part in parts for name in _refs(part)]
        case Repeat(part=part):
            return _refs(part)
        case _:
            return []


def _without_left_recursion(name: str, node: Node) -> Node:
    """`list: item | list "," item` as `list: item ("," item)*`."""
    if not isinstance(node, Choice):
        return node
    first: list[Node] = []
    behind: list[Node] = []
    for option in node.options:
        parts = option.parts if isinstance(option, Seq) else (option,)
        if parts and parts[0] == Ref(name):
            behind.append(sequence(list(parts[1:])) if parts[1:] else EMPTY)
        else:
            first.append(option)
    if not behind or not first:
        return node
    return Seq((choice(first), Repeat(choice(behind), 0, None)))


def _check_left_recursion(rules: Mapping[str, Node]) -> None:
    empty = _may_be_empty(rules)
    state: dict[str, bool] = {}
    for root in rules:
        if root in state:
            continue
        # Depth first, without the recursion of Python: chains of rules may be long.
        stack = [(root, iter(_leftmost(rules[root], empty)))]
        state[root] = True
        while stack:
            name, others = stack[-1]
            other = next(others, None)
            if other is None:
                state[name] = False
                stack.pop()
            elif state.get(other):
                raise Unconvertible(f"recursion on the left of `{other}`")
            elif other not in state:
                state[other] = True
                stack.append((other, iter(_leftmost(rules[other], empty))))


def _may_be_empty(rules: Mapping[str, Node]) -> frozenset[str]:
    empty: frozenset[str] = frozenset()
    while True:
        now = frozenset(name for name, node in rules.items() if _is_empty(node, empty))
        if now == empty:
            return empty
        empty = now


def _is_empty(node: Node, empty: frozenset[str]) -> bool:
    match node:
        case Text(text):
            return not text
        case Chars():
            return False
        case Ref(name):
            return name in empty
        case Seq(parts):
            return all(_is_empty(part, empty) for part in parts)
        case Choice(options):
            return any(_is_empty(option, empty) for option in options)
        case Repeat(part, least, _):
            return least == 0 or _is_empty(part, empty)


def _leftmost(node: Node, empty: frozenset[str]) -> list[str]:
    """Rules with which it may begin."""
    match node:
        case Ref(name):
            return [name]
        case Choice(options):
            return [name for option in options for name in _leftmost(option, empty)]
        case Repeat(part=part):
            return _leftmost(part, empty)
        case Seq(parts):
            names: list[str] = []
            for part in parts:
                names += _leftmost(part, empty)
                if not _is_empty(part, empty):
                    break
            return names
        case _:
            return []


def _written(node: Node, names: Mapping[str, str]) -> str:
    match node:
        case Text(text):
            return '"' + "".join(_char(c, _PLAIN_IN_TEXT) for c in text) + '"'
        case Chars(ranges, negated):
            inside = "".join(_range(*codes) for codes in ranges)
            return f"[^{inside}]" if negated else f"[{inside}]"
        case Ref(name):
            return names[name]
        case Seq(parts):
            return " ".join(_grouped(part, names) for part in parts) or '""'
        case Choice(options):
            return " | ".join(_written(option, names) for option in options)
        case Repeat(part, least, most):
            return _grouped(part, names, tight=True) + _times(least, most)


def _grouped(node: Node, names: Mapping[str, str], *, tight: bool = False) -> str:
    text = _written(node, names)
    several = isinstance(node, (Seq, Repeat)) or (isinstance(node, Text) and len(node.text) > 1)
    loose = isinstance(node, Choice) or (tight and several)
    return f"({text})" if loose else text


def _times(least: int, most: int | None) -> str:
    if max(least, most or 0) > _MAX_REPEAT or (most is not None and most < least):
        raise Unconvertible("so many repetitions")
    if most is None and least < 2:
        return "+" if least else "*"
    if (least, most) == (0, 1):
        return "?"
    return f"{{{least}}}" if least == most else f"{{{least},{'' if most is None else most}}}"


def _range(low: int, high: int) -> str:
    first = _char(chr(low), _PLAIN)
    return first if low == high else f"{first}-{_char(chr(high), _PLAIN)}"


def _char(c: str, plain: frozenset[str]) -> str:
    if c in plain:
        return c
    code = ord(c)
    if code < 0x100:
        return f"\\x{code:02X}"
    return f"\\u{code:04X}" if code < 0x10000 else f"\\U{code:08X}"
