"""Domains that results may come from, and domains that they may not."""

from collections.abc import Iterable
from typing import Final
from urllib.parse import unquote, urlsplit

import msgspec

MAX_OPERATORS: Final = 10
"""Domains that are said in a query: engines take only so many words."""


class Domains(msgspec.Struct, frozen=True):
    """Each is a host, which stands for its subdomains too, perhaps with the beginning of a path:
    `example.org`, `example.org/docs`. Made by `of`."""

    allowed: tuple[str, ...] = ()
    """Only these, if there are any."""
    blocked: tuple[str, ...] = ()

    @classmethod
    def of(cls, allowed: Iterable[str] = (), blocked: Iterable[str] = ()) -> "Domains":
        """From what clients write. Raises ValueError for what names no domain."""
        return cls(
            tuple(dict.fromkeys(map(_canonical, allowed))),
            tuple(dict.fromkeys(map(_canonical, blocked))),
        )

    def permit(self, url: str) -> bool:
        """Whether a page may be used."""
        try:
            parts = urlsplit(url)
            host = (parts.hostname or "").rstrip(".").lower()
        except ValueError:
            return False
        if self.allowed and not any(_covers(one, host, parts.path) for one in self.allowed):
            return False
        return not any(_covers(one, host, parts.path) for one in self.blocked)

    def within(self, query: str) -> str:
        """The query for an engine that knows domains as `site:` operators only. With too many of them
        it stays as it is: the results are filtered anyway."""
        if len(self.allowed) + len(self.blocked) > MAX_OPERATORS:
            return query
        said = " OR ".join(f"site:{domain}" for domain in self.allowed)
        said = f"({said})" if len(self.allowed) > 1 else said
        return " ".join([*filter(None, [query, said]), *(f"-site:{d}" for d in self.blocked)])


def _canonical(domain: str) -> str:
    text = domain.strip()
    parts = urlsplit(text if "://" in text else f"//{text}")
    host = (parts.hostname or "").removeprefix("*.").rstrip(".").lower()
    legal = all(sign.isalnum() or sign in ".-" for sign in host)
    if not host or not legal or parts.query or parts.fragment or parts.username is not None:
        raise ValueError(f"'{domain}' is no domain such as example.org")
    return host.encode("idna").decode() + parts.path.rstrip("/")


def _covers(domain: str, host: str, path: str) -> bool:
    name, slash, rest = domain.partition("/")
    if host != name and not host.endswith(f".{name}"):
        return False
    if not slash:
        return True
    steps, prefix = unquote(path).split("/")[1:], rest.split("/")
    return ".." not in steps and steps[: len(prefix)] == prefix
