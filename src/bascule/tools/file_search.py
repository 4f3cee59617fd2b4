"""`file_search`: a search of vector stores."""

from collections.abc import Sequence
from typing import Any, ClassVar

import msgspec
from msgspec import Raw

from bascule.protocols import json
from bascule.protocols.responses.items import Flat, Item
from bascule.toolkit.names import Ledger
from bascule.tools.hosted import HostedHandler, declared
from bascule.tools.items_only import call_id_of, failed, given, pair, wire_name


class FileSearchCall(msgspec.Struct):
    """View of a `file_search_call`. `results` come with their `include` only."""

    queries: list[str]
    status: str | None = None
    results: list[Any] | None = None


class FileSearchHandler(HostedHandler[None]):
    kind: ClassVar[str] = "file_search"
    types: ClassVar[frozenset[str]] = frozenset({"file_search"})
    item_types: ClassVar[frozenset[str]] = frozenset({"file_search_call"})

    def parse(self, declaration: Raw, param: str) -> None:
        json.field(declared, declaration, param)

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
