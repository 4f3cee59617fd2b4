"""Declarations of `web_search`, of the older types too."""

from collections.abc import Sequence
from typing import Final, Literal

import msgspec
from msgspec import Raw

from bascule.protocols import json
from bascule.protocols.errors import invalid
from bascule.services.search.domains import Domains
from bascule.tools.options import declared

ContextSize = Literal["low", "medium", "high"]

_MAX_DOMAINS: Final = 100
"""As at OpenAI."""


class Filters(msgspec.Struct):
    allowed_domains: list[str] | None = None
    blocked_domains: list[str] | None = None


class UserLocation(msgspec.Struct):
    type: Literal["approximate"] = "approximate"
    city: str | None = None
    country: str | None = None
    region: str | None = None
    timezone: str | None = None


class WebSearchParams(msgspec.Struct):
    """What a declaration says. Agents add members that no document tells of."""

    filters: Filters | None = None
    search_context_size: ContextSize | None = None
    user_location: UserLocation | None = None
    external_web_access: bool | None = None
    search_content_types: list[Literal["text", "image"]] | None = None

    @property
    def size(self) -> ContextSize:
        return self.search_context_size or "medium"

    @property
    def opens_pages(self) -> bool:
        """Whether pages may be opened; searches run in any case."""
        return self.external_web_access is not False

    @property
    def country(self) -> str | None:
        """Two letters, if the client said them."""
        said = (self.user_location.country or "" if self.user_location else "").strip().upper()
        return said if len(said) == 2 and said.isalpha() else None

    def domains(self) -> Domains:
        """Raises ValueError; not for a declaration that `read` has read."""
        filters = self.filters or Filters()
        return Domains.of(filters.allowed_domains or (), filters.blocked_domains or ())


_decode = json.decoder(WebSearchParams)


def read(declaration: Raw, param: str) -> WebSearchParams:
    """Raises ApiError 400 below `param`."""
    params = declared(_decode, declaration, param)
    filters = params.filters or Filters()
    _check(filters.allowed_domains, f"{param}.filters.allowed_domains")
    _check(filters.blocked_domains, f"{param}.filters.blocked_domains")
    if filters.allowed_domains and filters.blocked_domains:
        raise invalid(
            "Domains are either allowed or blocked: give one of the two lists.",
            f"{param}.filters",
            "invalid_value",
        )
    return params


def _check(domains: Sequence[str] | None, place: str) -> None:
    if domains is not None and len(domains) > _MAX_DOMAINS:
        raise invalid(f"More than {_MAX_DOMAINS} domains.", place, "array_above_max_length")
    for i, domain in enumerate(domains or ()):
        try:
            Domains.of([domain])
        except ValueError as e:
            raise invalid(f"{e}.", f"{place}[{i}]", "invalid_value") from None
