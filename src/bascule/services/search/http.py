"""What engines share that are asked over HTTP and answer in JSON."""

import time
from abc import abstractmethod
from collections.abc import Sequence
from email.utils import parsedate_to_datetime
from html import unescape
from typing import Any, Final

import httpx2
import msgspec

from bascule.services.egress import EgressError
from bascule.services.guarded import http_client
from bascule.services.search.port import SearchEngine, SearchError, SearchOptions, SearchResult

_MAX_BYTES: Final = 8 * 1024 * 1024
_MAX_WORDS: Final = 300
"""Characters of an engine's own complaint that are passed on."""


class HttpEngine(SearchEngine):
    """Asks one address of the operator's, which no redirect leads away from."""

    name: str
    """For people."""

    def __init__(self, timeout: float, headers: dict[str, str] | None = None) -> None:
        self._client = http_client(
            guard=None,
            max_bytes=_MAX_BYTES,
            timeout=httpx2.Timeout(timeout),
            headers={"accept": "application/json", "user-agent": "bascule", **(headers or {})},
        )

    @abstractmethod
    def request(self, query: str, options: SearchOptions) -> httpx2.Request:
        """How the engine is asked."""

    @abstractmethod
    def results(self, body: bytes) -> Sequence[SearchResult]:
        """What it answered. Raises SearchError, or msgspec's errors for what is no answer of its."""

    def delay(self, headers: httpx2.Headers) -> float | None:
        """Seconds to wait after a 429, as far as the engine says."""
        return retry_after(headers.get("retry-after"))

    async def search(self, query: str, options: SearchOptions) -> Sequence[SearchResult]:
        try:
            response = await self._client.send(self.request(query, options))
        except httpx2.TimeoutException:
            raise SearchError("timeout", f"{self.name} did not answer in time.") from None
        except EgressError as e:
            raise SearchError("bad_answer", f"{self.name} answered wrongly: {e.message}") from None
        except (httpx2.TransportError, OSError):
            raise SearchError("unreachable", f"{self.name} cannot be reached.") from None
        self._check(response)
        try:
            return self.results(response.content)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise SearchError(
                "bad_answer", f"{self.name} did not answer in JSON as agreed."
            ) from None

    async def aclose(self) -> None:
        await self._client.aclose()

    def build(self, method: str, url: str, **fields: Any) -> httpx2.Request:
        """A request with the client's headers."""
        return self._client.build_request(method, url, **fields)

    def _check(self, response: httpx2.Response) -> None:
        status = response.status_code
        if response.is_success:
            return
        if status == 429:
            wait = self.delay(response.headers)
            raise SearchError("rate_limited", f"{self.name} allows no more searches now.", wait)
        if response.is_redirect:
            raise SearchError(
                "bad_answer", f"{self.name} redirects elsewhere; that is not followed."
            )
        if status in (401, 403):
            raise SearchError("unauthorized", f"{self.name} refuses the gateway (status {status}).")
        raise SearchError("engine_error", f"{self.name} answered with status {status}.")

    def complaint(self, words: object) -> SearchError:
        """An engine that answers with status 200 and an error."""
        said = " ".join(str(words).split())[:_MAX_WORDS]
        return SearchError("engine_error", f"{self.name} failed: {said}")


def retry_after(value: str | None, now: float | None = None) -> float | None:
    """Seconds, from a number of them or a date; None for neither."""
    if value is None:
        return None
    text = value.strip()
    if text.isdecimal():
        return float(text)
    try:
        then = parsedate_to_datetime(text).timestamp()
    except ValueError:
        return None
    return max(0.0, then - (time.time() if now is None else now))


def plain(text: str | None) -> str:
    """An engine's text without the tags that mark the query's words in it."""
    if not text:
        return ""
    for tag in ("strong", "b", "em", "mark"):
        text = text.replace(f"<{tag}>", "").replace(f"</{tag}>", "")
    return " ".join(unescape(text).split())
