"""Tavily."""

from collections.abc import Sequence
from typing import Any, Final

import httpx2
import msgspec

from bascule.protocols import json
from bascule.services.search.http import HttpEngine, plain
from bascule.services.search.port import SearchOptions, SearchResult

_MAX_COUNT: Final = 20
_DEEP: Final = 1500
"""Characters of passages, from which on it is asked to look more closely, which costs twice as much."""


class _Hit(msgspec.Struct):
    url: str
    title: str | None = None
    content: str | None = None
    published_date: str | None = None


class _Detail(msgspec.Struct):
    error: str = ""


class _Answer(msgspec.Struct):
    results: list[_Hit] | None = None
    detail: _Detail | str | None = None


_answer = json.decoder(_Answer)


class Tavily(HttpEngine):
    """`POST /search`: https://docs.tavily.com/documentation/api-reference/endpoint/search"""

    name = "Tavily"

    def __init__(self, base_url: str | None, api_key: str, timeout: float) -> None:
        super().__init__(timeout, {"authorization": f"Bearer {api_key}"})
        self._url = f"{(base_url or 'https://api.tavily.com').rstrip('/')}/search"

    def request(self, query: str, options: SearchOptions) -> httpx2.Request:
        body: dict[str, Any] = {
            "query": query,
            "max_results": min(options.count, _MAX_COUNT),
            "search_depth": "advanced" if options.passages >= _DEEP else "basic",
        }
        if options.domains.allowed:
            body["include_domains"] = list(options.domains.allowed)
        if options.domains.blocked:
            body["exclude_domains"] = list(options.domains.blocked)
        return self.build("POST", self._url, json=body)

    def results(self, body: bytes) -> Sequence[SearchResult]:
        answer = _answer(body)
        if answer.results is None:
            detail = answer.detail
            said = detail.error if isinstance(detail, _Detail) else detail
            raise self.complaint(said or "no results")
        return [
            SearchResult(hit.url, plain(hit.title), plain(hit.content), hit.published_date)
            for hit in answer.results
        ]
