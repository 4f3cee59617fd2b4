"""`file_search`: a search of vector stores."""

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Final, Literal

import msgspec
from msgspec import Meta, Raw

from bascule.protocols import json
from bascule.protocols.errors import invalid
from bascule.protocols.responses.items import Flat, Item
from bascule.toolkit.names import Ledger
from bascule.tools.hosted import HostedHandler
from bascule.tools.items_only import call_id_of, failed, given, pair, wire_name
from bascule.tools.options import declared
from bascule.tools.shapes import NULL, Share, with_defaults


class HybridSearch(msgspec.Struct):
    embedding_weight: Annotated[float, Meta(ge=0)]
    text_weight: Annotated[float, Meta(ge=0)]


class RankingOptions(msgspec.Struct):
    ranker: Literal["auto", "default-2024-11-15"] | None = None
    score_threshold: Share | None = None
    hybrid_search: HybridSearch | None = None


class Comparison(msgspec.Struct):
    """Compares one attribute of a file with a value, or with a list of them (`in`, `nin`)."""

    type: Literal["eq", "ne", "gt", "gte", "lt", "lte", "in", "nin"]
    key: str
    value: str | float | bool | list[str | float]


class Compound(msgspec.Struct):
    """`and` or `or` of filters."""

    type: Literal["and", "or"]
    filters: "list[Comparison | Compound]"


Filter = Comparison | Compound


class FileSearchParams(msgspec.Struct):
    vector_store_ids: Annotated[list[str], Meta(min_length=1)]
    filters: Raw = NULL
    max_num_results: Annotated[int, Meta(ge=1, le=50)] | None = None
    ranking_options: RankingOptions | None = None


class _Group(msgspec.Struct):
    type: str
    filters: list[Raw] = []


_decode = json.decoder(FileSearchParams)
_group = json.decoder(_Group)
_comparison = json.decoder(Comparison)
_MAX_DEPTH: Final = 32
_DEFAULTS: Final = {
    "filters": NULL,
    "max_num_results": Raw(b"20"),
    "ranking_options": Raw(b'{"ranker":"auto","score_threshold":0.0}'),
}


def parse_filter(raw: Raw, param: str, depth: int = 0) -> Filter:
    """Raises ApiError 400 that names the filter at fault below `param`."""
    if depth > _MAX_DEPTH:
        raise invalid(f"'{param}' is nested too deeply.", param, "invalid_value")
    group = json.field(_group, raw, param)
    if group.type not in ("and", "or"):
        found = json.field(_comparison, raw, param)
        if isinstance(found.value, list) != (found.type in ("in", "nin")):
            place = f"{param}.value"
            raise invalid(f"'{place}' does not fit '{found.type}'.", place, "invalid_type")
        return found
    inside = [
        parse_filter(one, f"{param}.filters[{i}]", depth + 1) for i, one in enumerate(group.filters)
    ]
    if not inside:
        place = f"{param}.filters"
        raise invalid(f"'{place}' is empty.", place, "invalid_value")
    return Compound("and" if group.type == "and" else "or", inside)


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
        if not json.is_null(params.filters):
            parse_filter(params.filters, f"{param}.filters")
        return params

    def echo(self, declaration: Raw, params: FileSearchParams) -> Raw:
        return with_defaults(declaration, _DEFAULTS)

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
