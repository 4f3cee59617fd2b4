"""What a text that a call is made with has to match: read with llguidance, whose dialects are OpenAI's.

A client's grammar cannot hold up the process: its parser makes a bounded number of steps for each
character, and a check that takes too long is given up.
"""

import time
from collections.abc import Callable
from functools import lru_cache
from typing import Final, Protocol

from llguidance import LLMatcher, LLParserLimits, LLTokenizer

from bascule.protocols import json
from bascule.protocols.grammar import Grammar
from bascule.telemetry.logger import Logger

_MAX_DEFINITION: Final = 64 * 1024
"""Characters. Longer ones take too long to be read."""
_MAX_SECONDS: Final = 0.3
"""CPU time for one text, some hundred kilobytes under an ordinary grammar."""
_PIECE: Final = 32
"""Bytes between two looks at the clock; one, when so many have taken `_SLOW` seconds."""
_SLOW: Final = 0.005
_MAX_SHOWN: Final = 60
_LIMITS: Final = LLParserLimits(
    max_items_in_row=2000,
    step_max_items=20_000,
    initial_lexer_fuel=400_000,
    step_lexer_fuel=50_000,
    max_lexer_states=20_000,
    max_grammar_size=100_000,
    precompute_large_lexemes=False,
    verbose_errors=False,
)
# Faults of a grammar that say nothing against it elsewhere: of size, and of tokens that a model has.
_NOT_MALFORMED: Final = ("fuel", "limit", "too large", "too big", "too complex", "special token")

_log = Logger("bascule.tools")


class MalformedGrammar(ValueError):
    """The message says what is wrong, and where."""


class TextReader(Protocol):
    """Reads one text out of a call's arguments while they arrive."""

    def feed(self, fragment: str) -> str:
        """The text that became sure."""
        ...

    def finish(self) -> str:
        """The rest."""
        ...


class TextGrammar:
    """The grammar of the one text in a tool's arguments."""

    def __init__(self, grammar: Grammar, member: str, reader: Callable[[], TextReader]) -> None:
        """`member` holds the text, `reader` finds it. Raises MalformedGrammar."""
        fault = _fault(grammar)
        if fault is not None and not any(word in fault for word in _NOT_MALFORMED):
            raise MalformedGrammar(fault)
        self.grammar = grammar
        self.member = member
        self.reader = reader
        self.checked = fault is None
        """False for a grammar that cannot be read here and may be right all the same."""

    def check(self) -> "GrammarCheck | None":
        """For one call; None where nothing can be checked."""
        return GrammarCheck(self) if self.checked else None

    def arguments(self, text: str) -> str:
        """The arguments of a call with this text."""
        return json.encode({self.member: text}).decode()

    def wrapping(self) -> tuple[str, str]:
        """What stands before and behind the text, with its quotes, in the arguments."""
        return f'{{{json.encode(self.member).decode()}:"', '"}'


class GrammarCheck:
    """`feed` the arguments as they arrive, then `finish`."""

    def __init__(self, of: TextGrammar) -> None:
        self._reader = of.reader()
        self._grammar = of.grammar
        self._matcher = self._new_matcher()
        self._exact = False
        """Whether the matcher is asked for how far it comes, which takes twice as long."""
        self._parts: list[str] = []
        self._fed = False
        self._matched = 0
        """Bytes of the text so far."""
        self._spent = 0.0
        self._piece = _PIECE
        self._wrong = False
        self._gave_up = False

    @property
    def wrong(self) -> bool:
        """Whether no text that begins like this one matches."""
        return self._wrong

    @property
    def text(self) -> str:
        """What the model wrote; whole when the check is finished."""
        return "".join(self._parts)

    def feed(self, fragment: str) -> None:
        self._fed = True
        self._take(self._reader.feed(fragment))

    def finish(self, arguments: str) -> str | None:
        """What is wrong with the text and where, in words for the model. `arguments` are all of them,
        in case that they did not come in fragments."""
        if not self._fed:
            self.feed(arguments)
        self._take(self._reader.finish())
        if self._gave_up:
            _log.warning("input not checked: its grammar takes too long")
            return None
        if self._wrong:
            return self._place()
        if self._matcher.is_accepting():
            return None
        return f"The input ends too early for the tool's grammar.{self._expected()}"

    def _take(self, text: str) -> None:
        if not text:
            return
        self._parts.append(text)
        if self._wrong or self._gave_up:
            return
        data = text.encode("utf-8", "replace")
        at = 0
        while at < len(data) and not self._wrong and not self._gave_up:
            began = time.thread_time()
            piece = list(data[at : at + self._piece])
            if not self._exact and not self._matcher.consume_tokens(piece):
                self._go_back(data[:at])
            taken = self._matcher.try_consume_tokens(piece) if self._exact else len(piece)
            at += taken
            self._gave_up = self._matcher.is_error()
            self._wrong = taken < len(piece) and not self._gave_up
            took = time.thread_time() - began
            self._spent += took
            if took > _SLOW:
                self._piece = 1
            if self._spent > _MAX_SECONDS and not self._wrong:
                self._gave_up = True
        self._matched += at

    def _new_matcher(self) -> LLMatcher:
        return LLMatcher(_tokenizer(), _source(self._grammar), log_level=0, limits=_LIMITS)

    def _go_back(self, before: bytes) -> None:
        """A piece does not match: what came before it did."""
        self._exact = True
        self._matcher = self._new_matcher()
        text = self.text.encode("utf-8", "replace")
        self._matcher.consume_tokens(list(text[: self._matched + len(before)]))

    def _place(self) -> str:
        data = self.text.encode("utf-8", "replace")
        before = data[: self._matched].decode("utf-8", "ignore")
        rest = data[len(before.encode()) :].decode("utf-8", "replace")
        line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
        return (
            f"The input does not match the tool's grammar at line {line}, column {column}, "
            f"where it goes on with {_shown(rest)}.{self._expected()}"
        )

    def _expected(self) -> str:
        forced = self._matcher.compute_ff_bytes().decode("utf-8", "ignore")
        return f" Only {_shown(forced)} can follow there." if forced else ""


def _shown(text: str) -> str:
    cut = text if len(text) <= _MAX_SHOWN else text[:_MAX_SHOWN] + "…"
    return json.encode(cut).decode()


@lru_cache(maxsize=1)
def _tokenizer() -> LLTokenizer:
    """Its tokens are the bytes."""
    return LLTokenizer("byte", slices=[])


def _source(grammar: Grammar) -> str:
    if grammar.syntax == "lark":
        return LLMatcher.grammar_from_lark(grammar.definition)
    return LLMatcher.grammar_from_regex(grammar.definition)


@lru_cache(maxsize=256)
def _fault(grammar: Grammar) -> str | None:
    if len(grammar.definition) > _MAX_DEFINITION:
        return "the definition is too large"
    failed, messages = LLMatcher.validate_grammar_with_warnings(
        _source(grammar), _tokenizer(), limits=_LIMITS
    )
    return "\n".join(messages).strip() if failed else None
