"""Pages as servers send them."""

from collections.abc import Sequence


def article(paragraphs: int = 3, words: str = "", title: str = "Bridges of Cork") -> str:
    """An HTML page with what stands around an article."""
    text = "".join(
        f"<h2>Part {i}</h2><p>Paragraph {i} tells of <a href='/bridge/{i}'>a bridge</a> over the river "
        f"Lee and of those who built it in stone. {words}</p>"
        for i in range(paragraphs)
    )
    return (
        f"<!doctype html><html><head><title>{title}</title><script>alert('x')</script></head><body>"
        f"<nav><a href='/'>Home</a></nav><article><h1>{title}</h1>{text}</article>"
        "<footer>Cookies</footer></body></html>"
    )


def pdf(*lines: Sequence[str], title: str = "Bridges") -> bytes:
    """A PDF with a page for each of `lines`; a page without lines is a picture, as it were."""
    objects: list[bytes] = []

    def add(data: bytes) -> int:
        objects.append(data)
        return len(objects)

    font = add(b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>")
    pages: list[int] = []
    parent = 2 * len(lines) + 2
    for texts in lines:
        shown = " ".join(f"({text}) Tj 0 -20 Td" for text in texts)
        content = f"BT /F1 12 Tf 50 750 Td {shown} ET".encode()
        stream = add(b"<< /Length %d >>\nstream\n%s\nendstream" % (len(content), content))
        pages.append(
            add(
                b"<< /Type /Page /Parent %d 0 R /MediaBox [0 0 612 792] /Contents %d 0 R "
                b"/Resources << /Font << /F1 %d 0 R >> >> >>" % (parent, stream, font)
            )
        )
    kids = b" ".join(b"%d 0 R" % page for page in pages)
    add(b"<< /Type /Pages /Kids [%s] /Count %d >>" % (kids, len(pages)))
    root = add(b"<< /Type /Catalog /Pages %d 0 R >>" % parent)
    info = add(b"<< /Title (%s) >>" % title.encode())
    out = bytearray(b"%PDF-1.4\n")
    places: list[int] = []
    for number, data in enumerate(objects, 1):
        places.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, data)
    start = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    for place in places:
        out += b"%010d 00000 n \n" % place
    out += b"trailer << /Size %d /Root %d 0 R /Info %d 0 R >>\n" % (len(objects) + 1, root, info)
    out += b"startxref\n%d\n%%%%EOF\n" % start
    return bytes(out)
