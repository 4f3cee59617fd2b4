"""What is left of a text whose markers go, and what they stand behind; however it is cut."""

import itertools
import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bascule.engine.marked_text import MarkedText

Cited = list[tuple[int, int, int]]


def read(pieces: list[str]) -> tuple[str, Cited, MarkedText]:
    """What comes out for these pieces. A claim has come out before it is cited, or with it."""
    marked = MarkedText()
    cited: Cited = []
    out = ""
    for piece in [*pieces, None]:
        out += marked.finish() if piece is None else marked.feed(piece)
        assert all(end <= len(out) for _, _, end in marked.cited)
        assert all(out[start:end].strip() == out[start:end] for _, start, end in marked.cited)
        cited += marked.cited
        marked.cited.clear()
    assert marked.text == out
    assert marked.held == 0
    return out, cited, marked


def claims(text: str) -> tuple[str, list[tuple[int, str]]]:
    out, cited, _ = read([text])
    return out, [(key, out[start:end]) for key, start, end in cited]


@pytest.mark.requirement("citations:offsets:claim")
@pytest.mark.parametrize(
    ("text", "left", "cited"),
    [
        ("It is old [cite:1].", "It is old.", [(1, "It is old")]),
        ("It is old. [cite:1]", "It is old.", [(1, "It is old.")]),
        ("A is. B is [cite:1]. C", "A is. B is. C", [(1, "B is")]),
        ("A is! B is [cite:1], C is [cite:2]", "A is! B is, C is", [(1, "B is"), (2, "C is")]),
        ("One\nTwo [cite:1]\nThree [cite:2]", "One\nTwo\nThree", [(1, "Two"), (2, "Three")]),
        ("- One [cite:1]\n- Two [cite:2]", "- One\n- Two", [(1, "One"), (2, "Two")]),
        ("1. One [cite:1]\n2) two [cite:2]", "1. One\n2) two", [(1, "One"), (2, "two")]),
        ("> # Old [cite:1]", "> # Old", [(1, "Old")]),
        ("It cost 3.5 e.g. here [cite:1]", "It cost 3.5 e.g. here", [(1, "It cost 3.5 e.g. here")]),
        ('He said "no." She left [cite:1]', 'He said "no." She left', [(1, "She left")]),
        ("**Old [cite:1]** Then new [cite:2]", "**Old** Then new", [(1, "**Old"), (2, "Then new")]),
        ("Old.[cite:1] **New** [cite:2]", "Old. **New**", [(1, "Old."), (2, "**New**")]),
        ("世界。很大【cite：1】。好【cite:2】。", "世界。很大。好。", [(1, "很大"), (2, "好")]),
        # code points: é is one, the picture is one
        ("Café 😀 ok [cite:1]. Oui [cite:2]", "Café 😀 ok. Oui", [(1, "Café 😀 ok"), (2, "Oui")]),
        # adjacent markers share their claim, a number in them counts once
        ("A [cite:1][cite:2] [cite:1,3]", "A", [(1, "A"), (2, "A"), (3, "A")]),
        ("A [cite:1]. [cite:2]", "A.", [(1, "A"), (2, "A")]),
        # a marker on a line of its own is about what comes before
        ("One.\nTwo is.\n[cite:1]\nThree", "One.\nTwo is.\nThree", [(1, "Two is.")]),
        ("Three [cite:1]\n- [cite:2]", "Three\n-", [(1, "Three"), (2, "Three")]),
        # with nothing before it, it has no claim
        ("[cite:1] One", "One", [(1, "")]),
        ("[cite:1]", "", [(1, "")]),
    ],
)
def test_a_claim_goes_from_the_sentence_line_or_marker_before_it(
    text: str, left: str, cited: list[tuple[int, str]]
) -> None:
    assert claims(text) == (left, cited)


@pytest.mark.requirement("citations:markers:blanks")
@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("A [cite:1] b", "A b"),
        ("A[cite:1] b", "A b"),
        ("A [cite:1]b", "A b"),
        ("A[cite:1]b", "Ab"),
        ("A [cite:1]; b", "A; b"),
        ("A \t [cite:1]\n\nb", "A\n\nb"),
        ("A\n\n[cite:1]\nb", "A\n\nb"),
        ("A\n[cite:1]  b", "A\nb"),
        ("A\n[cite:1]\n    b", "A\n    b"),
        ("A [cite:1]\n\n[cite:2] b", "A\n\nb"),
        ("  [cite:1]   b", "  b"),
        ("A.\n\n[cite:1]\n", "A."),
        ("A ([cite:1]).", "A."),
        ("A ( [cite:1]; [cite:2] ) b", "A b"),
        ("A （[cite:1]）。", "A。"),
        ("A [[cite:1], [cite:2]] b", "A b"),
        ("A `[cite:1]`.", "A."),
        ("A ([cite:1]) ([cite:2]), b", "A, b"),
        ("A [cite:1], ([cite:2]) b", "A b"),
        ("A ([cite:1] b) c", "A (b) c"),
        ("A (see [cite:1]) c", "A (see) c"),
        ("A ([cite:1]", "A"),
        ("A [cite:1], ", "A, "),
        ("f([1]) [cite:1]", "f([1])"),
        ("```\nx [cite:1]\n```\n", "```\nx\n```\n"),
        # more blanks than are held are text
        ("A" + " " * 70 + "[cite:1]" + " " * 70 + "b", "A" + " " * 76 + "b"),
    ],
)
def test_no_blank_or_bracket_is_left_of_a_marker(text: str, left: str) -> None:
    assert claims(text)[0] == left


@pytest.mark.requirement("citations:markers:open")
@pytest.mark.parametrize(
    ("text", "left", "keys"),
    [
        ("A [cite:3", "A", [3]),
        ("A [cite:3, 5 ", "A", [3, 5]),
        ("A [cite:3; cite:", "A", [3]),
        ("A [cite:", "A [cite:", []),
        ("A [ci", "A [ci", []),
        ("A [", "A [", []),
        ("A (", "A (", []),
        ("A 【", "A 【", []),
        ("A [cite:1] [ci", "A [ci", [1]),
    ],
)
def test_a_text_that_ends_in_a_marker(text: str, left: str, keys: list[int]) -> None:
    out, cited = claims(text)
    assert (out, [key for key, _ in cited]) == (left, keys)


@pytest.mark.requirement("citations:rewriting:servers")
def test_places_around_what_has_gone() -> None:
    out, _, marked = read(["A ([cite:1] b) c [cite:2]\n\nd"])
    assert out == "A (b) c\n\nd"
    places = {0: 0, 1: 1, 2: 2, 3: 3, 8: 3, 12: 3, 13: 4, 16: 7, 17: 8, 27: 9, 28: 10}
    assert {raw: marked.place(raw) for raw in places} == places
    assert marked.place(29) is None


FRAGMENTS = (
    *(
        "[cite:1]",
        "[cite:2,1]",
        "【CITE： 3；4】",
        "[cite:5",
        "[cite:6, cite",
        "[cit",
        "[",
        "]",
        "【",
        "】",
    ),
    *(
        "(",
        ")",
        "（",
        "）",
        "`",
        "**",
        ",",
        ";",
        ", ",
        ".",
        "。",
        ". ",
        "! ",
        "\n",
        "\n\n",
        " ",
        "  ",
    ),
    *(" " * 70, "\t", "a", "Word", "3", "é", "😀", "- ", "1. ", "cite:", "\u00a0", "\u3000", '"'),
)
TEXTS = st.lists(st.sampled_from(FRAGMENTS), max_size=24).map("".join)


@st.composite
def cut_texts(draw: st.DrawFn) -> tuple[str, list[str]]:
    text = draw(TEXTS)
    every = draw(st.booleans())
    places = range(1, len(text)) if every else sorted(draw(st.sets(st.integers(0, len(text)))))
    cuts = [0, *places, len(text)]
    return text, [text[a:b] for a, b in itertools.pairwise(cuts)]


@pytest.mark.requirement("citations:rewriting:chunks")
@settings(max_examples=1500)
@given(cut_texts())
@example(("A [cite:1] b", list("A [cite:1] b")))
def test_the_same_comes_out_however_the_text_is_cut(cut: tuple[str, list[str]]) -> None:
    text, pieces = cut
    out, cited, marked = read(pieces)
    whole_out, whole_cited, whole = read([text])
    assert (out, cited, marked.marks) == (whole_out, whole_cited, whole.marks)
    places = [marked.place(raw) for raw in range(len(text) + 1)]
    assert places == [whole.place(raw) for raw in range(len(text) + 1)]
    assert None not in places
    sure = [place for place in places if place is not None]
    assert sure == sorted(sure)
    assert sure[-1] == len(out)
    # Nothing but markers and what is around them has gone.
    gone = re.compile(r"[\s()（）\[\]`,;，；、]|cite|[:：\d【】]", re.IGNORECASE)
    assert gone.sub("", out) == gone.sub("", text)


@pytest.mark.requirement("citations:rewriting:chunks")
@settings(max_examples=500)
@given(TEXTS)
def test_what_has_not_gone_stands_where_places_say(text: str) -> None:
    out, _, marked = read([text])
    kept = [raw for raw in range(len(text)) if not any(a <= raw < b for a, b in marked.marks)]
    for raw in kept:
        place, behind = marked.place(raw), marked.place(raw + 1)
        assert place is not None
        if behind == place + 1 and not text[raw].isspace():
            assert out[place] == text[raw]


@pytest.mark.requirement("citations:rewriting:held")
@settings(max_examples=300)
@given(TEXTS)
def test_little_is_held_back(text: str) -> None:
    """Only what may still be a part of a marker, or go with one."""
    marked = MarkedText()
    for char in text:
        marked.feed(char)
        if not marked.marks and char.isalnum() and "[" not in text and "【" not in text:
            assert marked.held == 0
        assert marked.held <= 64 + 300 * text.count("[") + 300 * text.count("【") + 80
