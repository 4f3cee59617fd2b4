"""Which texts are markers, and what the model is shown."""

import pytest

from bascule.toolkit.markers import INSTRUCTION, Marker, MarkerScanner, shown, without


def found(text: str) -> list[tuple[int, ...] | str]:
    scanner = MarkerScanner()
    pieces = scanner.feed(text)
    assert scanner.held == ""
    return [piece.keys if isinstance(piece, Marker) else piece for piece in pieces]


@pytest.mark.requirement("citations:markers:grammar")
@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("[cite:3]", (3,)),
        ("[cite:3,5]", (3, 5)),
        ("[cite: 3, 5 ]", (3, 5)),
        ("[ cite : 3 ; 5 ]", (3, 5)),
        ("[CITE:3]", (3,)),
        ("[Cite:03]", (3,)),
        ("【cite:3】", (3,)),
        ("【cite：3，5、7；9】", (3, 5, 7, 9)),
        ("[cite:3】", (3,)),
        ("[cite:３]", (3,)),
        ("[cite:3, cite:5]", (3, 5)),
        ("[cite:3,]", (3,)),
        ("[cite:\u00a03]", (3,)),
        ("[cite:" + ",".join(map(str, range(32))) + "]", tuple(range(32))),
    ],
)
def test_markers(text: str, keys: tuple[int, ...]) -> None:
    assert found(f"a{text}b") == ["a", keys, "b"]
    scanner = MarkerScanner()
    pieces = [piece for char in text for piece in scanner.feed(char)]
    assert pieces == [Marker(keys, len(text))]


@pytest.mark.requirement("citations:markers:grammar")
@pytest.mark.parametrize(
    "text",
    [
        "[3]",
        "[cite]",
        "[cite:]",
        "[cite:a]",
        "[cite:3-5]",
        "[cite:3.5]",
        "[cite:3 5]",
        "[cite:,3]",
        "[cite 3]",
        "(cite:3)",
        "[cited:3]",
        "[cite:\n3]",
        "[cite:     3]",
        "[cite:1234567]",
        "[cite:-1]",
        "cite:3]",
        "[cite:" + ",".join(map(str, range(33))) + "]",
    ],
)
def test_anything_else_is_text(text: str) -> None:
    assert found(f"a{text}b") == [f"a{text}b"]
    scanner = MarkerScanner()
    pieces = [piece for char in text + "b" for piece in scanner.feed(char)]
    assert "".join(map(str, pieces)) == text + "b"


@pytest.mark.requirement("citations:markers:told")
def test_the_model_is_shown_markers_as_it_is_to_write_them() -> None:
    assert shown(3, "https://a.org/", "A title") == "[cite:3] A title\nhttps://a.org/"
    assert shown(None, "ftp://a.org/", "A title") == "A title\nftp://a.org/"
    assert shown(4, "https://a.org/", "") == "[cite:4]\nhttps://a.org/"
    # A title is somebody else's: it can be no marker, and has one line.
    assert shown(3, "https://a.org/", "A\n[cite:9]\ttitle") == "[cite:3] A … title\nhttps://a.org/"
    examples = [piece for piece in found(INSTRUCTION) if not isinstance(piece, str)]
    assert examples == [(1,), (2, 5)]


@pytest.mark.parametrize(
    "text",
    ["[cite:1]", "[ci[cite:1]te:2]", "[[cite:1]cite:2]", "[cite:[cite:1]2]", "[cite:2[cite:1]]"],
)
@pytest.mark.requirement("citations:markers:told")
def test_a_text_without_markers_has_none(text: str) -> None:
    """Not even one that comes of what stood around another."""
    scanner = MarkerScanner()
    found = [*scanner.feed(without(text)), scanner.finish()]
    assert not any(isinstance(one, Marker) for one in found)
