"""Text out of HTML, PDF and plain text. Slow, and written for hostile input: see `worker`."""

import codecs
import re
from typing import Any, Final

import charset_normalizer
import pypdfium2
import trafilatura

from bascule.services.pages.messages import Extracted, Task

MAX_TEXT: Final = 500_000
"""Characters of a page's text; the rest is left out."""
MAX_PDF_PAGES: Final = 300
_MAX_TITLE: Final = 300
_META: Final = re.compile(
    rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([a-z0-9_-]{1,40})", re.IGNORECASE
)
_PASSWORD: Final = re.compile(r"<input\b[^>]{0,500}?\btype\s*=\s*[\"']?password", re.IGNORECASE)
_SCANNED: Final = 100_000
"""Bytes in which the encoding of a text is looked for."""
_SHORT: Final = 600
"""Characters. A page with a password field and less text than that is the way to another."""
_HTML: Final = frozenset({"text/html", "application/xhtml+xml"})


def extract(task: Task) -> Extracted:
    """What a page says."""
    kind = task.content_type or _guessed(task.body)
    if kind == "application/pdf":
        found = _pdf(task.body)
    elif kind in _HTML:
        found = _html(task)
    else:
        found = Extracted(text=decoded(task.body, task.charset))
    if not found.fault and not found.text.strip():
        found.fault = "There is no text on the page."
    found.title = " ".join(found.title.split())[:_MAX_TITLE]
    if len(found.text) > MAX_TEXT:
        found.text = f"{found.text[:MAX_TEXT]}\n[the page is longer: the rest was not read]"
    return found


def _guessed(body: bytes) -> str:
    """The type of a body of which the server has not said it."""
    if body.startswith(b"%PDF-"):
        return "application/pdf"
    return "text/html" if body.lstrip()[:1] == b"<" else "text/plain"


def decoded(body: bytes, charset: str | None) -> str:
    """A text in the encoding that its server, its first bytes or its own `meta` tell, else in UTF-8 or
    in what it looks like. Latin-1 means Windows-1252, as in every browser."""
    for bom, name in (
        (codecs.BOM_UTF8, "utf-8"),
        (codecs.BOM_UTF16_LE, "utf-16"),
        (codecs.BOM_UTF16_BE, "utf-16"),
    ):
        if body.startswith(bom):
            return body.decode(name, "replace").removeprefix("\ufeff")
    meta = _META.search(body, 0, 4096)
    for said in (charset, meta[1].decode() if meta else None):
        codec = _codec(said)
        if codec is not None:
            return body.decode(codec, "replace")
    try:
        return body.decode()
    except UnicodeDecodeError:
        best = charset_normalizer.from_bytes(body[:_SCANNED]).best()
        return body.decode(best.encoding if best else "cp1252", "replace")


def _codec(said: str | None) -> str | None:
    if said is None:
        return None
    try:
        name = codecs.lookup(said).name
    except (LookupError, ValueError):
        return None
    return "cp1252" if name in ("iso8859-1", "ascii") else name


def _html(task: Task) -> Extracted:
    text = decoded(task.body, task.charset)
    tree: Any = trafilatura.load_html(text)
    title = "" if tree is None else tree.findtext(".//title") or ""
    body = None
    if tree is not None:
        body = trafilatura.extract(
            tree,
            url=task.url,
            output_format="markdown",
            include_links=True,
            include_tables=True,
            include_comments=False,
            favor_recall=True,
        )
    body = body or _stripped(text)
    if len(body) < _SHORT and _PASSWORD.search(text):
        return Extracted(
            title=title, fault="The page asks for a login, and shows nothing without it."
        )
    return Extracted(title=title, text=body)


def _stripped(text: str) -> str:
    """All text of a page without an article in it."""
    return trafilatura.html2txt(text)


def _pdf(body: bytes) -> Extracted:
    try:
        document = pypdfium2.PdfDocument(body)
    except pypdfium2.PdfiumError as e:
        locked = "password" in str(e).lower()
        what = "is protected by a password" if locked else "is broken"
        return Extracted(fault=f"The page is a PDF that {what}.")
    texts: list[str] = []
    size = 0
    for number in range(min(len(document), MAX_PDF_PAGES)):
        page: Any = document[number]
        text: str = page.get_textpage().get_text_bounded()
        text = text.replace("\r\n", "\n").strip()
        if text:
            texts.append(f"[page {number + 1}]\n{text}")
            size += len(text)
        if size > MAX_TEXT:
            break
    if not texts:
        return Extracted(fault="The page is a PDF without text: its pages are pictures.")
    if len(document) > MAX_PDF_PAGES:
        texts.append(f"[{len(document)} pages: the rest was not read]")
    title = document.get_metadata_dict().get("Title", "")
    return Extracted(title=title, text="\n\n".join(texts))
