"""The engines, a line each."""

from collections.abc import Callable, Mapping
from typing import Final, Literal

import msgspec

from bascule.services.search.port import SearchEngine

EngineName = Literal["searxng", "brave", "tavily", "exa", "ddgs"]

Make = Callable[[str | None, str | None, float], SearchEngine]
"""From the operator's base URL, their key, and seconds for one search."""


class EngineKind(msgspec.Struct, frozen=True):
    """How an engine is made, and what it needs for that."""

    make: Make
    needs: Literal["base_url", "api_key"] | None = None


def _searxng(base_url: str | None, api_key: str | None, timeout: float) -> SearchEngine:
    from bascule.services.search.searxng import Searxng

    return Searxng(base_url or "", api_key, timeout)


def _brave(base_url: str | None, api_key: str | None, timeout: float) -> SearchEngine:
    from bascule.services.search.brave import Brave

    return Brave(base_url, api_key or "", timeout)


def _tavily(base_url: str | None, api_key: str | None, timeout: float) -> SearchEngine:
    from bascule.services.search.tavily import Tavily

    return Tavily(base_url, api_key or "", timeout)


def _exa(base_url: str | None, api_key: str | None, timeout: float) -> SearchEngine:
    from bascule.services.search.exa import Exa

    return Exa(base_url, api_key or "", timeout)


def _ddgs(base_url: str | None, api_key: str | None, timeout: float) -> SearchEngine:
    from bascule.services.search.ddgs import Ddgs

    return Ddgs(base_url, timeout)


ENGINES: Final[Mapping[str, EngineKind]] = {
    "searxng": EngineKind(_searxng, "base_url"),
    "brave": EngineKind(_brave, "api_key"),
    "tavily": EngineKind(_tavily, "api_key"),
    "exa": EngineKind(_exa, "api_key"),
    "ddgs": EngineKind(_ddgs),
}
"""By the name in the configuration. Each is loaded when it is made: none is needed where none is
configured."""
