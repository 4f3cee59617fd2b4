"""Calls in text, cut anywhere."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bascule.protocols.written_calls import CallScanner, WrittenCall
from bascule.testing.weak import written_call

NAMES = frozenset({"f", "get_weather"})
OSLO = WrittenCall("get_weather", '{"city":"Oslo"}')

Pieces = list[str | WrittenCall]


def scan(*pieces: str) -> Pieces:
    """What comes out, adjacent text joined."""
    scanner = CallScanner(NAMES)
    out: Pieces = []
    for found in [*(part for piece in pieces for part in scanner.feed(piece)), *scanner.finish()]:
        if isinstance(found, str) and out and isinstance(out[-1], str):
            out[-1] += found
        else:
            out.append(found)
    return out


FORMS = ["bare", "fenced", "tag", "tool_calls", "python_tag"]


@pytest.mark.requirement("weak:text-calls:forms")
@pytest.mark.parametrize("form", FORMS)
def test_each_form_is_a_call(form: Any) -> None:
    text = written_call("get_weather", {"city": "Oslo"}, form)
    assert scan(text) == [OSLO]
    assert scan(*text) == [OSLO]
    assert scan(f"\n {text}\n\n") == [OSLO]


BARE = '{"name":"get_weather","arguments":{"city":"Oslo"}}'


@pytest.mark.requirement("weak:text-calls:forms")
@pytest.mark.parametrize(
    ("text", "found"),
    [
        (f"[{BARE}, {BARE}]", [OSLO, OSLO]),
        (f"<tool_call>{BARE}</tool_call>\n<tool_call>\n{BARE}\n</tool_call>", [OSLO, OSLO]),
        (f"<tool_call>{BARE}", [OSLO]),
        (f"<tool_call>{BARE}</tool_", [OSLO]),
        (f"```json\n[{BARE}]\n```", [OSLO]),
        (f"```\n{BARE}\n```", [OSLO]),
        (f"```json\n{BARE}", [OSLO]),
        (f"<|python_tag|>{BARE}; {BARE}", [OSLO, OSLO]),
        (f"{BARE};{BARE}", [OSLO, OSLO]),
        (f"{BARE}\n{BARE}", [OSLO, OSLO]),
        (f"[TOOL_CALLS]{BARE}", [OSLO]),
        ('[TOOL_CALLS]get_weather[ARGS]{"city":"Oslo"}', [OSLO]),
        ('{"type":"function","name":"get_weather","parameters":{"city":"Oslo"}}', [OSLO]),
        ('{"arguments":{"city":"Oslo"},"name":"get_weather"}', [OSLO]),
        ('{"name":"get_weather","arguments":"{\\"city\\":\\"Oslo\\"}"}', [OSLO]),
        ('{"name":"f","arguments":{"a":"}\\"{"}}', [WrittenCall("f", '{"a":"}\\"{"}')]),
        ('{\n  "name": "f",\n  "arguments": { "a": [1] }\n}', [WrittenCall("f", '{ "a": [1] }')]),
    ],
)
def test_variants(text: str, found: Pieces) -> None:
    assert scan(text) == found
    assert scan(*text) == found


@pytest.mark.requirement("weak:text-calls:text-around")
@pytest.mark.parametrize(
    ("text", "found"),
    [
        (f"Sure.\n{BARE}", ["Sure.\n", OSLO]),
        (f"Sure. <tool_call>{BARE}</tool_call> Done.", ["Sure. ", OSLO, " Done."]),
        (f"{BARE}\n\nThat is all.", [OSLO, "\n\nThat is all."]),
        (f"a <b> [c]\n```json\n{BARE}\n```\nd", ["a <b> [c]\n", OSLO, "\nd"]),
        (f"{BARE}; and more", [OSLO, "; and more"]),
    ],
)
def test_text_around_calls_stays_text(text: str, found: Pieces) -> None:
    assert scan(text) == found
    assert scan(*text) == found


@pytest.mark.requirement("weak:text-calls:else-text")
@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n \n",
        "Just text.",
        '<tool_call>{"name": "get_weather", "argum',
        '<tool_call>{"name":"get_weather","arguments":{"city":Oslo}}</tool_call>',
        '<tool_call>{"name":"translate","arguments":{}}</tool_call>',
        '{"name":"translate","arguments":{}}',
        '[{"name":"f","arguments":{}},{"name":"translate","arguments":{}}]',
        '{"name":"f"}',
        '{"name":"f","arguments":null}',
        '{"name":"f","arguments":[1]}',
        '{"name":"f","arguments":"no JSON"}',
        '{"name":"f","arguments":{},"comment":1}',
        '{"name":"f","arguments":{},}',
        '{"name":"f","arguments":{"a":"line\nbreak"}}',
        f"I would write {BARE} here.",
        f"```python\n{BARE}\n```",
        f'{{"tools":[\n  {BARE}\n]}}',
        "<|python_tag|>print(1)",
        "[TOOL_CALLS]translate[ARGS]{}",
        "[TOOL_CALLS]",
        "[link](http://x) <div>[1, 2]</div> {a} `code` ``` ```",
        "{",
        "[",
        "<",
        "```json",
        '{"name"',
        "\\",
    ],
)
def test_what_is_no_call_stays_text_byte_for_byte(text: str) -> None:
    expected: Pieces = [text] if text else []
    assert scan(text) == expected
    assert scan(*text) == expected


@pytest.mark.requirement("weak:text-calls:held-briefly")
@pytest.mark.parametrize(
    ("pieces", "out"),
    [
        (["Hello", " wor", "ld"], [["Hello"], [" wor"], ["ld"]]),
        (["a <to", "ast>"], [["a "], ["<toast>"]]),
        (['{"city"', ": 1}"], [['{"city"'], [": 1}"]]),
        (['{"name":"An', 'na"', "}"], [[], ['{"name":"Anna"'], ["}"]]),
        ([BARE[:20], BARE[20:]], [[], []]),
    ],
)
def test_text_is_held_only_while_it_can_become_a_call(pieces: list[str], out: list[Pieces]) -> None:
    scanner = CallScanner(NAMES)
    assert [scanner.feed(piece) for piece in pieces] == out


FRAGMENTS = st.sampled_from(
    [
        *(written_call("get_weather", {"city": "Oslo", "n": [{"a": '"}'}]}, f) for f in FORMS),  # type: ignore[arg-type]
        *(written_call("translate", {"text": "x"}, f) for f in FORMS),  # type: ignore[arg-type]
        "\n", " ", "Hello", "<", "[", "{", "```", "```json\n", '"', "\\", "}", ";", "é", "[TOOL_", "<tool_call>",
    ]
)  # fmt: skip


@pytest.mark.requirement("weak:text-calls:cut-anywhere")
@given(parts=st.lists(FRAGMENTS, max_size=6), cuts=st.lists(st.integers(0, 400), max_size=12))
def test_the_cuts_between_pieces_change_nothing(parts: list[str], cuts: list[int]) -> None:
    text = "".join(parts)
    at = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    pieces = [text[a:b] for a, b in pairwise(at)]
    whole = scan(text)
    assert scan(*pieces) == whole
    assert scan(*text) == whole
    if not any(isinstance(piece, WrittenCall) for piece in whole):
        assert "".join(map(str, whole)) == text


@pytest.mark.requirement("weak:text-calls:cut-anywhere")
def test_a_long_call_in_small_pieces_takes_time_in_proportion() -> None:
    text = written_call("f", {"text": 'x "y" \n' * 20_000}, "tag")
    found = scan(*(text[i : i + 16] for i in range(0, len(text), 16)))
    assert [type(piece) for piece in found] == [WrittenCall]
