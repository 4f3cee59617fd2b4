"""Which pages a declaration's domains permit."""

import pytest

from bascule.services.search.domains import Domains

pytestmark = pytest.mark.requirement("web_search:options:domains")


@pytest.mark.parametrize(
    ("allowed", "url", "permitted"),
    [
        ("example.org", "https://example.org/", True),
        ("example.org", "https://EXAMPLE.org./a", True),
        ("example.org", "http://docs.example.org:8080/a?b#c", True),
        ("example.org", "https://notexample.org/", False),
        ("example.org", "https://example.org.evil.com/", False),
        ("example.org", "https://evil.com/example.org", False),
        ("example.org", "https://example.org@evil.com/", False),
        ("https://example.org/", "https://example.org/a", True),
        ("*.example.org", "https://a.example.org/", True),
        ("www.example.org", "https://example.org/", False),
        ("example.org/docs", "https://example.org/docs", True),
        ("example.org/docs/", "https://example.org/docs/a", True),
        ("example.org/docs", "https://example.org/docstring", False),
        ("example.org/docs", "https://example.org/", False),
        ("example.org/docs", "https://example.org/docs/%2e%2e/secret", False),
        ("example.org/docs", "https://example.org/docs/../secret", False),
        ("münchen.de", "https://xn--mnchen-3ya.de/", True),
        ("example.org", "https://[::1", False),
        ("example.org", "", False),
    ],
)
def test_allowed_and_blocked(allowed: str, url: str, permitted: bool) -> None:
    assert Domains.of([allowed]).permit(url) is permitted
    if "[" not in url and "secret" not in url:
        assert Domains.of((), [allowed]).permit(url) is not permitted


@pytest.mark.parametrize(
    "wrong", ["", "  ", "a b", "https://", "example.org?x=1", "a@b.org", "a/../"]
)
def test_no_domain(wrong: str) -> None:
    if wrong == "a/../":
        assert Domains.of([wrong]).allowed == ("a/..",)
        return
    with pytest.raises(ValueError, match="is no domain"):
        Domains.of([wrong])


def test_operators() -> None:
    assert Domains().within("q") == "q"
    assert Domains.of(["a.org"]).within("q") == "q site:a.org"
    assert Domains.of([], ["b.org", "c.org"]).within("q") == "q -site:b.org -site:c.org"
    assert Domains.of([f"{n}.org" for n in range(11)]).within("q") == "q"
    assert Domains.of(["a.org", "A.org "]).allowed == ("a.org",)
