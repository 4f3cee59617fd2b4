"""A request's body: read whole, decompressed, within the limit."""

import zlib
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final

import zstandard

from bascule.protocols.errors import ApiError, invalid

Receive = Callable[[], Awaitable[Any]]

_ZSTD_WINDOW: Final = 8 * 1024 * 1024  # RFC 9659: the most that a Content-Encoding may ask for
_ZSTD_SLICE: Final = 256


class ClientGone(Exception):
    """The client left before its request was whole."""


_MAX_ENCODINGS = 3


async def read_body(receive: Receive, headers: Iterable[tuple[bytes, bytes]], limit: int) -> bytes:
    """Raises ApiError 413 over the limit (which holds after decompression), 400 and 415 for a body
    that cannot be decompressed, ClientGone."""
    parts: list[bytes] = []
    size = 0
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        part: bytes = message.get("body", b"")
        parts.append(part)
        size += len(part)
        if size > limit:
            raise _too_large(limit)
        more = message.get("more_body", False)
    body = parts[0] if len(parts) == 1 else b"".join(parts)
    lines = [value for name, value in headers if name == b"content-encoding"]
    encodings = b",".join(lines).lower().split(b",") if lines else []
    if len(encodings) > _MAX_ENCODINGS:
        raise ApiError(415, f"More than {_MAX_ENCODINGS} content encodings are not supported.")
    for encoding in reversed(encodings):
        body = _decompressed(body, encoding.strip(), limit)
    return body


def _decompressed(body: bytes, encoding: bytes, limit: int) -> bytes:
    try:
        if encoding in (b"identity", b""):
            return body
        if encoding in (b"gzip", b"x-gzip", b"deflate"):
            inflate = zlib.decompressobj(zlib.MAX_WBITS | 32)
            data = inflate.decompress(body, limit + 1)
            whole = inflate.eof
        elif encoding == b"zstd":
            unpack = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW).decompressobj(
                read_across_frames=False
            )
            data, whole = _unpack(unpack, body, limit), unpack.eof
        else:
            raise ApiError(
                415, f"Content-Encoding '{encoding.decode('latin-1')}' is not supported."
            )
    except (zlib.error, zstandard.ZstdError):
        raise invalid("The request body is not what its Content-Encoding says.") from None
    if len(data) > limit:
        raise _too_large(limit)
    if not whole:
        raise invalid("The compressed request body is cut off.")
    return data


def _unpack(unpack: Any, body: bytes, limit: int) -> bytes:
    # In slices, so that a bomb is noticed before it has burst: a block of 4 bytes can hold 128 kB.
    parts: list[bytes] = []
    size = 0
    for at in range(0, len(body), _ZSTD_SLICE):
        part: bytes = unpack.decompress(body[at : at + _ZSTD_SLICE])
        parts.append(part)
        size += len(part)
        if size > limit or unpack.eof:
            break
    return b"".join(parts)


def _too_large(limit: int) -> ApiError:
    return ApiError(
        413, f"The request body is larger than {limit} bytes.", code="request_too_large"
    )
