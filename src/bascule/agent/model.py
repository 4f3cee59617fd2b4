"""The model, behind any endpoint of the Responses API."""

import contextlib
import random
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

import msgspec
from msgspec import Raw

from bascule.config import Secret
from bascule.protocols import json
from bascule.protocols.sse import SseReader, SseTooLong
from bascule.upstreams.client import Timeouts, UpstreamClient, UpstreamFailure, UpstreamRequest
from bascule.upstreams.fetch import StreamedAnswer, stream

_MAX_ERROR_BYTES: Final = 64 * 1024
_RETRIED: Final = frozenset({408, 409, 429, 500, 502, 503, 504, 529})
_LONGEST_PAUSE: Final = 60.0


class ModelFault(Exception):
    """The endpoint did not answer, or said that it cannot. `again` says whether asking again may help,
    after `pause` seconds if it said so."""

    loggable = True

    def __init__(self, message: str, *, again: bool = False, pause: float | None = None) -> None:
        super().__init__(message)
        self.again = again
        self.pause = pause


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """`base_url` contains `/v1`. Times are in seconds."""

    base_url: str
    api_key: Secret | None = None
    headers: Mapping[str, str] = {}
    timeout: float = 600.0
    """To the first byte, and between two reads."""
    retries: int = 4


class ModelEvent(msgspec.Struct):
    """One event of a stream, as far as an agent reads it."""

    type: str = ""
    delta: Any = None
    item_id: str = ""
    item: Raw = Raw()
    response: Raw = Raw()
    error: Any = None
    message: str | None = None
    code: Any = None


_event = json.decoder(ModelEvent)


class ModelClient:
    """Sends requests, and reads the events of their answers."""

    def __init__(self, client: UpstreamClient, endpoint: Endpoint) -> None:
        self._client = client
        self._endpoint = endpoint
        self.url: Final = endpoint.base_url.rstrip("/") + "/responses"
        key = endpoint.api_key
        self._headers = [
            (b"content-type", b"application/json"),
            (b"accept", b"text/event-stream"),
            *((name.lower().encode(), value.encode()) for name, value in endpoint.headers.items()),
            *([(b"authorization", f"Bearer {key.reveal()}".encode())] if key is not None else []),
        ]

    @property
    def retries(self) -> int:
        return self._endpoint.retries

    async def events(self, body: bytes) -> AsyncIterator[ModelEvent]:
        """The events of one answer, up to its terminal one. Raises ModelFault: also for an answer that
        ends without."""
        seconds = self._endpoint.timeout
        request = UpstreamRequest(
            url=self.url,
            headers=self._headers,
            body=body,
            timeouts=Timeouts(first_byte=seconds, idle=seconds),
        )
        try:
            async with stream(self._client, request) as answer:
                if answer.status != 200:
                    raise await _refused(answer)
                reader = SseReader()
                async for data in answer:
                    for _, payload in reader.feed(data):
                        if payload == b"[DONE]":
                            continue
                        yield (event := _read(payload))
                        if event.type in TERMINAL:
                            return
        except UpstreamFailure as e:
            raise ModelFault(f"{self.url}: {e}", again=e.kind != "malformed") from e
        except SseTooLong as e:
            raise ModelFault(f"{self.url}: {e}") from e
        raise ModelFault("The answer ended before it was complete.", again=True)


TERMINAL: Final = frozenset(
    {"response.completed", "response.incomplete", "response.failed", "response.cancelled", "error"}
)


def pause_before(attempt: int, fault: ModelFault) -> float:
    """Seconds until the next try; the first attempt is 0."""
    if fault.pause is not None:
        return min(fault.pause, _LONGEST_PAUSE)
    return min(0.2 * 2**attempt, _LONGEST_PAUSE) * random.uniform(0.75, 1.25)  # noqa: S311


def _read(payload: bytes) -> ModelEvent:
    try:
        return _event(payload)
    except msgspec.DecodeError as e:
        raise ModelFault(f"The endpoint sent what is no event: {e}.") from None


async def _refused(answer: StreamedAnswer) -> ModelFault:
    body = bytearray()
    async for data in answer:
        body += data
        if len(body) > _MAX_ERROR_BYTES:
            break
    headers = dict(answer.headers)
    pause: float | None = None
    with contextlib.suppress(ValueError):
        pause = float(headers.get(b"retry-after", b""))
    message = _message(bytes(body)) or body.decode("utf-8", "replace")[:500] or "no reason given"
    return ModelFault(
        f"HTTP {answer.status}: {message}", again=answer.status in _RETRIED, pause=pause
    )


class _Error(msgspec.Struct):
    message: str | None = None
    code: Any = None


class _Body(msgspec.Struct):
    error: _Error | str | None = None


def _message(body: bytes) -> str | None:
    try:
        error = msgspec.json.decode(body, type=_Body).error
    except msgspec.DecodeError:
        return None
    return error.message if isinstance(error, _Error) else error
