"""Lark and regular expressions as GBNF: what converts means the same, the rest is told from it."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from llguidance import LLMatcher, LLTokenizer

from bascule.protocols.flags import override
from bascule.protocols.gbnf import lark_to_gbnf, regex_to_gbnf
from bascule.protocols.grammar import Grammar, constraint
from bascule.upstreams.profiles import PROFILES
from tests.tools.grammars import PATCH, PROGRAM

pytestmark = pytest.mark.requirement("tool:custom:grammar-converted")


@pytest.mark.parametrize(
    ("definition", "gbnf"),
    [
        ('start: "a"', 'root ::= "a"\n'),
        ('start: "a" b?\nb: "x" | "y"', 'root ::= "a" r1?\nr1 ::= "x" | "y"\n'),
        ('start: ("a" | "b")+ "c"*', 'root ::= ("a" | "b")+ "c"*\n'),
        ('start: ["a"] "b"~2 "c"~1..3', 'root ::= "a"? "b"{2} "c"{1,3}\n'),
        (
            '?start: A -> x\n    | B\nA: "a"i\nB: "b".."f"',
            "root ::= r1 | r2\nr1 ::= [Aa]\nr2 ::= [b-f]\n",
        ),
        ("start: A\n%import common.INT -> A", "root ::= r1\nr1 ::= [0-9]+\n"),
        (
            "start: LF CR\n%import common (LF, CR)",
            'root ::= r1 r2\nr1 ::= "\\x0A"\nr2 ::= "\\x0D"\n',
        ),
        ("// c\nstart: /a\\/b/i // d\n", 'root ::= [Aa] "/" [Bb]\n'),
        ('start: "\\"\\\\\\n\\x41é🙂"', 'root ::= "\\x22\\x5C\\x0AA\\xE9\\U0001F642"\n'),
        ('start: "a" |', 'root ::= "a" | ""\n'),
        ('start: (\n"a"\n| "b"\n)', 'root ::= "a" | "b"\n'),
        # Recursion: to the right as it is, plain recursion to the left as repetition.
        ('start: "a" start | "b"', 'root ::= "a" root | "b"\n'),
        ('start: start "," "a" | "a"', 'root ::= "a" (",a")*\n'),
        ('start: "a"\nunused: "b"', 'root ::= "a"\n'),
    ],
)
def test_lark(definition: str, gbnf: str) -> None:
    assert lark_to_gbnf(definition) == gbnf


@pytest.mark.parametrize(
    "definition",
    [
        "",
        'foo: "a"',
        "start: b",
        'start: "a"\nstart: "b"',
        'start: "a" "b"\n%ignore " "',
        "start: X\n%import common.C_COMMENT -> X",
        "%import other.X\nstart: X",
        "start: /a(?=b)/",
        "start: /\\p{L}/",
        'start: b "x" | "z"\nb: start | "y"',
        'start: c start | "z"\nc: "y"?',
        "start: start",
        'start.2: "a"',
        'start: _x{"a"}\n_x{y}: y',
        'start: "ab".."c"',
        'start: ("a"',
        'start: "a"~',
        'start: "a"~3000',
        'start: %json {"type": "object"}',
        "start: <|im_end|>",
        "start: " + "(" * 60 + '"a"' + ")" * 60,
        'start: "\\q"',
        'start: "' + "a" * 70_000 + '"',
    ],
)
def test_lark_that_does_not_convert(definition: str) -> None:
    assert lark_to_gbnf(definition) is None


@pytest.mark.parametrize(
    ("pattern", "gbnf"),
    [
        ("[a-z]+", "[a-z]+"),
        ("^ab|c$", '"ab" | "c"'),
        (r"\A(a)\z", '"a"'),
        (r"\d{3}-\w{2,}", '[0-9]{3} "-" [0-9A-Z_a-z]{2,}'),
        ("a.b", '"a" [^\\x0A] "b"'),
        ("(?s).", "[\\x00-\\U0010FFFF]"),
        ("(?i)a[b-d]1", '[Aa] [b-dBCD] "1"'),
        ("(?i)[é🙂]", "[\\xE9\\U0001F642\\xC9]"),
        ("(?:a|b)?(?P<n>c)*", '("a" | "b")? "c"*'),
        ("(ab)*?", '("ab")*'),
        (
            r"[^\s\]]",
            "[^\\x09-\\x0D\\x20\\x85\\xA0\\u1680\\u2000-\\u200A\\u2028-\\u2029\\u202F\\u205F\\u3000\\x5D]",
        ),
        (r"\x41\u0042\x{43}\n\.", '"ABC\\x0A."'),
        ("[]a-]", "[\\x5Da\\x2D]"),
        ("a{0,2}b{2}", '"a"{0,2} "b"{2}'),
        (r"[\s\S]+", "[\\x00-\\U0010FFFF]+"),
        (r"[\D]", "[\\x00-\\x2F\\x3A-\\x7F]"),
        ("", '""'),
    ],
)
def test_regex(pattern: str, gbnf: str) -> None:
    expected = gbnf.replace("\\x20", " ")
    assert regex_to_gbnf(pattern) == f"root ::= {expected}\n"


@pytest.mark.parametrize(
    "pattern",
    [
        *(r"\bword", "(?=a)b", r"(a)\1", r"\p{L}+", r"[^\w]", r"[^\D]", "[a&&b]", "[[:alpha:]]"),
        *(
            "(",
            ")",
            "[",
            "[b-a]",
            "*a",
            "a^b",
            "a$b",
            "(^a)",
            "(?m)a",
            "(?i:a)",
            "(?-i)a",
            "a{3000}",
        ),
        *("a{3,2}", "\\", r"\q", r"\x{110000}", r"\ud800", "(?i)[à-鿿]", "(" * 60 + ")" * 60),
        "a" * 70_000,
    ],
)
def test_a_regex_that_does_not_convert(pattern: str) -> None:
    assert regex_to_gbnf(pattern) is None


_TOKENIZER = LLTokenizer("byte", slices=[])
_atoms = st.sampled_from(
    [
        "a",
        "b",
        ".",
        r"\d",
        r"\S",
        r"[\S ]",
        r"[\w\W]",
        "[ab]",
        "[^a]",
        r"\n",
        "x",
        r"\s",
        r"[a-c\d]",
        "é",
    ]
)
_patterns = st.recursive(
    _atoms,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map(lambda pair: f"({pair[0]}|{pair[1]})"),
        st.tuples(inner, st.sampled_from("?*+")).map(lambda pair: f"({pair[0]}){pair[1]}"),
        inner.map(lambda one: f"({one}){{1,2}}"),
    ),
    max_leaves=6,
)


@given(_patterns, st.text("abcx1 \né", max_size=6))
@example(r"[\S ]", " ")
@example("a b", "a b")
def test_a_converted_regex_means_the_same(pattern: str, text: str) -> None:
    """GBNF of one rule without references has the same signs as a regex, but for its texts."""
    gbnf = regex_to_gbnf(pattern)
    assert gbnf is not None
    again = re.sub(
        r'"([^"]*)"', lambda found: f"({_literal(found[1])})", gbnf.removeprefix("root ::= ")
    )
    again = re.sub(r"\[[^\]]*\]", lambda found: found[0].replace(" ", r"\x20"), again)
    again = re.sub(r"\\U0010FFFF", "\U0010ffff", again.strip()).replace(" ", "")
    again = re.sub(r"\[\\x00-\U0010ffff\]", r"[\\s\\S]", again)
    assert (re.fullmatch(again, text) is not None) == _matches(pattern, text)


def _literal(text: str) -> str:
    return text.replace(".", r"\.").replace(" ", r"\x20")


def _matches(pattern: str, text: str) -> bool:
    matcher = LLMatcher(_TOKENIZER, LLMatcher.grammar_from_regex(pattern), log_level=0)
    data = list(text.encode())
    return matcher.try_consume_tokens(data) == len(data) and matcher.is_accepting()


def test_what_each_kind_of_server_is_asked() -> None:
    regex, lark = Grammar("regex", "[a-z]+"), Grammar("lark", 'start: "a"')
    strange = Grammar("lark", 'start: "a" "b"\n%ignore " "')

    def asked(profile: str) -> list[object]:
        flags = PROFILES[profile].flags
        return [constraint(grammar, flags) for grammar in (regex, lark, strange)]

    assert asked("vllm") == [
        {"structured_outputs": {"regex": "[a-z]+"}},
        {"structured_outputs": {"grammar": 'root ::= "a"\n'}},
        {"structured_outputs": {"grammar": strange.definition}},
    ]
    assert asked("llama_cpp") == [
        {"grammar": "root ::= [a-z]+\n"},
        {"grammar": 'root ::= "a"\n'},
        None,
    ]
    assert asked("sglang") == [{"regex": "[a-z]+"}, {"ebnf": 'root ::= "a"\n'}, None]
    for profile in ("openai", "ollama", "lmstudio", "custom"):
        assert asked(profile) == [None, None, None]
    off = override(PROFILES["vllm"].flags, {"grammar": "none"})
    assert constraint(regex, off) is None


def test_a_patch_grammar_of_an_agent_converts() -> None:
    gbnf = lark_to_gbnf(PATCH)
    assert gbnf is not None
    assert gbnf.startswith("root ::= r1 r3+ r8\n")


def test_a_grammar_of_programs_converts() -> None:
    gbnf = lark_to_gbnf(PROGRAM)
    assert gbnf is not None
    assert "[\\x00-\\U0010FFFF]+" in gbnf
