"""The process that reads pages: what it is given, what becomes of it, and who waits meanwhile."""

import asyncio
import os
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from bascule.services.pages.extractor import Extractor
from bascule.services.pages.messages import Task
from tests.services.pages.samples import article

pytestmark = pytest.mark.anyio


def task(body: str, kind: str = "text/html") -> Task:
    return Task("https://example.org/", kind, None, body.encode())


@asynccontextmanager
async def extractor(timeout: float = 15.0) -> AsyncGenerator[Extractor]:
    made = Extractor(timeout)
    yield made
    await made.aclose()


def pid(made: Extractor) -> int:
    process = made._process  # pyright: ignore[reportPrivateUsage]
    assert process is not None
    return process.pid


@pytest.mark.requirement("web_search:pages:process")
async def test_a_process_of_its_own_without_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BASCULE__SERVER__API_KEYS__0", "hunter2")
    async with extractor() as made:
        first, second = await asyncio.gather(
            made.extract(task(article(title="One"))), made.extract(task(article(title="Two")))
        )
        assert (first.title, second.title) == ("One", "Two")
        number = pid(made)
        assert number != os.getpid()
        assert b"hunter2" not in Path(f"/proc/{number}/environ").read_bytes()
        limits = Path(f"/proc/{number}/limits").read_text()
        assert "Max address space         2147483648" in limits
        await made.extract(task(article()))
        assert pid(made) == number
    assert not Path(f"/proc/{number}").exists()


@pytest.mark.requirement("web_search:pages:process")
async def test_a_page_that_its_reader_does_not_survive() -> None:
    async with extractor() as made:
        await made.extract(task(article()))
        os.kill(pid(made), 9)
        found = await made.extract(task(article()))
        assert found.fault in ("", "The page cannot be read: it breaks its reader.")
        assert (await made.extract(task(article()))).title == "Bridges of Cork"


async def test_a_page_that_takes_too_long() -> None:
    async with extractor(timeout=0.01) as made:
        found = await made.extract(task(article()))
        assert found.fault == "The page cannot be read within 0.01 s."
        made._timeout = 15.0  # pyright: ignore[reportPrivateUsage]
        assert (await made.extract(task(article()))).title == "Bridges of Cork"


async def test_who_gives_up_leaves_it_to_the_others() -> None:
    async with extractor() as made:
        await made.extract(task(article()))
        number = pid(made)
        long = asyncio.create_task(made.extract(task(article(2000))))
        await asyncio.sleep(0.01)
        long.cancel()
        assert (await made.extract(task(article(title="Next")))).title == "Next"
        assert pid(made) == number


@pytest.mark.requirement("web_search:pages:event-loop")
async def test_a_page_of_a_megabyte_does_not_hold_the_event_loop() -> None:
    page = task(article(2500, "stone and mortar, arch and pier, " * 8))
    assert len(page.body) > 1_000_000
    async with extractor() as made:
        await made.extract(task(article()))
        longest = 0.0
        running = asyncio.create_task(made.extract(page))
        while not running.done():
            before = time.thread_time()
            begun = time.perf_counter()
            await asyncio.sleep(0)
            # Of both clocks the lesser: a busy machine holds the thread without its doing.
            longest = max(longest, min(time.thread_time() - before, time.perf_counter() - begun))
        found = await running
    assert len(found.text) > 500_000
    assert longest < 0.02
