"""`web_search`: a search of the web, and the pages it opened."""

from collections.abc import Sequence
from typing import Any, ClassVar

import msgspec
from msgspec import Raw

from bascule.protocols import json
from bascule.protocols.responses.items import Flat, Item
from bascule.toolkit.names import Ledger
from bascule.tools.hosted import HostedHandler, declared
from bascule.tools.items_only import call_id_of, failed, given, pair, wire_name


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


class WebSearchHandler(HostedHandler[None]):
    kind: ClassVar[str] = "web_search"
    types: ClassVar[frozenset[str]] = frozenset(
        {
            *("web_search", "web_search_2025_08_26"),
            *("web_search_preview", "web_search_preview_2025_03_11"),
        }
    )
    item_types: ClassVar[frozenset[str]] = frozenset({"web_search_call"})

    def parse(self, declaration: Raw, param: str) -> None:
        json.field(declared, declaration, param)

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
