"""What is kept of a result: a bounded size, sound texts, nothing missing without a notice."""

from enum import StrEnum
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from bascule.protocols.responses.items import Audio, Part
from bascule.toolkit.outcome import Failed, Outcome, Output, Suspended
from bascule.toolkit.results import WrongResult, kept

pytestmark = pytest.mark.requirement("tools:scheduler:results")

ITEM = b'{"type":"asks","id":"ask_1"}'


def text(value: str, cap: int) -> str:
    outcome = kept(Output(output=value), cap)
    assert isinstance(outcome, Output)
    assert isinstance(outcome.output, str)
    return outcome.output


def parts(value: list[Part], cap: int) -> list[tuple[str, str | None]]:
    outcome = kept(Output(output=value), cap)
    assert isinstance(outcome, Output)
    assert isinstance(outcome.output, list)
    return [(part.type, part.text) for part in outcome.output]


@pytest.mark.parametrize(
    ("value", "cap", "shown"),
    [
        ("", 1, ""),
        ("12345", 5, "12345"),
        ("123456", 5, "12345\n[cut: the result had 6 bytes]"),
        ("éé", 4, "éé"),
        ("ééé", 5, "éé\n[cut: the result had 6 bytes]"),
        ("😀😀", 7, "😀\n[cut: the result had 8 bytes]"),
        ("😀", 1, "\n[cut: the result had 4 bytes]"),
        ("a\ud83d", 10, "a?"),
    ],
)
def test_texts(value: str, cap: int, shown: str) -> None:
    assert text(value, cap) == shown
    failed = kept(Failed(message=value, code="own"), cap)
    assert failed == Failed(message=shown, code="own")


@given(st.text(st.characters(), max_size=60), st.integers(1, 80))
def test_any_text_is_whole_or_a_beginning_with_a_notice(value: str, cap: int) -> None:
    shown = text(value, cap)
    sound = value.encode("utf-8", "replace").decode()
    beginning, cut, _ = shown.rpartition("\n[cut: ")
    if len(sound.encode()) <= cap:
        assert shown == sound
    else:
        assert cut
        assert sound.startswith(beginning)
        assert cap - 3 <= len(beginning.encode()) <= cap


class Colour(StrEnum):
    RED = "red"


def test_a_text_of_a_derived_class_can_be_encoded() -> None:
    assert msgspec.json.encode(text(Colour.RED, 100)) == b'"red"'
    outcome = kept(Output(output=[Part("input_text", text=Colour.RED)]), 100)
    assert isinstance(outcome, Output)
    assert b'"red"' in msgspec.json.encode(outcome.output)


def test_parts_within_the_limit_stay_as_they_are() -> None:
    given_parts = [
        Part("input_text", text="see"),
        Part("input_image", image_url="data:image/png;base64,AAAA", detail="high"),
        Part("input_audio", input_audio=Audio("AAAA", "wav")),
    ]
    outcome = kept(Output(output=given_parts), 1000)
    assert isinstance(outcome, Output)
    assert outcome.output == given_parts


def test_a_text_part_is_cut_and_what_follows_is_counted() -> None:
    given_parts = [Part("input_text", text=c * 100) for c in "abcd"]
    assert parts(given_parts, 300) == [
        ("input_text", "a" * 100),
        ("input_text", "b" * 100),
        ("input_text", "c" * 4 + "\n[cut: the result had 100 bytes]"),
        ("input_text", "[left out: 1 more, 132 bytes]"),
    ]


@pytest.mark.parametrize(
    ("large", "kind"),
    [
        (Part("input_image", image_url="x" * 5000), "image"),
        (Part("input_file", file_data="x" * 5000, filename="f"), "file"),
        (Part("input_audio", input_audio=Audio("x" * 5000, "wav")), "audio"),
        (Part("own-type-of-a-plugin", image_url="x" * 5000), "part"),
    ],
)
def test_a_medium_over_the_limit_is_replaced_and_the_rest_stays(large: Part, kind: str) -> None:
    shown = parts([Part("input_text", text="a"), large, Part("input_text", text="b")], 1000)
    assert [type_ for type_, _ in shown] == ["input_text"] * 3
    assert (shown[0][1], shown[2][1]) == ("a", "b")
    assert str(shown[1][1]).startswith(f"[left out: {kind} of 50")


def test_a_long_list_of_parts_is_cut() -> None:
    shown = parts([Part("input_text", text="x") for _ in range(100_000)], 1000)
    assert len(shown) < 50
    assert "more" in str(shown[-1][1])
    media = parts([Part("input_image", image_url="x" * 5000) for _ in range(1000)], 1000)
    assert len(media) < 50
    assert "more" in str(media[-1][1])


def test_the_executors_own_objects_are_not_changed() -> None:
    part = Part("input_text", text="x" * 5000)
    mine = Output(output=[part])
    first = kept(mine, 1000)
    assert kept(mine, 1000) == first
    assert mine.output == [part]
    assert part.text == "x" * 5000
    long_text = Output(output="x" * 5000)
    assert kept(long_text, 1000) == kept(long_text, 1000)
    assert long_text.output == "x" * 5000


def test_public_parts() -> None:
    def public(data: bytes) -> bytes:
        outcome = kept(Output(output="", public=data), 100)
        assert isinstance(outcome, Output)
        return outcome.public

    assert public(b'{"a":1}') == b'{"a":1}'
    assert public(b'{"a":\n "b\\nc"}') == b'{"a":"b\\nc"}'  # a stream's data is one line
    assert public(b'"' + b"x" * 200 + b'"') == b"null"


def test_suspended_calls() -> None:
    fine = Suspended(items=[b'{"type":"asks",\n"id":"ask_1"}'], awaits=["ask_1"], state=b"[1]")
    outcome = kept(fine, 1000)
    assert outcome == Suspended(items=[ITEM], awaits=["ask_1"], state=b"[1]")
    state = b'"' + b"x" * 1000 + b'"'
    for large in (
        Suspended(items=[ITEM] * 40, awaits=["ask_1"]),
        Suspended(items=[ITEM], awaits=["ask_1"], state=state),
    ):
        outcome = kept(large, 1000)
        assert isinstance(outcome, Failed)
        assert outcome.code == "result_too_large"
        assert "1000 are allowed" in outcome.message


def _wrong(**changed: Any) -> Suspended:
    fields: dict[str, Any] = {"items": [ITEM], "awaits": ["ask_1"], **changed}
    return Suspended(**fields)


@pytest.mark.parametrize(
    "outcome",
    [
        None,
        "text",
        Output(output=None),  # type: ignore[arg-type]
        Output(output=b"bytes"),  # type: ignore[arg-type]
        Output(output=({"type": "input_text"},)),  # type: ignore[arg-type]
        Output(output=[{"type": "input_text"}]),  # type: ignore[list-item]
        Output(output=[Part("input_text", text=5)]),  # type: ignore[arg-type]
        Output(output=[Part("input_audio", input_audio=Audio(object(), "wav"))]),  # type: ignore[arg-type]
        Output(output="", public=None),  # type: ignore[arg-type]
        Output(output="", public=b"{"),
        Output(output="", public=b'"\xff"'),
        Output(output="", declare=None),  # type: ignore[arg-type]
        Output(output="", declare=[{"type": "function"}]),  # type: ignore[list-item]
        Output(output="", declare=Raw(b"[]")),  # type: ignore[arg-type]
        Failed(message=None),  # type: ignore[arg-type]
        Failed(message="", code=5),  # type: ignore[arg-type]
        _wrong(items=None),
        _wrong(items=ITEM),
        _wrong(items=["text"]),
        _wrong(items=[b"{}"]),
        _wrong(items=[b'{"type":"asks"}']),
        _wrong(items=[b"[]"]),
        _wrong(items=[ITEM + b"x"]),
        _wrong(awaits=[]),
        _wrong(awaits="ask_1"),
        _wrong(awaits=[1]),
        _wrong(state=None),
        _wrong(state=b"{"),
    ],
)
def test_what_is_no_result(outcome: Any) -> None:
    with pytest.raises((WrongResult, TypeError)):
        kept(outcome, 1000)


@pytest.mark.parametrize(
    "outcome",
    [
        Output(output="fine"),
        Output(output="fine", declare=[Raw(b"{}")], public=b"[1]"),
        Failed(message="fine"),
    ],
)
def test_what_is_fine_is_not_copied(outcome: Outcome) -> None:
    assert kept(outcome, 1000) is outcome
