"""`tool_search`: a search for tools that were not declared from the start."""

from collections.abc import Sequence
from typing import Any, ClassVar, Literal

import msgspec
from msgspec import Raw

from bascule.protocols import capabilities, json
from bascule.protocols.responses.items import Flat, Item
from bascule.toolkit.names import Ledger
from bascule.tools.items_only import ItemsOnly, answer, call, call_id_of, pair, wire_name


class ToolSearchParams(msgspec.Struct):
    """`description` and `parameters` belong to execution by the client."""

    execution: Literal["server", "client"] = "server"
    description: str | None = None
    parameters: dict[str, Any] | None = None


_decode = json.decoder(ToolSearchParams)


class ToolSearchCall(msgspec.Struct):
    """View of a `tool_search_call`. One that the server executed has no call id."""

    arguments: Any
    call_id: str | None = None
    execution: str | None = None


class ToolSearchOutput(msgspec.Struct):
    """View of a `tool_search_output`: declarations of the tools that were found."""

    tools: list[dict[str, Any]]
    call_id: str | None = None
    execution: str | None = None


class ToolSearchHandler(ItemsOnly):
    """Without a call id nothing says which call an output belongs to: each is then told by itself."""

    types: ClassVar[frozenset[str]] = frozenset({"tool_search"})
    item_types: ClassVar[frozenset[str]] = frozenset({"tool_search_call", "tool_search_output"})
    served: ClassVar[bool] = False

    def parse(self, declaration: Raw, param: str) -> None:
        json.field(_decode, declaration, param)
        raise capabilities.refusal(capabilities.TOOLS["tool_search"], f"{param}.type")

    def flatten(self, item: Item, names: Ledger, param: str) -> Sequence[Flat]:
        wire = wire_name(names, "tool_search")
        if item.type == "tool_search_call":
            asked = item.view(ToolSearchCall, param)
            if asked.call_id is None:
                return pair(call_id_of(item), wire, asked.arguments, "The server made the search.")
            return [call(asked.call_id, wire, asked.arguments)]
        found = item.view(ToolSearchOutput, param)
        text = json.encode({"tools": found.tools}).decode()
        if found.call_id is None:
            return pair(call_id_of(item), wire, {}, text)
        return [answer(found.call_id, text)]

    def answers(self, item: Item) -> str | None:
        return item.view(ToolSearchOutput).call_id if item.type == "tool_search_output" else None
