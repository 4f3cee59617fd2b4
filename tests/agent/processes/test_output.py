"""What is kept of a command's output, and how it is shown."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bascule.agent.processes.output import Cleaner, Printing, clean, shortened, shown


def printed(data: bytes, max_tokens: int, kept: int = 1024) -> str:
    printing = Printing(kept)
    for at in range(0, len(data), 100):
        printing.add(data[at : at + 100])
    return shown(printing.take(), Cleaner(), max_tokens, last=True)


def test_what_fits_is_shown_as_it_is() -> None:
    assert printed(b"a\nb\n" * 10, 100) == "a\nb\n" * 10
    assert printed(b"", 100) == ""


@pytest.mark.requirement("exec:truncated")
def test_what_is_too_long_keeps_its_beginning_and_its_end() -> None:
    data = b"first\n" + b"x" * 4000 + b"\nlast\n"
    for kept in (1024, 1024 * 1024):
        text = printed(data, 100, kept)
        assert text.startswith(
            "Warning: truncated output (original token count: 1003)\nTotal output lines: 3\n\nfirst\n"
        )
        assert text.endswith("x\nlast\n")
        assert "…903 tokens truncated…" in text
    assert shortened("short", 100) == "short"
    assert "tokens truncated" in shortened("x" * 1000, 100)
    assert printed(data, 0).endswith("…1003 tokens truncated…")


def test_cut_inside_a_character_loses_that_character_alone() -> None:
    text = printed(("ä" * 1000 + "€" * 1000).encode(), 51)
    assert "\ufffd" not in text
    assert "ä…" in text
    assert text.endswith("€")


@given(st.binary(max_size=3000), st.integers(2, 700))
def test_no_more_is_kept_than_allowed(data: bytes, kept: int) -> None:
    printing = Printing(kept)
    for at in range(0, len(data), 64):
        printing.add(data[at : at + 64])
    taken = printing.take()
    assert taken.size == len(data)
    assert len(taken.head) + len(taken.tail) <= kept
    assert data.startswith(taken.head)
    assert data.endswith(taken.tail)
    if taken.left_out == 0:
        assert taken.head + taken.tail == data
    assert printing.take().size == 0


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07after", "after"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1bPq...\x1b\\dcs", "dcs"),
        ("\x1b(B\x1b7\x1bcplain", "plain"),
        ("\x9b31mc1", "c1"),
        ("a\x00b\x07c\x08d\x7f", "abcd"),
        ("10%\r20%\r\n", "10%\n20%\n"),
        ("tab\tand é stay\n", "tab\tand é stay\n"),
        ("\x1b[", ""),
    ],
)
@pytest.mark.requirement("exec:terminal_escapes")
def test_no_terminal_obeys_it(raw: str, text: str) -> None:
    cleaner = Cleaner()
    assert cleaner.feed(raw.encode(), last=True) == text
    assert "\x1b" not in clean(raw)


@given(
    st.lists(st.sampled_from(["\x1b[31m", "\x1b]0;t\x07", "é", "\r\n", "\r", "a", "\n"])), st.data()
)
def test_pieces_cut_anywhere_say_the_same(parts: list[str], data: st.DataObject) -> None:
    raw = "".join(parts).encode()
    at = data.draw(st.integers(0, len(raw)))
    cleaner = Cleaner()
    pieces = cleaner.feed(raw[:at]) + cleaner.feed(raw[at:]) + cleaner.feed(b"", last=True)
    assert pieces == clean(raw.decode())


@pytest.mark.requirement("exec:invalid_utf8")
def test_what_is_no_text_is_marked() -> None:
    assert Cleaner().feed(b"a\xff\xfeb", last=True) == "a\ufffd\ufffdb"
