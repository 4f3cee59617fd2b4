"""Brave Search."""

from collections.abc import Sequence
from typing import Final

import httpx2
import msgspec

from bascule.protocols import json
from bascule.services.search.http import HttpEngine, plain
from bascule.services.search.port import SearchOptions, SearchResult

_COUNTRIES: Final = frozenset(
    [
        "AR",
        "AU",
        "AT",
        "BE",
        "BR",
        "CA",
        "CL",
        "DK",
        "FI",
        "FR",
        "DE",
        "GR",
        "HK",
        "IN",
        "ID",
        "IT",
        "JP",
        "KR",
        "MY",
        "MX",
        "NL",
        "NZ",
        "NO",
        "CN",
        "PL",
        "PT",
        "PH",
        "RU",
        "SA",
        "ZA",
        "ES",
        "SE",
        "CH",
        "TW",
        "TR",
        "GB",
        "US",
    ]
)
"""Where it can search from; it refuses any other."""
_MAX_COUNT: Final = 20
_MAX_QUERY: Final = 400
"""Characters."""


class _Hit(msgspec.Struct):
    url: str
    title: str = ""
    description: str | None = None
    extra_snippets: list[str] = []
    page_age: str | None = None
    age: str | None = None


class _Web(msgspec.Struct):
    results: list[_Hit] = []


class _Error(msgspec.Struct):
    code: str = ""
    detail: str = ""


class _Answer(msgspec.Struct):
    type: str
    web: _Web | None = None
    error: _Error | None = None


_answer = json.decoder(_Answer)


class Brave(HttpEngine):
    """`GET /res/v1/web/search`: https://api-dashboard.search.brave.com/documentation"""

    name = "Brave Search"

    def __init__(self, base_url: str | None, api_key: str, timeout: float) -> None:
        super().__init__(timeout, {"x-subscription-token": api_key})
        base = (base_url or "https://api.search.brave.com").rstrip("/")
        self._url = f"{base}/res/v1/web/search"

    def request(self, query: str, options: SearchOptions) -> httpx2.Request:
        said = options.domains.within(query)
        params: dict[str, str | int] = {
            "q": said if len(said) <= _MAX_QUERY else query[:_MAX_QUERY],
            "count": min(options.count, _MAX_COUNT),
            "result_filter": "web",
            "text_decorations": "false",
        }
        if options.country in _COUNTRIES:
            params["country"] = options.country
        return self.build("GET", self._url, params=params)

    def results(self, body: bytes) -> Sequence[SearchResult]:
        answer = _answer(body)
        if answer.error is not None:
            raise self.complaint(answer.error.detail or answer.error.code)
        hits = answer.web.results if answer.web else []
        return [
            SearchResult(
                hit.url,
                plain(hit.title),
                "\n".join(plain(text) for text in (hit.description, *hit.extra_snippets) if text),
                hit.page_age or hit.age,
            )
            for hit in hits
        ]

    def delay(self, headers: httpx2.Headers) -> float | None:
        """It counts in several windows of time: those that are used up, the longest of them."""
        said = super().delay(headers)
        if said is not None:
            return said
        left = _numbers(headers.get("x-ratelimit-remaining"))
        reset = _numbers(headers.get("x-ratelimit-reset"))
        waits = [wait for wait, rest in zip(reset, left, strict=False) if rest == 0]
        return max(waits, default=None)


def _numbers(value: str | None) -> list[float]:
    parts = [part.strip() for part in (value or "").split(",")]
    return [float(part) for part in parts if part.isdecimal()]
