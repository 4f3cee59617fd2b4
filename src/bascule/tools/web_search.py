"""`web_search`: a search of the web, and the pages it opened."""

from collections.abc import Sequence
from typing import Any, ClassVar, Literal

import msgspec
from msgspec import Raw

from bascule.protocols import json
from bascule.protocols.responses.items import Flat, Item
from bascule.toolkit.names import Ledger
from bascule.tools.hosted import HostedHandler, with_defaults
from bascule.tools.items_only import call_id_of, failed, given, pair, wire_name
from bascule.tools.options import declared


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
    """A declaration, of the older types too. Agents add members that no document tells of."""

    filters: Filters | None = None
    search_context_size: Literal["low", "medium", "high"] | None = None
    user_location: UserLocation | None = None
    external_web_access: bool | None = None
    search_content_types: list[Literal["text", "image"]] | None = None


_decode = json.decoder(WebSearchParams)


class Action(msgspec.Struct):
    """`search`, `open_page` or `find_in_page`; which members count depends on it."""

    type: str
    query: str | None = None
    queries: list[str] | None = None
    url: str | None = None
    pattern: str | None = None
    sources: list[Any] | None = None


class WebSearchCall(msgspec.Struct):
    """View of a `web_search_call`. `results` come with their `include` only."""

    action: Action | None = None
    status: str | None = None
    results: list[Any] | None = None


class WebSearchHandler(HostedHandler[WebSearchParams]):
    kind: ClassVar[str] = "web_search"
    types: ClassVar[frozenset[str]] = frozenset(
        {
            *("web_search", "web_search_2025_08_26"),
            *("web_search_preview", "web_search_preview_2025_03_11"),
        }
    )
    item_types: ClassVar[frozenset[str]] = frozenset({"web_search_call"})

    def parse(self, declaration: Raw, param: str) -> WebSearchParams:
        return declared(_decode, declaration, param)

    def echo(self, declaration: Raw, params: WebSearchParams) -> Raw:
        """With its defaults, as recorded at OpenAI; a location is not made up."""
        defaults: dict[str, Any] = {"search_context_size": "medium", "user_location": None}
        if b"_preview" not in bytes(declaration):
            defaults["filters"] = None
        return with_defaults(declaration, **defaults)

    def flatten(self, item: Item, names: Ledger, param: str) -> Sequence[Flat]:
        view = item.view(WebSearchCall, param)
        wire = wire_name(names, "web_search")
        return pair(call_id_of(item), wire, _arguments(view.action), _output(view))


def _arguments(action: Action | None) -> dict[str, Any]:
    if action is None:
        return {}
    if action.type == "search":
        query = action.query or (action.queries[0] if action.queries else None)
        more = action.queries if action.queries and len(action.queries) > 1 else None
        return given(query=query, queries=more)
    return given(action=action.type, url=action.url, pattern=action.pattern)


def _output(view: WebSearchCall) -> str:
    fault = failed(view.status, "search")
    if fault:
        return fault
    if view.results:
        return json.encode(view.results).decode()
    if view.action is not None and view.action.sources:
        return json.encode({"sources": view.action.sources}).decode()
    return "The search was made; what it found is not a part of this history."
