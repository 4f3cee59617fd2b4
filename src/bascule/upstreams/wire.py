"""A request as bytes: where it goes and its HTTP/1.1 head, with everything refused that could forge one."""

import functools
import re
from typing import NamedTuple
from urllib.parse import urlsplit

from bascule.upstreams.client import Headers, UpstreamRequest

_URL = re.compile(r"(?i:https?)://([^/?#]+)([^#]*)(?:#.*)?")
_PRINTABLE = re.compile(r"[\x21-\x7e]+")
_HOST = re.compile(r"[0-9A-Za-z._~%!$&'()*+,;=:-]+")
_TOKEN = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_VALUE = re.compile(rb"[\t\x20-\x7e\x80-\xff]*")
_OURS = frozenset({b"host", b"content-length", b"transfer-encoding"})
_METHODS_WITH_BODY = frozenset({"POST", "PUT", "PATCH"})


class Origin(NamedTuple):
    """What connections are pooled by. `host` has no brackets."""

    secure: bool
    host: str
    port: int


class Target(NamedTuple):
    """Where a URL points: `host_header` and `path` (with the query) as they go on the wire."""

    origin: Origin
    host_header: bytes
    path: bytes


@functools.lru_cache(maxsize=512)
def parse_target(url: str) -> Target:
    """Split an absolute http or https URL; the path and query stay as they are.

    ValueError: another scheme, no host, userinfo, a bad port, or a character that is not printable
    ASCII (encode it first). The message never repeats the URL: it may hold a secret.
    """
    match = _URL.fullmatch(url)
    if match is None or _PRINTABLE.fullmatch(url) is None:
        raise ValueError("the URL must be absolute, http or https, and printable ASCII")
    authority, path = match.groups()
    if "@" in authority:
        raise ValueError("credentials in a URL are refused; send a header")
    try:
        split = urlsplit(url)
        host, port = split.hostname, split.port
    except ValueError:
        raise ValueError("the URL has no valid host and port") from None
    if not host or _HOST.fullmatch(host) is None or authority.endswith(":"):
        raise ValueError("the URL has no valid host")
    secure = split.scheme == "https"
    default = 443 if secure else 80
    if port is None:
        port = default
    shown = f"[{host}]" if ":" in host else host
    if port != default:
        shown = f"{shown}:{port}"
    if not path.startswith("/"):
        path = "/" + path
    return Target(Origin(secure, host, port), shown.encode(), path.encode())


def check_headers(method: str, headers: Headers) -> None:
    """ValueError for a method, name or value that is no such thing, or for a header that adapters add."""
    if _TOKEN.fullmatch(method.encode()) is None:
        raise ValueError("the method is not a token")
    for name, value in headers:
        if _TOKEN.fullmatch(name) is None:
            raise ValueError("a header name is not a token")
        if _VALUE.fullmatch(value) is None:
            raise ValueError(f"control characters in the header {name.decode()}")
        if name.lower() in _OURS:
            raise ValueError(f"the header {name.decode()} is the client's own")


def encode_head(request: UpstreamRequest, target: Target) -> bytes:
    """The request line and headers, up to the body. Raises as `check_headers` does."""
    start = _start(request.method, target, tuple(request.headers))
    if request.body or request.method in _METHODS_WITH_BODY:
        return b"%scontent-length: %d\r\n\r\n" % (start, len(request.body))
    return start + b"\r\n"


@functools.lru_cache(maxsize=64)
def _start(method: str, target: Target, headers: tuple[tuple[bytes, bytes], ...]) -> bytes:
    """All but the length and the blank line: the same for most requests to an upstream."""
    check_headers(method, headers)
    lines = [b"%s %s HTTP/1.1\r\nhost: %s\r\n" % (method.encode(), target.path, target.host_header)]
    lines += [b"%s: %s\r\n" % header for header in headers]
    return b"".join(lines)
