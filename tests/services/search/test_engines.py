"""What every engine must do, whatever its server does."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from email.utils import formatdate

import pytest

from bascule.services.search.domains import Domains
from bascule.services.search.engines import ENGINES
from bascule.services.search.http import retry_after
from bascule.services.search.port import SearchEngine, SearchError, SearchOptions, SearchResult
from tests.services.search.fakes import FAKES, BraveFake, Fake, Hit, running
from tests.services.test_egress import trap

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("web_search:engines:port")]

KEY = "key-4f1c"
HITS = (
    Hit("https://example.org/a", "Bridges & rivers", "The oldest bridge", "2026-01-02T03:04:05"),
    Hit("https://example.net/b?c=1&d=2", "Müller – Brücke", "Über den Fluss"),
    Hit("https://example.com/c", "Third", "More"),
)


@asynccontextmanager
async def engine(fake: Fake, timeout: float = 5.0) -> AsyncGenerator[SearchEngine]:
    async with running(fake):
        made = ENGINES[fake.kind].make(fake.url, KEY, timeout)
        yield made
        await made.aclose()


@pytest.fixture(params=FAKES, ids=[kind.kind for kind in FAKES])
def fake(request: pytest.FixtureRequest) -> Fake:
    return request.param(*HITS)


async def search(
    made: SearchEngine, query: str = "old bridges", **options: object
) -> Sequence[SearchResult]:
    async with asyncio.timeout(20):
        return await made.search(query, SearchOptions(**options))  # pyright: ignore[reportArgumentType]


async def fault(fake: Fake, timeout: float = 5.0) -> SearchError:
    async with engine(fake, timeout) as made:
        with pytest.raises(SearchError) as told:
            await search(made)
    assert KEY not in told.value.message
    return told.value


def test_each_engine_has_a_fake() -> None:
    assert {kind.kind for kind in FAKES} == set(ENGINES)


async def test_results(fake: Fake) -> None:
    async with engine(fake) as made:
        found = await search(made, "old bridges & Brücken", count=3)
    assert [(r.url, r.title, r.snippet) for r in found] == [hit[:3] for hit in HITS]
    if fake.kind != "ddgs":  # which has no dates
        assert found[0].published == HITS[0].published
    [asked] = fake.asked
    assert asked.query == "old bridges & Brücken"
    if fake.kind != "ddgs":
        assert any(KEY in value for value in asked.headers.values())
    assert KEY not in str(asked.params) + str(asked.body) + asked.path


async def test_as_many_as_were_wanted(fake: Fake) -> None:
    async with engine(fake) as made:
        found = await search(made, count=2)
    # SearXNG cannot be told how many: whoever asks takes the first.
    assert len(found) == (3 if fake.kind == "searxng" else 2)


async def test_nothing(fake: Fake) -> None:
    fake.hits = ()
    async with engine(fake) as made:
        assert list(await search(made)) == []


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html><body>Please enable JavaScript</body></html>",
        b"[]",
        b'"no"',
        b'{"results": "no"}',
        b"\xff\xfe",
        b"[" * 100_000,
    ],
    ids=["empty", "html", "list", "text", "member", "bytes", "deep"],
)
async def test_an_answer_that_is_none(fake: Fake, body: bytes) -> None:
    fake.answers = [(200, {"content-type": "text/html"}, body)]
    assert (await fault(fake)).code in ("bad_answer", "engine_error")


async def test_status_200_with_an_error(fake: Fake) -> None:
    fake.answers = [(200, {}, fake.error)]
    told = await fault(fake)
    assert told.code == ("bad_answer" if fake.kind == "ddgs" else "engine_error")


async def test_a_redirect_is_not_followed(fake: Fake) -> None:
    async with trap() as set_up:
        where = f"http://127.0.0.1:{set_up.port}/"
        for status in (301, 302, 307):
            fake.answers = [(status, {"location": where}, b"")]
            told = await fault(fake)
            assert (told.code, "redirect" in told.message) == ("bad_answer", True)
        assert set_up.met == []


@pytest.mark.requirement("web_search:engines:delay")
async def test_too_many_searches(fake: Fake) -> None:
    fake.answers = [(429, {"retry-after": "7"}, b"{}")]
    told = await fault(fake)
    assert (told.code, told.retry_after) == ("rate_limited", 7.0)
    fake.answers = [(429, {}, b"slow down")]
    assert (await fault(fake)).retry_after is None


@pytest.mark.requirement("web_search:engines:delay")
async def test_windows_of_brave() -> None:
    fake = BraveFake()
    headers = {"x-ratelimit-remaining": "0, 14523", "x-ratelimit-reset": "2, 1419704"}
    fake.answers = [(429, headers, b"{}")]
    assert (await fault(fake)).retry_after == 2.0
    fake.answers = [(429, {**headers, "x-ratelimit-remaining": "0, 0"}, b"{}")]
    assert (await fault(fake)).retry_after == 1419704.0


def test_what_retry_after_may_say() -> None:
    assert retry_after(" 12 ") == 12.0
    assert retry_after(formatdate(1_000_060, usegmt=True), 1_000_000.0) == 60.0
    assert retry_after(formatdate(1_000_000, usegmt=True), 1_000_060.0) == 0.0
    assert retry_after("soon") is None
    assert retry_after(None) is None


@pytest.mark.parametrize(
    ("status", "code"),
    [(401, "unauthorized"), (403, "unauthorized"), (404, "engine_error"), (500, "engine_error")],
)
async def test_refusals(fake: Fake, status: int, code: str) -> None:
    fake.answers = [(status, {}, b"no")]
    assert (await fault(fake)).code == code


async def test_silence(fake: Fake) -> None:
    fake.silent = True
    assert (await fault(fake, 1.0)).code == "timeout"


async def test_nobody_there(fake: Fake) -> None:
    made = ENGINES[fake.kind].make("http://127.0.0.1:9", KEY, 2.0)
    with pytest.raises(SearchError) as told:
        await search(made)
    assert told.value.code == "unreachable"
    await made.aclose()


async def test_an_answer_that_is_too_large(fake: Fake) -> None:
    fake.answers = [(200, {}, b" " * (9 * 1024 * 1024))]
    assert (await fault(fake)).code == "bad_answer"


@pytest.mark.requirement("web_search:options:domains")
async def test_domains(fake: Fake) -> None:
    domains = Domains.of(["example.org", "example.net/b"], ["bad.example.org"])
    async with engine(fake) as made:
        await search(made, domains=domains)
    asked = fake.asked[0]
    native = {"tavily": "include_domains", "exa": "includeDomains"}.get(fake.kind)
    if native is None:
        said = "(site:example.org OR site:example.net/b) -site:bad.example.org"
        assert asked.query == f"old bridges {said}"
    else:
        assert asked.query == "old bridges"
        assert asked.body[native] == ["example.org", "example.net/b"]
        assert asked.body[native.replace("in", "ex", 1)] == ["bad.example.org"]


@pytest.mark.requirement("web_search:options:location")
async def test_a_country(fake: Fake) -> None:
    async with engine(fake) as made:
        await search(made, country="DE")
        await search(made, country="XX")
    first, second = fake.asked
    places = {"brave": ("DE", None), "exa": ("DE", "XX"), "ddgs": ("de-de", "wt-wt")}
    said = [
        a.params.get("country") or a.params.get("l") or a.body.get("userLocation")
        for a in fake.asked
    ]
    assert tuple(said) == places.get(fake.kind, (None, None))
    assert first.query == second.query


async def test_results_with_gaps() -> None:
    """Fields that engines leave out, or set to null."""
    fakes = {kind.kind: kind() for kind in FAKES}
    bodies = {
        "searxng": b'{"results": [{"url": null, "title": "x"}, {"url": "https://a.org", "title": null}]}',
        "brave": b'{"type": "search", "web": {"results": [{"url": "https://a.org", "description": null}]}}',
        "tavily": b'{"results": [{"url": "https://a.org", "title": null}]}',
        "exa": b'{"results": [{"url": "https://a.org", "title": null, "text": null}]}',
    }
    for kind, body in bodies.items():
        fakes[kind].answers = [(200, {}, body)]
        async with engine(fakes[kind]) as made:
            assert list(await search(made)) == [SearchResult("https://a.org", "", "")]
