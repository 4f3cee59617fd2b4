"""What a model server of OpenAI's kind says when it fails, as an ApiError."""

import re
from typing import Any, Final

import msgspec

from bascule.protocols import json
from bascule.protocols.errors import ApiError

_OVERFLOW: Final = re.compile(
    r"maximum context length|exceeds? the (?:available )?context|context (?:window|length|size)"
    r"|prompt is too long|too many (?:input )?tokens|input is too long",
    re.IGNORECASE,
)
_CODE_BY_STATUS: Final = {429: "rate_limit_exceeded"}


def http_error(status: int, body: bytes, retry_after: str | None = None) -> ApiError:
    """An answer with an error status: its own words and fields, as far as they can be read."""
    detail = _read(body)
    if status < 400 or status > 599:
        return ApiError(502, f"The model server answered with status {status}.")
    error = _from_detail(detail, status, f"The model server answered with status {status}.")
    error.retry_after = retry_after
    return error


def in_stream_error(detail: Any, payload: bytes) -> ApiError:
    """An error inside a stream that began with status 200."""
    if detail is None:
        detail = _read(payload)
        if detail is None:
            detail = payload.decode(errors="replace")[:2000]
    status = 502
    code = (json.as_object(detail) or {}).get("code")
    if isinstance(code, int) and 400 <= code <= 599:
        status = code
    return _from_detail(detail, status, "The model server reported an error.")


def is_flat_error(payload: bytes) -> bool:
    """An error object without an envelope: `{"object": "error", "message": ...}`, as older vLLM and
    FastChat send it."""
    fields = json.as_object(_read(payload)) or {}
    return fields.get("object") == "error" and "message" in fields


def _from_detail(detail: Any, status: int, default: str) -> ApiError:
    fields = json.as_object(detail) or {}
    message = detail if isinstance(detail, str) else fields.get("message")
    if not isinstance(message, str) or not message:
        message = default
    code = fields.get("code")
    if not isinstance(code, str):
        code = None  # several servers repeat the HTTP status here
    if _OVERFLOW.search(message) and status in (400, 413, 422, 500, 502):
        return ApiError(400, message, code="context_length_exceeded", param="input")
    kind, param = fields.get("type"), fields.get("param")
    return ApiError(
        status,
        message,
        code=code or _CODE_BY_STATUS.get(status),
        param=param if isinstance(param, str) else None,
        type=kind if isinstance(kind, str) and kind.endswith("_error") else None,
    )


def _read(body: bytes) -> Any:
    """The `error` member, or the object itself, or its `detail`; None for what is no JSON."""
    try:
        value: Any = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return None
    fields = json.as_object(value)
    if fields is None:
        return value if isinstance(value, str) else None
    for name in ("error", "detail"):
        inner: Any = fields.get(name)
        if inner and (isinstance(inner, str) or json.as_object(inner) is not None):
            return inner
    return fields
