"""Runs searches, and opens the pages that a model names."""

import asyncio
from collections.abc import Sequence
from itertools import chain, zip_longest
from typing import Any

from msgspec import Raw

from bascule.protocols import json
from bascule.services.egress import EgressError
from bascule.services.pages.reader import PageReader
from bascule.services.search.domains import Domains
from bascule.services.search.patience import Patient
from bascule.services.search.port import SearchError, SearchOptions, SearchResult
from bascule.toolkit.executor import ExecutionContext, ToolExecutor
from bascule.toolkit.names import Identity
from bascule.toolkit.outcome import Call, Failed, Outcome, Output
from bascule.toolkit.projection import ItemWriter, Projection
from bascule.tools import web_search_actions as actions
from bascule.tools import web_search_text as text
from bascule.tools.items_only import given
from bascule.tools.web_search_actions import FindInPage, OpenPage, Search
from bascule.tools.web_search_items import SearchProjection, Shown
from bascule.tools.web_search_params import WebSearchParams

_OFF = "Pages cannot be opened here: only searches are allowed. Use what the search results say."


class WebSearchExecutor(ToolExecutor[WebSearchParams]):
    policy = "parallel"

    def __init__(self, engine: Patient, reader: PageReader) -> None:
        self.engine = engine
        self._reader = reader

    async def execute(
        self, call: Call, params: WebSearchParams, context: ExecutionContext
    ) -> Outcome:
        action = actions.read(call.arguments)
        if isinstance(action, str):
            return Failed(message=action, code="invalid_arguments")
        if isinstance(action, Search):
            return await self._search(action, params, context)
        if not params.opens_pages:
            return Failed(message=_OFF, code="no_external_web_access")
        try:
            return await self._open(action, params, context)
        except EgressError as e:
            return Failed(message=e.message, code=e.code)

    def project(
        self, writer: ItemWriter, call: Call, identity: Identity, params: WebSearchParams
    ) -> Projection:
        return SearchProjection(writer, call)

    async def aclose(self) -> None:
        await self._reader.aclose()
        await self.engine.aclose()

    # --- searches

    async def _search(
        self, action: Search, params: WebSearchParams, context: ExecutionContext
    ) -> Outcome:
        try:
            narrowed = Domains.of(action.allowed_domains, action.blocked_domains)
        except ValueError as e:
            return Failed(message=f"{e}.", code="invalid_arguments")
        filters = (params.domains(), narrowed)
        wanted = text.RESULTS[params.size]
        options = SearchOptions(
            # Some of what is found may have to go again.
            count=2 * wanted if any(f.allowed or f.blocked for f in filters) else wanted,
            domains=_said(*filters),
            country=params.country,
            passages=text.PASSAGE[params.size],
        )
        found = await asyncio.gather(*(self._found(query, options) for query in action.queries))
        faults = [
            f"“{q}”: {f.message}"
            for q, f in zip(action.queries, found, strict=True)
            if isinstance(f, SearchError)
        ]
        lists = [
            [r for r in results if _is_page(r.url) and all(f.permit(r.url) for f in filters)][
                :wanted
            ]
            for results in found
            if not isinstance(results, SearchError)
        ]
        if not lists:
            first = next(f for f in found if isinstance(f, SearchError))
            return Failed(message=first.message, code=first.code)
        results = _merged(lists)[: text.MAX_RESULTS]
        notes = [f"One search failed: {fault}" for fault in faults]
        if action.left_out:
            notes.append(
                f"Only {actions.MAX_QUERIES} searches are made at once: {action.left_out} were left out."
            )
        output = text.results_text(action.queries, results, context.citations, params.size, notes)
        shown = [
            given(url=r.url, title=r.title, snippet=r.snippet, published=r.published)
            for r in results
        ]
        return Output(
            output=output,
            public=_public(actions.shown(action, [r.url for r in results]), shown),
        )

    async def _found(
        self, query: str, options: SearchOptions
    ) -> Sequence[SearchResult] | SearchError:
        try:
            return await self.engine.search(query, options)
        except SearchError as e:
            return e

    # --- pages

    async def _open(
        self, action: OpenPage | FindInPage, params: WebSearchParams, context: ExecutionContext
    ) -> Outcome:
        """Raises EgressError."""
        domains = params.domains()
        _check(domains, action.url)
        document = await self._reader.read(action.url)
        _check(domains, document.url)
        if isinstance(action, FindInPage):
            output = text.found_text(document, action.pattern, context.citations)
        else:
            output = text.page_text(document, action.start, context.citations, params.size)
        return Output(output=output, public=_public(actions.shown(action)))


def _check(domains: Domains, url: str) -> None:
    if not domains.permit(url):
        raise EgressError(
            "domain_not_allowed", "The page is not on a domain that may be used here."
        )


def _is_page(url: str) -> bool:
    """Engines are not to be trusted with `javascript:` and the like, which clients make links of."""
    return url.lower().startswith(("http://", "https://"))


def _said(declared: Domains, narrowed: Domains) -> Domains:
    """What an engine is told: the model's own choice of domains comes first; both hold."""
    return Domains(narrowed.allowed or declared.allowed, (*declared.blocked, *narrowed.blocked))


def _merged(lists: Sequence[Sequence[SearchResult]]) -> list[SearchResult]:
    """The best of each first, each page once."""
    merged: dict[str, SearchResult] = {}
    for result in chain.from_iterable(zip_longest(*lists)):
        if result is not None:
            merged.setdefault(result.url, result)
    return list(merged.values())


def _public(action: dict[str, Any], results: Sequence[Any] | None = None) -> bytes:
    shown = Shown(Raw(json.encode(action)))
    if results is not None:
        shown.results = Raw(json.encode(results))
    return json.encode(shown)
