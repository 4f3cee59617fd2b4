"""The SSE reader: however a stream is written and cut, it says the same."""

import itertools
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bascule.protocols.sse import Frame, SseReader, SseTooLong

LINE_ENDS = (b"\n", b"\r\n", b"\r")
BOM = b"\xef\xbb\xbf"

_plain = st.text("ab :{é\u2028🙂\0", max_size=8)
_names = st.text("ab :", max_size=4)
_ends = st.sampled_from(LINE_ENDS)
_comments = st.lists(st.tuples(_plain, _ends), max_size=2)


@st.composite
def _events(draw: st.DrawFn) -> tuple[bytes, Frame | None]:
    """One event as bytes, and what a reader must make of it."""
    name = draw(st.none() | _names)
    lines = draw(st.lists(_plain, max_size=3))
    fields = [("data", line) for line in lines]
    if name is not None:
        fields.insert(draw(st.integers(0, len(fields))), ("event", name))
    fields += draw(st.lists(st.sampled_from([("id", "7"), ("retry", "10"), ("other", "x")])))
    out = b""
    for key, value in fields:
        for comment, end in draw(_comments):
            out += b":" + comment.encode() + end
        # Without the optional space a value must not begin with one, which would be eaten.
        space = value.startswith(" ") or draw(st.booleans())
        bare = value == "" and draw(st.booleans())
        text = key if bare else f"{key}:{' ' if space else ''}{value}"
        out += text.encode() + draw(_ends)
    # A CR directly before LF would be one line end.
    blank = draw(_ends)
    if out.endswith(b"\r") and blank == b"\n":
        blank = b"\r"
    frame = ((name or "").encode(), "\n".join(lines).encode()) if lines else None
    return out + blank, frame


def _joined(events: list[bytes]) -> bytes:
    """Events in a row, none of whose borders makes a CRLF that was not written."""
    out = b""
    for event in events:
        out += b":\n" if out.endswith(b"\r") and event.startswith(b"\n") else b""
        out += event
    return out


def read(*pieces: bytes) -> list[Frame]:
    reader = SseReader()
    frames = [frame for piece in pieces for frame in reader.feed(piece)]
    return frames + reader.finish()


def cut(data: bytes, places: list[int]) -> list[bytes]:
    borders = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[a:b] for a, b in itertools.pairwise(borders)]


@given(st.lists(_events(), max_size=5), st.lists(st.integers(0)), st.booleans())
def test_any_stream_cut_anywhere(
    events: list[tuple[bytes, Frame | None]], places: list[int], bom: bool
) -> None:
    data = (BOM if bom else b"") + _joined([data for data, _ in events])
    expected = [frame for _, frame in events if frame is not None]
    assert read(data) == expected
    assert read(*cut(data, places)) == expected
    assert read(*(data[i : i + 1] for i in range(len(data)))) == expected


@given(st.lists(_events(), min_size=1, max_size=3))
def test_the_last_blank_line_may_be_missing(events: list[tuple[bytes, Frame | None]]) -> None:
    data = _joined([data for data, _ in events]).rstrip(b"\r\n")
    last, frame = events[-1]
    if not last.rstrip(b"\r\n").endswith((b":", b" ")) and frame is not None:
        assert read(data) == [frame for _, frame in events if frame is not None]


@given(st.binary(max_size=200), st.lists(st.integers(0)))
def test_any_bytes_cut_anywhere(data: bytes, places: list[int]) -> None:
    assert read(*cut(data, places)) == read(data)


@pytest.mark.parametrize("end", LINE_ENDS)
def test_every_split_in_two(end: bytes) -> None:
    data = end.join([b"event: a", b"data: x\xc3\xa9", b"data:y", b"", b": hm", b"data: [DONE]"])
    data += end + end
    expected = [(b"a", b"x\xc3\xa9\ny"), (b"", b"[DONE]")]
    for at in range(len(data) + 1):
        assert read(data[:at], data[at:]) == expected


def test_an_event_leaves_as_soon_as_its_blank_line_is_there() -> None:
    reader = SseReader()
    assert reader.feed(b"data: a\r\n\r") == []
    assert reader.feed(b"\n") == [(b"", b"a")]
    assert reader.feed(b"data: b\n\n") == [(b"", b"b")]


@pytest.mark.parametrize("piece", [b"x" * 65536, b"data: x\n" * 8192, b"data: x\r\n" * 7000])
def test_megabytes_of_one_event_take_linear_time(piece: bytes) -> None:
    reader = SseReader()
    began = time.process_time()
    for _ in range(8 * 1024 * 1024 // len(piece)):
        assert reader.feed(piece) == []
    assert time.process_time() - began < 2


def test_many_small_pieces_of_one_event_take_linear_time() -> None:
    reader = SseReader()
    began = time.process_time()
    for _ in range(40_000):
        assert reader.feed(b"data: " + b"x" * 90 + b"\n") == []
    assert time.process_time() - began < 2
    assert len(reader.finish()) == 1


@pytest.mark.parametrize("piece", [b"x" * 10, b"data: x\n", b"data: x\r"])
def test_the_limit_holds_for_one_event(piece: bytes) -> None:
    reader = SseReader(limit=100)
    for _ in range(100 // len(piece)):
        reader.feed(piece)
    with pytest.raises(SseTooLong):
        reader.feed(piece + piece)


def test_the_limit_is_for_an_event_and_not_for_the_stream() -> None:
    reader = SseReader(limit=100)
    for _ in range(50):
        assert reader.feed(b"data: x\n\n") == [(b"", b"x")]
        assert reader.feed(b"data: y") == []
        assert reader.feed(b"\n\n") == [(b"", b"y")]
