"""Pages of the web: what a URL leads to that a model or a page has named, under the guard.

Nothing is kept between two requests, neither connections nor cookies: pages are on many hosts, and asked
for by many clients.
"""

import asyncio
import zlib
from collections.abc import Collection, Mapping
from email.message import Message
from http import HTTPStatus
from typing import Final

import httpx2
import msgspec

from bascule.services.egress import EgressError, Guard
from bascule.services.guarded import GuardedTransport, TooLarge

_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_MAX_URL: Final = 8192
"""Characters."""
_STEP: Final = 256 * 1024
"""Bytes that are decompressed before others have their turn."""
_ENCODINGS: Final = frozenset({"", "identity", "gzip", "x-gzip", "deflate"})


class Page(msgspec.Struct, frozen=True):
    """What was found."""

    url: str
    """Where, after redirects."""
    content_type: str
    """In lower case, without parameters; empty if the server did not say."""
    charset: str | None
    """What the server says of the text's encoding."""
    body: bytes


class Fetcher:
    """Gets pages. `timeout` is seconds in all, redirects included; `max_bytes` counts what comes out of a
    compressed body."""

    def __init__(
        self,
        guard: Guard,
        *,
        max_bytes: int,
        timeout: float,
        max_redirects: int = 5,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self._transport = GuardedTransport(guard, kept=0)
        self._max_bytes = max_bytes
        self._timeout = timeout
        self._max_redirects = max_redirects
        self._headers = {**(headers or {}), "accept-encoding": "gzip, deflate"}

    async def get(self, url: str, types: Collection[str]) -> Page:
        """What a URL leads to. `types` are media types, such as `application/pdf` or `text/*`; of any other
        no body is read. Each redirect is judged like the URL itself.

        Raises EgressError, whose code is `invalid_url`, `egress_blocked`, `unreachable`, `timeout`,
        `too_many_redirects`, `unsupported_type`, `too_large`, `bad_answer`, or `http_` and a status.
        """
        try:
            async with asyncio.timeout(self._timeout):
                return await self._followed(_parsed(url), types)
        except (TimeoutError, httpx2.TimeoutException):
            told = f"The page did not come within {self._timeout:g} s."
            raise EgressError("timeout", told) from None
        except (httpx2.TransportError, OSError):
            raise EgressError("unreachable", "The page's server cannot be reached.") from None

    async def aclose(self) -> None:
        await self._transport.aclose()

    async def _followed(self, url: httpx2.URL, types: Collection[str]) -> Page:
        for _ in range(self._max_redirects + 1):
            request = httpx2.Request(
                "GET",
                url,
                headers=self._headers,
                extensions={"timeout": httpx2.Timeout(self._timeout).as_dict()},
            )
            response = await self._transport.handle_async_request(request)
            try:
                location = response.headers.get("location")
                if response.status_code in _REDIRECTS and location:
                    url = _parsed(location, url)
                    continue
                return await self._read(url, response, types)
            finally:
                await response.aclose()
        told = f"The page redirects more than {self._max_redirects} times."
        raise EgressError("too_many_redirects", told)

    async def _read(
        self, url: httpx2.URL, response: httpx2.Response, types: Collection[str]
    ) -> Page:
        if not response.is_success:
            raise _refused(response)
        kind, charset = _content_type(response.headers.get("content-type", ""))
        if kind and not _among(kind, types):
            raise EgressError(
                "unsupported_type", f"The page is of the type '{kind}', which cannot be read."
            )
        encoding = response.headers.get("content-encoding", "").lower().strip()
        if encoding not in _ENCODINGS:
            raise EgressError(
                "bad_answer", "The server sent the page compressed in an unknown way."
            )
        size = response.headers.get("content-length", "")
        if size.isdecimal() and int(size) > self._max_bytes:
            raise TooLarge(self._max_bytes)
        if encoding in ("", "identity"):
            body = await self._plain(response)
        else:
            body = await self._inflated(response)
        return Page(str(url.copy_with(fragment=None)), kind, charset, body)

    async def _plain(self, response: httpx2.Response) -> bytes:
        body = bytearray()
        async for chunk in response.aiter_raw():
            body += chunk
            self._check(len(body))
        return bytes(body)

    async def _inflated(self, response: httpx2.Response) -> bytes:
        """Of a gzip or zlib stream, in steps: a few bytes may become a great many."""
        body = bytearray()
        inflater = zlib.decompressobj(wbits=47)
        try:
            async for chunk in response.aiter_raw():
                while chunk and not inflater.eof:
                    body += inflater.decompress(chunk, _STEP)
                    chunk = inflater.unconsumed_tail
                    self._check(len(body))
                    await asyncio.sleep(0)
        except zlib.error:
            raise EgressError("bad_answer", "The page's compressed data is broken.") from None
        if not inflater.eof:
            raise EgressError("bad_answer", "The page's compressed data ends too early.")
        return bytes(body)

    def _check(self, size: int) -> None:
        if size > self._max_bytes:
            raise TooLarge(self._max_bytes)


def _parsed(url: str, base: httpx2.URL | None = None) -> httpx2.URL:
    try:
        if len(url) > _MAX_URL:
            raise EgressError("invalid_url", f"The address is longer than {_MAX_URL} characters.")
        return httpx2.URL(url) if base is None else base.join(url)
    except (httpx2.InvalidURL, ValueError):
        raise EgressError("invalid_url", "That is no valid web address.") from None


def _content_type(header: str) -> tuple[str, str | None]:
    message = Message()
    message["content-type"] = header
    if not header:
        return "", None
    return message.get_content_type(), message.get_content_charset()


def _among(kind: str, types: Collection[str]) -> bool:
    return kind in types or f"{kind.partition('/')[0]}/*" in types


def _refused(response: httpx2.Response) -> EgressError:
    status = response.status_code
    code = f"http_{status}"
    if status in (401, 403, 407):
        told = f"The page is not open to everybody: its server answered with status {status}."
    elif status in (404, 410):
        told = f"There is no page at this address: its server answered with status {status}."
    else:
        try:
            phrase = f" ({HTTPStatus(status).phrase})"
        except ValueError:
            phrase = ""
        told = f"The page's server answered with status {status}{phrase}."
    return EgressError(code, told)
