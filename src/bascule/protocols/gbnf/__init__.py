"""Grammars in GBNF, the form of llama.cpp; servers with XGrammar read it too.

What does not convert gives None: assertions within a text, classes of Unicode properties, ignored
terminals, recursion on the left other than the plain one. Terminals are matched wherever they can stand;
Lark's are the longest that fit, so a text of the converted grammar may rarely be none of the original.
"""

from functools import lru_cache

from bascule.protocols.gbnf.lark import read_lark
from bascule.protocols.gbnf.nodes import Unconvertible
from bascule.protocols.gbnf.regex import read_regex
from bascule.protocols.gbnf.writer import write

_MAX_LENGTH = 64 * 1024


@lru_cache(maxsize=64)
def lark_to_gbnf(definition: str) -> str | None:
    if len(definition) > _MAX_LENGTH:
        return None
    try:
        return write(read_lark(definition))
    except (Unconvertible, RecursionError):
        return None


@lru_cache(maxsize=64)
def regex_to_gbnf(pattern: str) -> str | None:
    if len(pattern) > _MAX_LENGTH:
        return None
    try:
        return write({"start": read_regex(pattern)})
    except (Unconvertible, RecursionError):
        return None
