"""What is read on a page, by the functions that the reading process runs."""

import pytest

from bascule.services.pages.extract import MAX_TEXT, extract
from bascule.services.pages.messages import Extracted, Task
from tests.services.pages.samples import article, pdf


def read(
    body: str | bytes, kind: str = "text/html", charset: str | None = None, encoding: str = "utf-8"
) -> Extracted:
    data = body if isinstance(body, bytes) else body.encode(encoding)
    return extract(Task("https://example.org/a/", kind, charset, data))


def test_an_article_without_what_stands_around_it() -> None:
    found = read(article())
    assert found.title == "Bridges of Cork"
    assert "Paragraph 2 tells of [a bridge](https://example.org/bridge/2) over" in found.text
    assert "## Part 1" in found.text
    assert "alert" not in found.text
    assert "Cookies" not in found.text
    assert found.fault == ""


@pytest.mark.parametrize(
    ("charset", "meta", "encoding"),
    [
        ("latin-1", "", "latin-1"),
        ("iso-8859-1", "", "cp1252"),
        (None, "<meta charset='ISO-8859-1'>", "latin-1"),
        (
            None,
            '<meta http-equiv="Content-Type" content="text/html; charset=windows-1252">',
            "cp1252",
        ),
        (None, "", "latin-1"),
        (None, "", "utf-8"),
        ("no-such-charset", "", "utf-8"),
        (None, "", "utf-16"),
        (None, "<meta charset='shift_jis'>", "shift_jis"),
    ],
)
@pytest.mark.requirement("web_search:pages:encodings")
def test_encodings(charset: str | None, meta: str, encoding: str) -> None:
    words = "橋と川" if encoding == "shift_jis" else "Brücken führen über Flüsse, größer"
    page = article(words=words).replace("<head>", f"<head>{meta}")
    found = read(page, charset=charset, encoding=encoding)
    assert words in found.text


@pytest.mark.requirement("web_search:pages:login")
def test_a_page_that_asks_for_a_login() -> None:
    form = "<form><input name=user><input type=password name=word></form>"
    found = read(f"<html><title>Sign in</title><body>{form}</body></html>")
    assert found.fault == "The page asks for a login, and shows nothing without it."
    # A field for members beside an article is none.
    assert read(article(20).replace("<nav>", f"<nav>{form}")).fault == ""


@pytest.mark.parametrize("body", ["", "  \n ", "<p>", "<html></html>", "<!-- -->", "<img src=a>"])
def test_nothing_to_read(body: str) -> None:
    assert read(body).fault == "There is no text on the page."


def test_a_page_without_an_article() -> None:
    assert (
        read("<html><body><div>Closed on Mondays</div></body></html>").text == "Closed on Mondays"
    )


def test_plain_text_and_data_stay_as_they_are() -> None:
    assert read("a  <b>\n\nc", "text/plain").text == "a  <b>\n\nc"
    assert read('{"a": [1]}', "application/json").text == '{"a": [1]}'
    assert read("<rss><title>x</title></rss>", "application/rss+xml").text.startswith("<rss>")


def test_a_type_that_nobody_told() -> None:
    assert read(article(), "").title == "Bridges of Cork"
    assert read(pdf(["A bridge"]), "").text == "[page 1]\nA bridge"
    assert read("plain", "").text == "plain"


@pytest.mark.requirement("web_search:pages:pdf")
def test_documents() -> None:
    found = read(pdf(["One bridge", "of stone"], [], ["Two bridges"]), "application/pdf")
    assert found.title == "Bridges"
    assert found.text == "[page 1]\nOne bridge\nof stone\n\n[page 3]\nTwo bridges"
    assert read(pdf([]), "application/pdf").fault.endswith("its pages are pictures.")
    assert read(b"%PDF-1.4 no", "application/pdf").fault == "The page is a PDF that is broken."


def test_a_very_long_text_is_cut_and_says_so() -> None:
    found = read("word " * 200_000, "text/plain")
    assert found.text[MAX_TEXT:] == "\n[the page is longer: the rest was not read]"


def test_odd_markup() -> None:
    """Nothing that a parser could choke on is more than a fault."""
    for body in (
        b"\x00" * 1000,
        b"<" * 50_000,
        b"<div>" * 20_000 + b"deep",
        b"<a " + b"x=1 " * 50_000,
        "<p>\ud800</p>".encode("utf-8", "surrogatepass"),
        b"<?xml version='1.0'?><!DOCTYPE a [<!ENTITY b SYSTEM 'file:///etc/passwd'>]><a>&b;</a>",
    ):
        found = read(body)
        assert "root:" not in found.text
