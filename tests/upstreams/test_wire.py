import pytest

from bascule.upstreams.client import UpstreamRequest
from bascule.upstreams.wire import Origin, encode_head, parse_target


@pytest.mark.parametrize(
    ("url", "origin", "host_header", "path"),
    [
        ("http://a.b/c", Origin(False, "a.b", 80), b"a.b", b"/c"),
        ("https://a.b:443/", Origin(True, "a.b", 443), b"a.b", b"/"),
        ("https://A.b:8443?x", Origin(True, "a.b", 8443), b"a.b:8443", b"/?x"),
        ("http://[::1]:80/x", Origin(False, "::1", 80), b"[::1]", b"/x"),
        ("http://[FE80::1]:8080", Origin(False, "fe80::1", 8080), b"[fe80::1]:8080", b"/"),
        ("http://a_b/%zz#f", Origin(False, "a_b", 80), b"a_b", b"/%zz"),
    ],
)
def test_targets(url: str, origin: Origin, host_header: bytes, path: bytes) -> None:
    assert parse_target(url) == (origin, host_header, path)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "/x",
        "http:/x",
        "http://",
        "http://:80/",
        "http://a:/",
        "http://a:x/",
        "http://a:70000/",
        "http://secret@a/",
        "http://[::1/",
        "http://[xyz]/",
        'http://a"b/',
        "http://a/\x7f",
        "http://a/\tb",
        "http://ü/",
        "ws://a/",
    ],
)
def test_refused_urls(url: str) -> None:
    with pytest.raises(ValueError, match="URL") as caught:
        parse_target(url)
    assert "secret" not in str(caught.value)


def test_content_length() -> None:
    def head(method: str, body: bytes) -> bytes:
        request = UpstreamRequest(url="http://a/", method=method, body=body)
        return encode_head(request, parse_target(request.url))

    assert head("GET", b"") == b"GET / HTTP/1.1\r\nhost: a\r\n\r\n"
    assert head("POST", b"") == b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n\r\n"
    assert head("DELETE", b"xy") == b"DELETE / HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\n"


def test_refusals_do_not_repeat_values() -> None:
    request = UpstreamRequest(url="http://a/", headers=[(b"x-key", b"secret\n")])
    with pytest.raises(ValueError, match="x-key") as caught:
        encode_head(request, parse_target(request.url))
    assert "secret" not in str(caught.value)
