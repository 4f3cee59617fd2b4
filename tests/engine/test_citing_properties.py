"""Whatever a model writes, cites and annotates, and however it comes: the events agree with each other."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bascule.engine.citing import Citer
from bascule.protocols.responses.builder import ItemBuilder
from bascule.protocols.responses.events import AnnotationAdded, OutputTextDelta
from bascule.toolkit.citations import Citations
from tests.engine.test_marked_text import FRAGMENTS
from tests.stream_rules import check_items

Json = dict[str, Any]
PIECES = st.lists(st.sampled_from(FRAGMENTS), min_size=1, max_size=20)


def citations() -> Citations:
    found = Citations()
    for site in "abc":
        found.cite(f"https://{site}.org/", site)
    return found


def answered(pieces: list[str], own: dict[int, list[Json]], *, logprobs: bool) -> list[Any]:
    """The batches of an answer with these deltas; behind the n-th come annotations of the server's."""
    builder = ItemBuilder(summarise=False)
    batches: list[Any] = []
    for number, piece in enumerate(pieces):
        if logprobs:
            builder.logprobs([{"token": piece, "logprob": -0.5, "bytes": [], "top_logprobs": []}])
        builder.text(piece)
        for annotation in own.get(number, ()):
            builder.annotation(dict(annotation))
        batches.append(builder.out[:])
        builder.out.clear()
    builder.close()
    return [*batches, builder.out]


def public(batches: list[Any]) -> list[Json]:
    citer = Citer(citations())
    events = [event for batch in batches for event in citer.feed(batch)]
    return [msgspec.json.decode(msgspec.json.encode(event)) for event in events]


@st.composite
def annotated(draw: st.DrawFn) -> tuple[list[str], dict[int, list[Json]]]:
    pieces = draw(PIECES)
    own: dict[int, list[Json]] = {}
    for number in draw(st.sets(st.integers(0, len(pieces) - 1), max_size=4)):
        size = len("".join(pieces[: number + 1]))
        start = draw(st.integers(0, size))
        place = {"start_index": start, "end_index": draw(st.integers(start, size))}
        own[number] = [{"type": "url_citation", "url": "https://s/", "title": "S", **place}]
    return pieces, own


@pytest.mark.requirement(
    "citations:rewriting:whole", "citations:rewriting:servers", "citations:logprobs"
)
@settings(max_examples=500)
@given(annotated(), st.booleans())
def test_events_agree(drawn: tuple[list[str], dict[int, list[Json]]], logprobs: bool) -> None:
    pieces, own = drawn
    events = public(answered(pieces, own, logprobs=logprobs))
    (item,) = check_items(events)
    (part,) = item["content"]
    text, annotations = part["text"], part["annotations"]
    by_type: dict[str, list[Json]] = {}
    for event in events:
        by_type.setdefault(event["type"].removeprefix("response."), []).append(event)
    added = by_type.get("output_text.annotation.added", [])
    assert [event["annotation"] for event in added] == annotations
    assert [event["annotation_index"] for event in added] == list(range(len(added)))
    (part_done,) = by_type["content_part.done"]
    assert part_done["part"] == part
    (done,) = by_type["output_text.done"]
    assert done["logprobs"] == part["logprobs"]
    # A token may be sure only when no text is left for a delta.
    deltas = by_type.get("output_text.delta", [])
    said = [token for event in deltas for token in event["logprobs"]]
    assert said == part["logprobs"][: len(said)]
    assert all(0 <= a["start_index"] <= a["end_index"] <= len(text) for a in annotations)
    assert sum(a["title"] == "S" for a in annotations) == sum(map(len, own.values()))
    # An annotation has left when its text has, and not before.
    out = 0
    for event in events:
        if event["type"] == "response.output_text.delta":
            out += len(event["delta"])
        elif event["type"] == "response.output_text.annotation.added":
            assert event["annotation"]["end_index"] <= out


@pytest.mark.requirement("citations:rewriting:servers")
@settings(max_examples=500)
@given(annotated())
def test_annotations_of_the_server_keep_their_text(
    drawn: tuple[list[str], dict[int, list[Json]]],
) -> None:
    """But for what goes with markers inside it."""
    pieces, own = drawn
    raw = "".join(pieces)
    events = public(answered(pieces, own, logprobs=False))
    (item,) = check_items(events)
    (part,) = item["content"]
    moved = [a for a in part["annotations"] if a["title"] == "S"]
    before = [own[number][0] for number in sorted(own)]
    for old, new in zip(before, moved, strict=True):
        was = raw[old["start_index"] : old["end_index"]]
        now = part["text"][new["start_index"] : new["end_index"]]
        if set(was) <= set("aéWord😀"):  # letters that no marker has
            assert now == was
        elif not any(char in was for char in "[【"):
            assert len(now) <= len(was)


@pytest.mark.requirement("citations:rewriting:parts")
@pytest.mark.parametrize("together", [True, False])
def test_open_parts_whose_deltas_alternate(together: bool) -> None:
    """Servers that speak Responses may write several items and parts at once."""
    said: dict[tuple[int, int], str] = {
        (0, 0): "Someone [cite:1] is",
        (0, 1): "Two and more [cite:2] is",
        (1, 0): "Three [cite:3] is",
    }
    deltas = [
        OutputTextDelta(-1, "", index, at, text[i : i + 2])
        for i in range(0, 24, 2)
        for (index, at), text in said.items()
        if text[i : i + 2]
    ]
    events = public([deltas] if together else [[delta] for delta in deltas])
    texts: dict[tuple[int, int], str] = {}
    found: dict[tuple[int, int], list[tuple[str, int, int]]] = {}
    for event in events:
        place = event["output_index"], event["content_index"]
        if "delta" in event:
            texts[place] = texts.get(place, "") + event["delta"]
        else:
            cited = event["annotation"]
            spot = cited["title"], cited["start_index"], cited["end_index"]
            found.setdefault(place, []).append(spot)
    assert texts == {(0, 0): "Someone is", (0, 1): "Two and more is", (1, 0): "Three is"}
    assert found == {(0, 0): [("a", 0, 7)], (0, 1): [("b", 0, 12)], (1, 0): [("c", 0, 5)]}


@pytest.mark.requirement("citations:rewriting:servers")
def test_an_annotation_that_comes_before_its_text_waits_for_it() -> None:
    annotation = {"type": "url_citation", "start_index": 0, "end_index": 7}
    batches: list[Any] = [
        [OutputTextDelta(-1, "", 0, 0, "One")],
        [AnnotationAdded(-1, "", 0, 0, 0, annotation)],
        *([OutputTextDelta(-1, "", 0, 0, word)] for word in ("two", "three", "four")),
    ]
    events = public(batches)
    assert [event.get("delta") for event in events] == ["One", "two", "three", None, "four"]
