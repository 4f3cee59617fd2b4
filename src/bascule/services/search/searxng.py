"""SearXNG, a metasearch engine that people host themselves. JSON must be among its `search.formats`."""

from collections.abc import Sequence
from typing import Any

import httpx2
import msgspec

from bascule.protocols import json
from bascule.services.search.http import HttpEngine, plain
from bascule.services.search.port import SearchError, SearchOptions, SearchResult


class _Hit(msgspec.Struct):
    url: str | None = None
    title: str | None = None
    content: str | None = None
    published: str | None = msgspec.field(name="publishedDate", default=None)


class _Answer(msgspec.Struct):
    results: list[_Hit]
    unresponsive_engines: list[list[Any]] = []
    error: str | None = None


_answer = json.decoder(_Answer)


class Searxng(HttpEngine):
    """`GET /search?format=json`: https://docs.searxng.org/dev/search_api.html"""

    name = "SearXNG"

    def __init__(self, base_url: str, api_key: str | None, timeout: float) -> None:
        """A key goes along as `Authorization: Bearer`, for an instance behind a proxy that asks for one."""
        super().__init__(timeout, {} if api_key is None else {"authorization": f"Bearer {api_key}"})
        self._url = f"{base_url.rstrip('/').removesuffix('/search')}/search"

    def request(self, query: str, options: SearchOptions) -> httpx2.Request:
        params = {"q": options.domains.within(query), "format": "json", "categories": "general"}
        return self.build("GET", self._url, params=params)

    def results(self, body: bytes) -> Sequence[SearchResult]:
        answer = _answer(body)
        if answer.error:
            raise self.complaint(answer.error)
        if not answer.results and answer.unresponsive_engines:
            names = ", ".join(
                sorted({str(engine[0]) for engine in answer.unresponsive_engines if engine})
            )
            raise SearchError("engine_error", f"None of SearXNG's engines answered ({names}).")
        return [
            SearchResult(hit.url, plain(hit.title), plain(hit.content), hit.published)
            for hit in answer.results
            if hit.url
        ]
