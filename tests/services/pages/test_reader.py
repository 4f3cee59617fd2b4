"""Pages by their address: fetched and read, and kept for a while."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from bascule.services.egress import EgressError, EgressPolicy, Guard
from bascule.services.fetch import Fetcher
from bascule.services.pages.extractor import Extractor
from bascule.services.pages.reader import PageReader
from tests.services.pages.samples import article, pdf
from tests.services.test_fetch import Site, site

pytestmark = pytest.mark.anyio


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@asynccontextmanager
async def reading() -> AsyncGenerator[tuple[PageReader, Site, Clock]]:
    async with site() as web:
        guard = Guard(EgressPolicy.of(["127.0.0.1"], [], "x"))
        clock = Clock()
        reader = PageReader(Fetcher(guard, max_bytes=1_000_000, timeout=5.0), Extractor(), clock)
        yield reader, web, clock
        await reader.aclose()


async def test_a_page_is_kept_for_some_minutes() -> None:
    async with reading() as (reader, web, clock):
        web.page("/a", article().encode())
        web.redirect("/b", "/a")
        document = await reader.read(f" {web.url}/b#part ")
        assert (document.url, document.title) == (f"{web.url}/a", "Bridges of Cork")
        assert await reader.read(f"{web.url}/b") is document
        assert len(web.heads) == 2
        clock.now = 301.0
        await reader.read(f"{web.url}/b")
        assert len(web.heads) == 4


async def test_what_cannot_be_read_is_asked_for_again() -> None:
    async with reading() as (reader, web, _):
        web.page("/a.pdf", pdf([]), "application/pdf")
        for _ in range(2):
            with pytest.raises(EgressError, match="pictures") as told:
                await reader.read(f"{web.url}/a.pdf")
            assert told.value.code == "unreadable"
        assert len(web.heads) == 2


async def test_what_is_kept_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bascule.services.pages.reader._KEPT_CHARACTERS", 2500)
    async with reading() as (reader, web, _):
        for name in "abc":
            web.page(f"/{name}", name.encode() * 1000, "text/plain")
            await reader.read(f"{web.url}/{name}")
        await reader.read(f"{web.url}/c")
        await reader.read(f"{web.url}/b")
        assert len(web.heads) == 3
        await reader.read(f"{web.url}/a")
        assert len(web.heads) == 4
