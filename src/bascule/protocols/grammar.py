"""Grammars of a text, and how a model server is asked to hold its answer to one."""

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal

import msgspec

from bascule.protocols.flags import Flags
from bascule.protocols.gbnf import lark_to_gbnf, regex_to_gbnf

Syntax = Literal["lark", "regex"]


class Grammar(msgspec.Struct, frozen=True):
    """What a whole text has to match: OpenAI's variant of Lark, or a regular expression of Rust's
    dialect."""

    syntax: Syntax
    definition: str


def constraint(grammar: Grammar, flags: Flags) -> Mapping[str, Any] | None:
    """The members of a request that hold the whole text of its answer to a grammar; None where the
    server has no such members, or cannot be told of this grammar."""
    return _FORMS[flags.grammar](grammar)


def to_gbnf(grammar: Grammar) -> str | None:
    """llama.cpp's form of a grammar; None for what does not convert."""
    convert = lark_to_gbnf if grammar.syntax == "lark" else regex_to_gbnf
    return convert(grammar.definition)


def _structured_outputs(grammar: Grammar) -> dict[str, Any] | None:
    """vLLM: https://docs.vllm.ai/en/latest/features/structured_outputs/ -- its usual backend reads GBNF,
    another one Lark; it takes the one that can read what it is given."""
    if grammar.syntax == "regex":
        return {"structured_outputs": {"regex": grammar.definition}}
    return {"structured_outputs": {"grammar": to_gbnf(grammar) or grammar.definition}}


def _ebnf(grammar: Grammar) -> dict[str, Any] | None:
    """SGLang: members of the request of these names; its EBNF is GBNF."""
    if grammar.syntax == "regex":
        return {"regex": grammar.definition}
    converted = to_gbnf(grammar)
    return None if converted is None else {"ebnf": converted}


def _gbnf(grammar: Grammar) -> dict[str, Any] | None:
    """llama.cpp: `grammar`, see grammars/README.md there."""
    converted = to_gbnf(grammar)
    return None if converted is None else {"grammar": converted}


def _none(_: Grammar) -> None:
    return None


_FORMS: Final[Mapping[str, Callable[[Grammar], dict[str, Any] | None]]] = {
    "structured_outputs": _structured_outputs,
    "ebnf": _ebnf,
    "gbnf": _gbnf,
    "none": _none,
}
