"""The numbers of sources."""

import msgspec
import pytest

from bascule.toolkit import citations
from bascule.toolkit.citations import MAX_CHARACTERS, MAX_SOURCES, MAX_TITLE, MAX_URL, Citations


@pytest.mark.requirement("citations:sources:numbers")
def test_a_source_keeps_its_number() -> None:
    cited = Citations()
    assert [cited.cite(url) for url in ("https://a/", "https://b/", "https://a/")] == [1, 2, 1]
    assert cited.cite("https://c/", "C") == 3
    assert cited.annotation(3, 4, 7) == {
        "type": "url_citation",
        "url": "https://c/",
        "title": "C",
        "start_index": 4,
        "end_index": 7,
    }
    assert cited.annotation(4, 0, 1) is None
    assert cited.annotation(0, 0, 1) is None


@pytest.mark.requirement("citations:sources:numbers")
def test_the_first_title_counts() -> None:
    cited = Citations()
    for title in ("", "First ", "Second"):
        cited.cite("https://a/", title)
    assert cited.sources[1].annotation["title"] == "First"
    cited.cite("https://b/", "x" * 1000)
    assert len(cited.sources[2].annotation["title"]) == MAX_TITLE


@pytest.mark.requirement("citations:sources:numbers")
@pytest.mark.parametrize(
    "url", ["", "ftp://a/", "javascript:alert(1)", "//a/", "https://" + "a" * MAX_URL]
)
def test_what_is_no_address_of_a_page_has_no_number(url: str) -> None:
    cited = Citations()
    assert cited.cite(url, "A") is None
    assert cited.cite("HTTPS://a/", "A") == 1


@pytest.mark.requirement("citations:sources:bounded")
def test_the_sources_given_longest_ago_go_and_their_numbers_with_them() -> None:
    cited = Citations()
    for i in range(MAX_SOURCES):
        assert cited.cite(f"https://a/{i}") == i + 1
    assert cited.cite("https://a/0") == 1  # given again: it stays
    assert cited.cite("https://b/") == MAX_SOURCES + 1
    assert len(cited.sources) == MAX_SOURCES
    assert cited.annotation(1, 0, 0) is not None
    assert cited.annotation(2, 0, 0) is None
    assert cited.cite("https://a/1") == MAX_SOURCES + 2  # a number is not given twice


@pytest.mark.requirement("citations:sources:bounded")
def test_long_sources_are_bounded_together() -> None:
    cited = Citations()
    for i in range(200):
        cited.cite(f"https://a/{i}/".ljust(4000, "x"), "t" * 400)
    assert cited.size <= MAX_CHARACTERS
    assert cited.size == sum(map(citations._size, cited.sources.values()))
    assert cited.last == 200
    assert list(cited.sources)[-1] == 200


@pytest.mark.requirement("citations:sources:numbers")
def test_numbers_and_their_order_are_stored() -> None:
    cited = Citations()
    for url in ("https://a/", "https://b/", "https://a/"):
        cited.cite(url, "T")
    again = msgspec.json.decode(msgspec.json.encode(cited), type=Citations)
    assert again == cited
    assert list(again.sources) == [2, 1]
    assert again.cite("https://c/") == 3
