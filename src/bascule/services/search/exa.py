"""Exa, which gives the pages' text along."""

from collections.abc import Sequence
from typing import Any, Final

import httpx2
import msgspec

from bascule.protocols import json
from bascule.services.search.http import HttpEngine, plain
from bascule.services.search.port import SearchOptions, SearchResult

_MAX_COUNT: Final = 25


class _Hit(msgspec.Struct):
    url: str
    title: str | None = None
    text: str | None = None
    highlights: list[str] = []
    published: str | None = msgspec.field(name="publishedDate", default=None)


class _Answer(msgspec.Struct):
    results: list[_Hit] | None = None
    error: Any = None


_answer = json.decoder(_Answer)


class Exa(HttpEngine):
    """`POST /search`: https://exa.ai/docs/reference/search"""

    name = "Exa"

    def __init__(self, base_url: str | None, api_key: str, timeout: float) -> None:
        super().__init__(timeout, {"x-api-key": api_key})
        self._url = f"{(base_url or 'https://api.exa.ai').rstrip('/')}/search"

    def request(self, query: str, options: SearchOptions) -> httpx2.Request:
        body: dict[str, Any] = {
            "query": query,
            "type": "auto",
            "numResults": min(options.count, _MAX_COUNT),
            "contents": {"text": {"maxCharacters": options.passages}},
        }
        if options.domains.allowed:
            body["includeDomains"] = list(options.domains.allowed)
        if options.domains.blocked:
            body["excludeDomains"] = list(options.domains.blocked)
        if options.country is not None:
            body["userLocation"] = options.country
        return self.build("POST", self._url, json=body)

    def results(self, body: bytes) -> Sequence[SearchResult]:
        answer = _answer(body)
        if answer.results is None:
            raise self.complaint(answer.error or "no results")
        return [
            SearchResult(
                hit.url,
                plain(hit.title),
                plain(" … ".join(hit.highlights) or hit.text),
                hit.published,
            )
            for hit in answer.results
        ]
