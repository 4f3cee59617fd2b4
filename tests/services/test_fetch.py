"""Pages from the web, and what their servers do to whoever fetches them."""

import asyncio
import gzip
import zlib
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from bascule.services.egress import EgressError, EgressPolicy, Guard
from bascule.services.fetch import Fetcher
from tests.services.test_egress import Names, trap

pytestmark = pytest.mark.anyio

HTML = ("text/html", "text/*")


class Site:
    """Serves what `pages` has for a path: a raw answer, in pieces."""

    def __init__(self) -> None:
        self.url = ""
        self.pages: dict[str, Sequence[bytes]] = {}
        self.heads: list[bytes] = []

    def page(self, path: str, body: bytes, kind: str = "text/html", *headers: str) -> None:
        lines = [f"content-type: {kind}", f"content-length: {len(body)}", *headers]
        self.pages[path] = [
            ("HTTP/1.1 200 OK\r\n" + "\r\n".join(lines)).encode(),
            b"\r\n\r\n",
            body,
        ]

    def redirect(self, path: str, where: str, status: int = 302) -> None:
        self.pages[path] = [f"HTTP/1.1 {status} Go\r\nlocation: {where}\r\n".encode(), b"\r\n"]

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        self.heads.append(head)
        try:
            for piece in self.pages[head.split()[1].decode()]:
                writer.write(piece)
                await writer.drain()
        finally:
            writer.close()


@asynccontextmanager
async def site() -> AsyncGenerator[Site]:
    found = Site()
    server = await asyncio.start_server(found.answer, "127.0.0.1", 0)
    found.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server:
        yield found


@asynccontextmanager
async def fetcher(names: Names | None = None, timeout: float = 5.0) -> AsyncGenerator[Fetcher]:
    hosts = ["127.0.0.1"] if names is None else ["site.test"]
    guard = Guard(EgressPolicy.of(hosts, [], "x"), names)
    made = Fetcher(guard, max_bytes=100_000, timeout=timeout)
    yield made
    await made.aclose()


async def refused(getting: Fetcher, url: str) -> EgressError:
    with pytest.raises(EgressError) as told:
        await getting.get(url, HTML)
    return told.value


@pytest.mark.requirement("egress:redirects")
async def test_each_redirect_is_judged() -> None:
    async with site() as web, trap() as set_up, fetcher() as getting:
        web.page("/there", b"<p>Hi</p>", "Text/HTML; charset=Latin-1", "set-cookie: a=1")
        web.redirect("/here", "/there#part", 301)
        page = await getting.get(f"{web.url}/here", HTML)
        assert (page.url, page.body) == (f"{web.url}/there", b"<p>Hi</p>")
        assert (page.content_type, page.charset) == ("text/html", "latin-1")
        await getting.get(f"{web.url}/there", HTML)
        assert b"cookie" not in b"".join(web.heads).lower()
        web.redirect("/out", f"http://localhost:{set_up.port}/")
        assert (await refused(getting, f"{web.url}/out")).code == "egress_blocked"
        web.redirect("/odd", "file:///etc/passwd")
        assert (await refused(getting, f"{web.url}/odd")).code == "invalid_url"
        web.redirect("/round", "/round")
        assert (await refused(getting, f"{web.url}/round")).code == "too_many_redirects"
        assert set_up.met == []


@pytest.mark.requirement("egress:redirects")
async def test_a_name_that_turns_private_between_two_requests() -> None:
    names = Names(site_test=[["127.0.0.1"]], other_test=[["93.184.216.34"], ["127.0.0.1"]])
    async with site() as web, fetcher(names) as getting:
        port = web.url.rpartition(":")[2]
        web.redirect("/", f"http://other.test:{port}/secret")
        web.page("/secret", b"secret")
        await names.resolve("other.test", 80)
        assert (await refused(getting, f"http://site.test:{port}/")).code == "egress_blocked"
        assert len(web.heads) == 1


async def test_no_connection_is_kept() -> None:
    """Two names may share an address."""
    async with site() as web, fetcher() as getting:
        web.page("/", b"a")
        for _ in range(2):
            await getting.get(web.url, HTML)
        assert len(web.heads) == 2
        pool: Any = getting._transport._inner._pool  # pyright: ignore[reportPrivateUsage]
        assert pool.connections == []


@pytest.mark.requirement("egress:size")
async def test_caps_on_bytes() -> None:
    async with site() as web, fetcher() as getting:
        web.pages["/said"] = [
            b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 50000000\r\n\r\n"
        ]
        web.pages["/unsaid"] = [
            b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\n\r\n",
            *([b"x" * 65536] * 4),
        ]
        web.page("/bomb", gzip.compress(bytes(50_000_000)), "text/html", "content-encoding: gzip")
        for path in ("/said", "/unsaid", "/bomb"):
            fault = await refused(getting, web.url + path)
            assert (fault.code, "100000 bytes" in fault.message) == ("too_large", True)


async def test_compressed_pages() -> None:
    async with site() as web, fetcher() as getting:
        web.page("/gzip", gzip.compress(b"a" * 5000), "text/html", "content-encoding: gzip")
        web.page("/zlib", zlib.compress(b"a" * 5000), "text/html", "content-encoding: deflate")
        for path in ("/gzip", "/zlib"):
            assert (await getting.get(web.url + path, HTML)).body == b"a" * 5000
        web.page("/cut", gzip.compress(b"a" * 5000)[:-9], "text/html", "content-encoding: gzip")
        web.page("/broken", b"no gzip", "text/html", "content-encoding: gzip")
        web.page("/unknown", b"?", "text/html", "content-encoding: zz")
        for path in ("/cut", "/broken", "/unknown"):
            assert (await refused(getting, web.url + path)).code == "bad_answer"


async def test_other_types_are_not_read() -> None:
    async with site() as web, fetcher() as getting:
        web.page("/zip", b"PK", "application/zip")
        assert (await refused(getting, f"{web.url}/zip")).code == "unsupported_type"
        web.page("/plain", b"text", "text/plain")
        assert (await getting.get(f"{web.url}/plain", HTML)).body == b"text"


@pytest.mark.parametrize(
    ("status", "words"),
    [
        ("401 No", "not open to everybody"),
        ("403 No", "not open to everybody"),
        ("404 No", "no page at this address"),
        ("429 No", "429 (Too Many Requests)"),
        ("500 No", "500 (Internal Server Error)"),
        ("999 Bot", "999."),
    ],
)
async def test_refusals(status: str, words: str) -> None:
    async with site() as web, fetcher() as getting:
        web.pages["/"] = [f"HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n".encode()]
        fault = await refused(getting, web.url)
        assert fault.code == f"http_{status[:3]}"
        assert words in fault.message


async def test_time_and_reach() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async with (
        await asyncio.start_server(silent, "127.0.0.1", 0) as server,
        fetcher(timeout=0.2) as getting,
    ):
        port = server.sockets[0].getsockname()[1]
        assert (await refused(getting, f"http://127.0.0.1:{port}/")).code == "timeout"
        server.close()
        assert (await refused(getting, f"http://127.0.0.1:{port}/")).code == "unreachable"
        for url in ("nonsense", "http://", "http://[::1", f"http://127.0.0.1/{'x' * 9000}"):
            assert (await refused(getting, url)).code == "invalid_url"
