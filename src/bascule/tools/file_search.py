"""`file_search`: a search of vector stores."""

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import Meta, Raw

from bascule.protocols import json
from bascule.protocols.responses.items import Flat, Item
from bascule.toolkit.names import Ledger
from bascule.tools.attribute_filters import Filter, check_filter
from bascule.tools.hosted import HostedHandler, with_defaults
from bascule.tools.items_only import call_id_of, failed, given, pair, wire_name
from bascule.tools.options import declared

_Share = Annotated[float, Meta(ge=0, le=1)]
_Weight = Annotated[float, Meta(ge=0)]


class HybridSearch(msgspec.Struct):
    embedding_weight: _Weight
    text_weight: _Weight


class RankingOptions(msgspec.Struct):
    ranker: Literal["auto", "default-2024-11-15"] | None = None
    score_threshold: _Share | None = None
    hybrid_search: HybridSearch | None = None


class FileSearchParams(msgspec.Struct):
    vector_store_ids: Annotated[list[str], Meta(min_length=1)]
    filters: Filter | None = None
    max_num_results: Annotated[int, Meta(ge=1, le=50)] | None = None
    ranking_options: RankingOptions | None = None


_decode = json.decoder(FileSearchParams)


class FileSearchCall(msgspec.Struct):
    """View of a `file_search_call`. `results` come with their `include` only."""

    queries: list[str]
    status: str | None = None
    results: list[Any] | None = None


class FileSearchHandler(HostedHandler[FileSearchParams]):
    kind: ClassVar[str] = "file_search"
    types: ClassVar[frozenset[str]] = frozenset({"file_search"})
    item_types: ClassVar[frozenset[str]] = frozenset({"file_search_call"})

    def parse(self, declaration: Raw, param: str) -> FileSearchParams:
        params = declared(_decode, declaration, param)
        if params.filters is not None:
            check_filter(params.filters, f"{param}.filters")
        return params

    def echo(self, declaration: Raw, params: FileSearchParams) -> Raw:
        """With its defaults, as recorded at OpenAI."""
        return with_defaults(
            declaration,
            filters=None,
            max_num_results=20,
            ranking_options={"ranker": "auto", "score_threshold": 0.0},
        )

    def flatten(self, item: Item, names: Ledger, param: str) -> Sequence[Flat]:
        view = item.view(FileSearchCall, param)
        first = view.queries[0] if view.queries else None
        more = view.queries if len(view.queries) > 1 else None
        arguments = given(query=first, queries=more)
        return pair(call_id_of(item), wire_name(names, "file_search"), arguments, _output(view))


def _output(view: FileSearchCall) -> str:
    fault = failed(view.status, "search")
    if fault:
        return fault
    if view.results is None:
        return "The search was made; what it found is not a part of this history."
    return json.encode(view.results).decode()
