"""What a grammar is made of, between the syntax it was written in and GBNF."""

from dataclasses import dataclass
from typing import TypeAlias

MAX_CODE = 0x10FFFF


class Unconvertible(ValueError):
    """GBNF, or the converter, has no form for something; the message says for what."""


@dataclass(frozen=True, slots=True)
class Text:
    """These very characters."""

    text: str


@dataclass(frozen=True, slots=True)
class Chars:
    """One character within the ranges of code points, or outside all of them."""

    ranges: tuple[tuple[int, int], ...]
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Ref:
    """A rule or terminal by its name."""

    name: str


@dataclass(frozen=True, slots=True)
class Seq:
    parts: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class Choice:
    options: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """`most` is None for any number."""

    part: "Node"
    least: int
    most: int | None


Node: TypeAlias = Text | Chars | Ref | Seq | Choice | Repeat

EMPTY = Seq(())


def sequence(parts: list[Node]) -> Node:
    """The parts one behind the other; neighbouring texts become one."""
    joined: list[Node] = []
    for part in parts:
        last = joined[-1] if joined else None
        if isinstance(part, Text) and isinstance(last, Text):
            joined[-1] = Text(last.text + part.text)
        else:
            joined.append(part)
    return joined[0] if len(joined) == 1 else Seq(tuple(joined))


def choice(options: list[Node]) -> Node:
    return options[0] if len(options) == 1 else Choice(tuple(options))


def folded(text: str) -> Node:
    """A text in any case."""
    parts: list[Node] = []
    for c in text:
        cases = sorted({c.lower(), c.upper(), c})
        if len(cases) == 1:
            parts.append(Text(c))
        elif all(len(case) == 1 for case in cases):
            parts.append(Chars(tuple((ord(case), ord(case)) for case in cases)))
        else:
            parts.append(choice([Text(case) for case in cases]))
    return sequence(parts)
