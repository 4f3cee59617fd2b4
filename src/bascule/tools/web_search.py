"""`web_search`: a search of the web, and the pages it opened."""

from collections.abc import Sequence
from typing import Any, ClassVar

import msgspec
from msgspec import Raw

from bascule.config import Config
from bascule.protocols import json
from bascule.protocols.responses.items import Flat, Item
from bascule.toolkit.handler import Health, Tool
from bascule.toolkit.names import Identity, Ledger
from bascule.toolkit.options import ToolOptions
from bascule.toolkit.ownership import UNAVAILABLE, Ownership, gateway
from bascule.tools import web_search_actions as actions
from bascule.tools.hosted import HostedHandler, with_defaults
from bascule.tools.items_only import call_id_of, failed, given, pair, wire_name
from bascule.tools.web_search_options import WebSearchOptions, executor_of
from bascule.tools.web_search_params import WebSearchParams, read


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

    option_type: ClassVar[type[ToolOptions] | None] = WebSearchOptions
    takes_config: ClassVar[bool] = True

    def __init__(self, options: WebSearchOptions, config: Config) -> None:
        """Raises ConfigError."""
        self._options = options
        self._executor = executor_of(options, config)

    def parse(self, declaration: Raw, param: str) -> WebSearchParams:
        return read(declaration, param)

    def normalize(self, params: WebSearchParams) -> Sequence[Tool]:
        images = "image" in (params.search_content_types or ())
        return [
            Tool(
                Identity(None, self.kind, self.kind),
                _description(params),
                actions.schema(opens_pages=params.opens_pages),
                ignored=["search_content_types"] if images else (),
            )
        ]

    def owner(self, params: WebSearchParams, identity: Identity) -> Ownership:
        if self._executor is None:
            return UNAVAILABLE
        return gateway(self._executor, params, self._options)

    async def aclose(self) -> None:
        if self._executor is not None:
            await self._executor.aclose()

    def health(self) -> Sequence[Health]:
        if self._executor is None or self._options.engine is None:
            return ()
        engine = self._executor.engine
        asked = "connected" if engine.calls and engine.error is None else "closed"
        return [
            Health(
                self.kind,
                self._options.engine,
                "backing_off" if engine.limited else asked,
                engine.error,
                engine.calls,
                engine.failures,
            )
        ]

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


def _description(params: WebSearchParams) -> str:
    """What the model is told of the tool, and of what the client said of its use."""
    lines = ["Searches the web, for what is recent or has to be looked up."]
    if params.opens_pages:
        lines.append("Opens pages, and finds words in them.")
    place = params.user_location
    if place is not None:
        said = ", ".join(filter(None, (place.city, place.region, place.country)))
        if said:
            lines.append(f"The user is about here: {said}.")
        if place.timezone:
            lines.append(f"The user's time zone is {place.timezone}.")
    domains = params.domains()
    if domains.allowed:
        lines.append(f"Only pages of these domains can be used: {', '.join(domains.allowed)}.")
    if domains.blocked:
        lines.append(f"Pages of these domains cannot be used: {', '.join(domains.blocked)}.")
    return " ".join(lines)


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
