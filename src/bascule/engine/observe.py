"""What the engine tells operators of weak servers: counts and names, never content."""

from typing import Final

import structlog

from bascule.protocols.responses.response import Usage
from bascule.telemetry.observe import TurnObserver

_log = structlog.stdlib.get_logger("bascule.turn")

_BYTES_PER_TOKEN: Final = 4
_MARGIN: Final = 2.5
"""A prompt of ordinary text has no fewer tokens than this part of the estimate."""
_SHORT: Final = 4000
"""Estimated tokens up to which nothing is said: templates and tools weigh too much there."""
_LONG: Final = 1000
"""Bytes of a JSON string without any space from which it is taken for base64."""
_MARKS: Final = (b"base64", b'"data"', b'"file_data"')
"""Without any of them there is nothing of the kind, and nothing to be looked through."""

PROMPT_CUT: Final = "the model server reported far fewer input tokens than the request holds"


def reasked(upstream: str, model: str, *, fault: str, times: int) -> None:
    """An answer that did not follow its choice was discarded; the model is asked again."""
    _log.warning("asked again", upstream=upstream, model=model, fault=fault, times=times)


def forced(upstream: str, model: str, *, fault: str, reasks: int) -> None:
    """After so many re-asks a call is forced through structured output."""
    _log.warning("call forced", upstream=upstream, model=model, fault=fault, reasks=reasks)


def prompt_cut(upstream: str, model: str) -> None:
    """A server seems to have cut a prompt without saying so."""
    _log.warning("prompt cut", upstream=upstream, model=model)


def note_citations(observed: TurnObserver, unknown: int) -> None:
    """So many times a turn's model cited what is no source of its."""
    if unknown:
        observed.unknown_citations(unknown)
        target = observed.target
        _log.warning(
            "unknown sources cited", upstream=target.upstream, model=target.model, times=unknown
        )


def looks_cut(body: bytes, usage: Usage | None) -> bool:
    """Whether a server can have read all of the request `body`, by the tokens that it reports.

    Cached tokens are part of the input for most servers, and extra for some: both are counted.
    """
    if usage is None or usage.input_tokens <= 0:
        return False
    read = usage.input_tokens + usage.cached_tokens + usage.cache_write_tokens
    if not _far_below(read, len(body)):
        return False
    return _far_below(read, len(body) - _bulk(body))


def estimated_tokens(body: bytes) -> int:
    """Of a request's body, without what is no text to the model: a rough guess."""
    return max(1, (len(body) - _bulk(body)) // _BYTES_PER_TOKEN)


def _bulk(body: bytes) -> int:
    """Bytes of images, files and sounds in base64, which are no text to the model."""
    if not any(mark in body for mark in _MARKS):
        return 0
    return sum(len(part) for part in body.split(b'"') if len(part) > _LONG and b" " not in part)


def _far_below(tokens: int, size: int) -> bool:
    estimate = size / _BYTES_PER_TOKEN
    return estimate > _SHORT and tokens * _MARGIN < estimate
