"""The strings of a JSON text: the same wherever the text is cut."""

import itertools
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bascule.tools.json_strings import Path, StringReader, objects_in

_characters = st.text('ab "\\/{}[]:,\n\té\u2028\ue000🙂u12dD', max_size=12)
_values = st.recursive(
    _characters | st.integers() | st.booleans() | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_characters, inner, max_size=3),
    max_leaves=8,
)


def pieces(whole: str, places: list[int]) -> list[str]:
    borders = [0, *sorted(place % (len(whole) + 1) for place in places), len(whole)]
    return [whole[a:b] for a, b in itertools.pairwise(borders)]


def strings(value: Any, path: Path = ()) -> dict[Path, str]:
    if isinstance(value, str):
        return {path: value}
    found: dict[Path, str] = {}
    members: Any = ()
    if isinstance(value, dict):
        members = value.items()  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
    elif isinstance(value, list):
        members = enumerate(value)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    for key, member in members:
        found |= strings(member, (*path, key))
    return found


def read(fragments: list[str]) -> dict[Path, str]:
    reader = StringReader()
    found: dict[Path, str] = {}
    is_open: set[Path] = set()
    for fragment in fragments:
        for piece in reader.feed(fragment):
            assert piece.first == (piece.path not in found)
            assert piece.first or piece.path in is_open
            found[piece.path] = found.get(piece.path, "") + piece.text
            is_open.add(piece.path)
            if piece.last:
                is_open.remove(piece.path)
    assert not is_open
    return found


@given(_values, st.lists(st.integers(0), max_size=8), st.booleans())
def test_any_value_cut_anywhere(value: Any, places: list[int], escaped: bool) -> None:
    whole = json.dumps(value, ensure_ascii=escaped, indent=1 if escaped else None)
    assert read(pieces(whole, places)) == strings(value)


@pytest.mark.parametrize(
    ("written", "text"),
    [
        (r"\d+ \u12 C:\users", r"\d+ \u12 C:\users"),
        (r"a\\\"b", 'a\\"b'),
        (r"\ud83d\ude42", "🙂"),
        (r"\ud83d!", "\ufffd!"),
        (r"\ud83d\n", "\ufffd\n"),
        ("two\nlines", "two\nlines"),
    ],
)
def test_what_strings_may_hold(written: str, text: str) -> None:
    whole = f'{{"a":"{written}"}}'
    for fragments in (list(whole), [whole]):
        assert read(fragments) == {("a",): text}


def test_text_that_is_no_json_raises_nothing() -> None:
    reader = StringReader()
    for text in ("}]", ":,", '"a" "b"', "{{{{", "[" * 100_000, '"x"', "nul"):
        reader.feed(text)


def test_objects() -> None:
    assert objects_in('{"a":1}') == [{"a": 1}]
    assert objects_in(' {"a":1}\n{"b":[2]} ') == [{"a": 1}, {"b": [2]}]
    assert objects_in('{"a":"x\ny \\d \\\\d"}') == [{"a": "x\ny \\d \\d"}]
    for text in ("", "[]", '"a"', "5", '{"a":1} 5'):
        assert objects_in(text) == "The arguments must be a JSON object."
    for text in ('{"a":', '{"a":1}}', "{'a':1}", '{"a":1} x'):
        assert "not valid JSON" in str(objects_in(text))
    assert objects_in('{"a":' * 100_000) == "The arguments are nested too deeply."


def test_objects_agree_with_the_strict_reader() -> None:
    text = r'{"a":"\u00e9\/\b","b":[1.5,null,true]}'
    assert objects_in(text) == [msgspec.json.decode(text)]
