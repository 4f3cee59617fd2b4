"""HTTP to addresses that requests name: guarded, and never larger than agreed."""

import ssl
from collections.abc import AsyncIterator, Mapping
from functools import cache

import httpx2

from bascule.services.egress import EgressError, Guard


class GuardedTransport(httpx2.AsyncBaseTransport):
    """Connects to the addresses that the guard has judged, under the host's own name: the `Host`
    header and the TLS certificate are the name's. Each request is judged anew.

    For one host, if it keeps connections (`kept`): two names may share an address, and a connection
    is one name's.
    """

    def __init__(self, guard: Guard, kept: int = 20) -> None:
        self._guard = guard
        self._inner = httpx2.AsyncHTTPTransport(
            verify=trusted(),
            trust_env=False,
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=kept),
        )

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Raises EgressError."""
        url = request.url
        addresses = await self._guard.addresses(url)
        for last, address in enumerate(addresses, 1 - len(addresses)):
            pinned = httpx2.Request(
                request.method,
                url.copy_with(host=address),
                headers=request.headers,
                stream=request.stream,
                extensions={**request.extensions, "sni_hostname": url.raw_host.decode("ascii")},
            )
            try:
                return await self._inner.handle_async_request(pinned)
            except httpx2.ConnectError:
                if last == 0:
                    raise
        raise AssertionError("a guard gives addresses")

    async def aclose(self) -> None:
        await self._inner.aclose()


class TooLarge(EgressError, httpx2.StreamError):
    """To whoever reads, one of the faults that a stream may have: it ends that answer alone."""

    def __init__(self, max_bytes: int) -> None:
        super().__init__("too_large", f"The server's answer has more than {max_bytes} bytes.")


class CappedTransport(httpx2.AsyncBaseTransport):
    """Ends an answer that is larger than `max_bytes` as it comes over the wire, event streams apart:
    they have no end."""

    def __init__(self, inner: httpx2.AsyncBaseTransport, max_bytes: int) -> None:
        self._inner = inner
        self._max_bytes = max_bytes

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Reading the answer raises TooLarge."""
        # Compressed answers could grow without end.
        request.headers["accept-encoding"] = "identity"
        response = await self._inner.handle_async_request(request)
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            await response.aclose()
            raise EgressError("bad_answer", "The server sent a compressed answer, unasked.")
        if response.headers.get("content-type", "").lower().startswith("text/event-stream"):
            return response
        stream = response.stream
        assert isinstance(stream, httpx2.AsyncByteStream)  # noqa: S101 -- of an async transport
        response.stream = _Capped(stream, self._max_bytes)
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()


class _Capped(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream, max_bytes: int) -> None:
        self._stream = stream
        self._max_bytes = max_bytes

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for chunk in self._stream:
            size += len(chunk)
            if size > self._max_bytes:
                raise TooLarge(self._max_bytes)
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()


@cache
def trusted() -> ssl.SSLContext:
    """The system's certificates, read once: that takes a tenth of a second."""
    return ssl.create_default_context()


def http_client(
    *,
    guard: Guard | None,
    max_bytes: int,
    timeout: httpx2.Timeout,
    headers: Mapping[str, str] | None = None,
    auth: httpx2.Auth | None = None,
) -> httpx2.AsyncClient:
    """A client for one server: under a guard where the URL comes from a request, without one where
    the operator has written it. No redirects, no proxies, no cookies, no answer without a limit."""
    inner = (
        httpx2.AsyncHTTPTransport(verify=trusted(), trust_env=False)
        if guard is None
        else GuardedTransport(guard)
    )
    return httpx2.AsyncClient(
        transport=CappedTransport(inner, max_bytes),
        headers=headers,
        auth=auth,
        timeout=timeout,
        follow_redirects=False,
        trust_env=False,
    )
