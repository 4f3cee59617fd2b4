"""The text inside `{"input": ...}`: the same however it is encoded and cut, and nothing lost."""

import itertools
import time

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bascule.tools.free_text import FreeText

_alphabet = 'ab "\\/{}:\n\t\r\b\x00\x1f\x7f\u2028é\ud7ff\ue000🙂𝄞u0123dD'
texts = st.text(_alphabet, max_size=20)


@st.composite
def encoded(draw: st.DrawFn, text: str) -> str:
    """`{"input": text}` in any of the ways in which JSON allows it."""
    spaces = st.text(" \n\t\r", max_size=2)
    written = "".join(_character(draw, c) for c in text)
    blanks = [draw(spaces) for _ in range(5)]
    return f'{blanks[0]}{{{blanks[1]}"input"{blanks[2]}:{blanks[3]}"{written}"{blanks[4]}}}'


def _character(draw: st.DrawFn, c: str) -> str:
    short = {'"': '\\"', "\\": "\\\\", "/": "\\/", "\b": "\\b", "\n": "\\n", "\r": "\\r"}
    forms = [short[c]] if c in short else []
    units = c.encode("utf-16-be")
    escaped = "".join(f"\\u{units[i : i + 2].hex()}" for i in range(0, len(units), 2))
    forms += [escaped, "".join(e if e in "u\\" else e.upper() for e in escaped)]
    if c >= " " and c not in '"\\':
        forms.append(c)
    return draw(st.sampled_from(forms))


@st.composite
def texts_and_pieces(draw: st.DrawFn) -> tuple[str, list[str]]:
    text = draw(texts)
    return text, pieces(draw(encoded(text)), draw(st.lists(st.integers(0), max_size=8)))


def pieces(whole: str, places: list[int]) -> list[str]:
    borders = [0, *sorted(place % (len(whole) + 1) for place in places), len(whole)]
    return [whole[a:b] for a, b in itertools.pairwise(borders)]


def read(*fragments: str) -> str:
    free = FreeText()
    said = [free.feed(fragment) for fragment in fragments]
    said.append(free.finish())
    assert "".join(said) == free.text
    return free.text


@given(texts_and_pieces())
def test_any_text_in_any_encoding_cut_anywhere(case: tuple[str, list[str]]) -> None:
    text, fragments = case
    whole = "".join(fragments)
    assert msgspec.json.decode(whole) == {"input": text}
    assert read(*fragments) == text
    assert read(*whole) == text
    assert read(whole) == text


@given(st.text('{}"input:\\u d83de00 ,\n', max_size=30), st.lists(st.integers(0), max_size=6))
def test_any_arguments_say_the_same_however_they_are_cut(whole: str, places: list[int]) -> None:
    for arguments in (whole, '{"input":"' + whole):
        assert read(*pieces(arguments, places)) == read(arguments)


def test_text_streams_while_it_is_written() -> None:
    free = FreeText()
    assert free.feed('{"input": "ab') == "ab"
    assert free.feed("c\\") == "c"
    assert free.feed("n\\ud83d") == "\n"
    assert free.feed("\\ude42d") == "🙂d"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ("", ""),
        ("plain text", "plain text"),
        ('"a string"', "a string"),
        ('{"inp', '{"inp'),
        ('""0', '""0'),
        ('"a" "b"', '"a" "b"'),
        ('{"input": 5}', '{"input": 5}'),
        ('{"input": null}', '{"input": null}'),
        ('{"code": "x"}', '{"code": "x"}'),
        ('{"why": "so", "input": "x"}', "x"),
        ('{"\\u0069nput": "x"}', "x"),
        ('{"input": "x", "why": "so"}', "x"),
        ('[{"input": "x"}]', '[{"input": "x"}]'),
        # Cut by length, at every kind of place.
        ('{"input": "half', "half"),
        ('{"input": "half\\', "half\\"),
        ('{"input": "half\\u00', "half\\u00"),
        ('{"input": "half\\ud83d', "half\ufffd"),
        ('{"input": "whole"', "whole"),
        # Escapes that are none.
        ('{"input": "C:\\users\\x"}', "C:\\users\\x"),
        ('{"input": "\\d+"}', "\\d+"),
        ('{"input": "\\ud83d\\ud83d\\ude42"}', "\ufffd🙂"),
        ('{"input": "\\ud83d\\n"}', "\ufffd\n"),
        # Line ends that JSON wants escaped.
        ('{"input": "a\nb\tc"}', "a\nb\tc"),
        # Quotes that JSON wants escaped.
        ('{"input": "say "hi" now"}', 'say "hi" now'),
        ('{"input": "say "hi"\\nnow', 'say "hi"\nnow'),
        # Brackets too many.
        ('{"input": "x"}}', "x"),
        ('{"input": "x"}]}\n', "x"),
    ],
)
def test_nothing_that_the_model_wrote_is_lost(arguments: str, text: str) -> None:
    assert read(arguments) == text
    assert read(*arguments) == text


def test_long_texts_take_linear_time() -> None:
    began = time.process_time()
    for unit in ("ab", "\\n", '"', "\\u12", "\\ud83d"):
        free = FreeText()
        free.feed('{"input":"')
        for _ in range(50_000):
            free.feed(unit)
        free.finish()
    assert time.process_time() - began < 5


@pytest.mark.parametrize("arguments", ["{}", " {} \n"])
def test_a_call_without_arguments_is_one_without_text(arguments: str) -> None:
    text = FreeText()
    assert text.feed(arguments) + text.finish() == ""
