"""DuckDuckGo as the library `ddgs` reads it: without a key, for trying things out. It reads pages that are
made for people, and is refused when it asks often."""

import asyncio
from collections.abc import Sequence
from typing import Any, Final

import primp
from ddgs.engines.duckduckgo import Duckduckgo

from bascule.services.search.http import plain, retry_after
from bascule.services.search.port import SearchEngine, SearchError, SearchOptions, SearchResult

_REGIONS: Final = dict(
    pair.split("=")
    for pair in [
        "AR=ar-es",
        "AT=at-de",
        "AU=au-en",
        "BE=be-fr",
        "BG=bg-bg",
        "BR=br-pt",
        "CA=ca-en",
        "CH=ch-de",
        "CL=cl-es",
        "CN=cn-zh",
        "CO=co-es",
        "CZ=cz-cs",
        "DE=de-de",
        "DK=dk-da",
        "EE=ee-et",
        "ES=es-es",
        "FI=fi-fi",
        "FR=fr-fr",
        "GB=uk-en",
        "GR=gr-el",
        "HK=hk-tzh",
        "HR=hr-hr",
        "HU=hu-hu",
        "ID=id-id",
        "IE=ie-en",
        "IL=il-he",
        "IN=in-en",
        "IT=it-it",
        "JP=jp-jp",
        "KR=kr-kr",
        "LT=lt-lt",
        "LV=lv-lv",
        "MX=mx-es",
        "MY=my-ms",
        "NL=nl-nl",
        "NO=no-no",
        "NZ=nz-en",
        "PE=pe-es",
        "PH=ph-en",
        "PL=pl-pl",
        "PT=pt-pt",
        "RO=ro-ro",
        "RU=ru-ru",
        "SE=se-sv",
        "SG=sg-en",
        "SI=sl-sl",
        "SK=sk-sk",
        "TH=th-th",
        "TR=tr-tr",
        "TW=tw-tzh",
        "UA=ua-uk",
        "US=us-en",
        "VN=vn-vi",
        "ZA=za-en",
    ]
)
"""DuckDuckGo's name for a country, with its most usual language."""
_ANYWHERE: Final = "wt-wt"
_MAX_BYTES: Final = 8 * 1024 * 1024
_CHALLENGE: Final = 202
"""The status of a page that asks whether a person is there."""
_WAIT: Final = 60.0
"""Seconds before it is asked again after that."""


class Ddgs(SearchEngine):
    """The library waits in a thread."""

    def __init__(self, base_url: str | None, timeout: float) -> None:
        self._url = base_url
        self._timeout = timeout

    async def search(self, query: str, options: SearchOptions) -> Sequence[SearchResult]:
        region = _REGIONS.get(options.country or "", _ANYWHERE)
        said = options.domains.within(query)
        return (await asyncio.to_thread(self._asked, said, region))[: options.count]

    def _asked(self, query: str, region: str) -> list[SearchResult]:
        reader = _Reader(timeout=max(1, round(self._timeout)))
        if self._url is not None:
            reader.search_url = self._url
        try:
            found = reader.search(query, region=region) or []
        except primp.TimeoutError:
            raise SearchError("timeout", "DuckDuckGo did not answer in time.") from None
        except primp.PrimpError:
            raise SearchError("unreachable", "DuckDuckGo cannot be reached.") from None
        return [
            SearchResult(hit.href, plain(hit.title), plain(hit.body)) for hit in found if hit.href
        ]


class _Reader(Duckduckgo):
    """Follows no redirect, reads no more than it should, and says what went wrong."""

    def request(self, *args: Any, **kwargs: Any) -> str:
        client: primp.Client = self.http_client.client
        response = client.request(*args, **kwargs, follow_redirects=False, stream=True)
        _check(response)
        page = bytearray()
        for chunk in response.iter_bytes():
            page += chunk
            if len(page) > _MAX_BYTES:
                raise SearchError("bad_answer", "DuckDuckGo's answer is too large.")
        if not page.strip():
            raise SearchError("bad_answer", "DuckDuckGo's answer is empty.")
        return page.decode("utf-8", "replace")

    def extract_results(self, html_text: str) -> list[Any]:
        found = super().extract_results(html_text)
        if not found and "no-results" not in html_text:
            raise SearchError("bad_answer", "DuckDuckGo did not answer with a page of results.")
        return found


def _check(response: primp.Response) -> None:
    status = response.status_code
    if status == 200:
        return
    if status == 429:
        wait = retry_after(response.headers.get("retry-after"))
        raise SearchError("rate_limited", "DuckDuckGo allows no more searches now.", wait)
    if status == _CHALLENGE:
        told = "DuckDuckGo wants to see a person before it allows more searches."
        raise SearchError("rate_limited", told, _WAIT)
    if 300 <= status < 400:
        told = "DuckDuckGo redirects elsewhere; that is not followed."
        raise SearchError("bad_answer", told)
    if status in (401, 403):
        raise SearchError("unauthorized", f"DuckDuckGo refuses the gateway (status {status}).")
    raise SearchError("engine_error", f"DuckDuckGo answered with status {status}.")
