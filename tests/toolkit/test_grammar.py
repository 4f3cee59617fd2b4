"""Texts held to a grammar: as they arrive, with words for the model, and in bounded time."""

import time

import pytest

from bascule.protocols.grammar import Grammar, Syntax
from bascule.toolkit.grammar import MalformedGrammar, TextGrammar
from bascule.tools.free_text import FreeText
from tests.tools.grammars import AMBIGUOUS, BAD_PATCH, GOOD_PATCH, PATCH, PROGRAM


def grammar(syntax: Syntax, definition: str) -> TextGrammar:
    return TextGrammar(Grammar(syntax, definition), "input", FreeText)


def fault(syntax: Syntax, definition: str, text: str, pieces: int = 1) -> str | None:
    of = grammar(syntax, definition)
    check = of.check()
    assert check is not None
    arguments = of.arguments(text)
    size = max(1, len(arguments) // pieces)
    if pieces > 1:
        for at in range(0, len(arguments), size):
            check.feed(arguments[at : at + size])
    found = check.finish(arguments)
    assert check.text == text
    return found


@pytest.mark.requirement("tool:custom:grammar-checked")
@pytest.mark.parametrize("pieces", [1, 7, 1000])
def test_a_text_is_read_as_it_comes(pieces: int) -> None:
    assert fault("lark", PATCH, GOOD_PATCH, pieces) is None
    wrong = fault("lark", PATCH, BAD_PATCH, pieces)
    assert wrong is not None
    assert "line 3, column 1, " in wrong
    assert '"print(1)\\n*** End Patch\\n"' in wrong
    early = fault("lark", PATCH, GOOD_PATCH.removesuffix("*** End Patch\n"), pieces)
    assert early is not None
    assert "too early" in early


@pytest.mark.requirement("tool:custom:grammar-checked")
@pytest.mark.parametrize(
    ("pattern", "right", "wrong"),
    [
        ("[a-z]+", ["a", "abc"], ["", "A", "ab1", "ab\n"]),
        ("^a|b$", ["a", "b"], ["ab", "xb"]),
        ("(?i)select .*", ["SELECT *", "select "], ["selec", "select\n1", "x select 1"]),
        (r"\d{3}", ["123", "٣٣٣"], ["12", "1234"]),
        ("日本.", ["日本語", "日本🙂"], ["日本", "日木語", "日本語語"]),
        ("", [""], ["a"]),
    ],
)
def test_a_regex_has_to_match_all_of_the_text(
    pattern: str, right: list[str], wrong: list[str]
) -> None:
    assert [fault("regex", pattern, text) for text in right] == [None] * len(right)
    assert all(fault("regex", pattern, text) for text in wrong)


@pytest.mark.requirement("tool:custom:grammar-checked")
def test_the_model_is_told_where_and_what_is_missing() -> None:
    told = fault("lark", 'start: "SELECT " /[a-z]+/ ";"', "SELECT 語x")
    assert told is not None
    assert "line 1, column 8" in told
    assert '"語x"' in told
    told = fault("regex", "ok[0-9]", "o")
    assert told is not None
    assert 'Only "k" can follow' in told
    long = fault("regex", "a", "b" * 1000)
    assert long is not None
    assert len(long) < 300


@pytest.mark.requirement("tool:custom:grammar-valid")
@pytest.mark.parametrize(
    ("syntax", "definition"),
    [
        ("lark", ""),
        ("lark", 'foo: "a"'),
        ("lark", "start: b"),
        ("lark", 'start: "a'),
        ("lark", "start: /a(?=b)/"),
        ("regex", "["),
        ("regex", "(a"),
        ("regex", r"(a)\1"),
        ("regex", "(?=a)b"),
    ],
)
def test_a_malformed_grammar(syntax: Syntax, definition: str) -> None:
    with pytest.raises(MalformedGrammar):
        grammar(syntax, definition)


@pytest.mark.requirement("tool:custom:grammar-valid")
@pytest.mark.parametrize("definition", ["start: <|no_such_token|>", f'start: "{"a" * 70_000}"'])
def test_a_grammar_that_may_be_right_elsewhere_is_not_checked(definition: str) -> None:
    of = grammar("lark", definition)
    assert not of.checked
    assert of.check() is None


@pytest.mark.requirement("tool:custom:grammar-bounded")
@pytest.mark.parametrize(
    ("syntax", "definition", "text"),
    [
        ("lark", AMBIGUOUS, "a" * 100_000),
        ("regex", "(a*)*b", "a" * 1_000_000),
        ("regex", "(.*a.{300}b)*", "ab" * 200_000),
        ("regex", r"([ab]*a[ab]{14})", "abbab" * 100_000),
        ("regex", r"(\p{L}{1,500}\p{N}{1,500}){1,500}", "a1" * 5000),
        ("lark", 'start: ("a"~1..1000)~1..1000', "a" * 10_000),
        ("lark", "start: " + "|".join(f'"x{i}"' for i in range(7000)), "x77" * 1000),
        ("regex", "|".join(f"w{i}.*x" for i in range(6000)), "w1x" * 100_000),
    ],
)
def test_nobody_waits_long_for_a_check(syntax: Syntax, definition: str, text: str) -> None:
    began = time.thread_time()
    told = fault(syntax, definition, text)
    assert time.thread_time() - began < 3
    assert told is None or told.startswith("The input ")


def test_a_long_text_under_an_ordinary_grammar_is_checked() -> None:
    lines = "".join(f"+line {i}\n" for i in range(2000))
    patch = f"*** Begin Patch\n*** Add File: a\n{lines}*** End Patch"
    assert fault("lark", PATCH, patch) is None
    assert fault("lark", PATCH, patch + "x") is not None


@pytest.mark.parametrize("text", ["x", "\n", "# options: a\nlet x = 1;\n", " # options:\r\n é"])
def test_a_grammar_of_programs(text: str) -> None:
    assert fault("lark", PROGRAM, text) is None


def test_many_words_are_an_ordinary_grammar() -> None:
    words = "start: " + " | ".join(f'"word{i}"' for i in range(1000))
    assert fault("lark", words, "word999") is None
    assert fault("lark", words, "word1000") is not None
