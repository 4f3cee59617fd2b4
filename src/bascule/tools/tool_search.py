"""`tool_search`: a search for tools that the model has not been told of yet.

One that the client executes becomes a function, whose calls come back as `tool_search_call`; the tools
of a `tool_search_output` are declarations from then on. For one that the server executes there is no
executor here: what is deferred is offered at once.
"""

from collections.abc import Sequence
from typing import Any, ClassVar, Literal

import msgspec
from msgspec import Raw

from bascule.protocols import json
from bascule.protocols.errors import invalid
from bascule.protocols.responses.items import Flat, Item
from bascule.toolkit.handler import Brought, Tool
from bascule.toolkit.names import Identity, Ledger
from bascule.toolkit.outcome import Call
from bascule.toolkit.ownership import CLIENT, UNAVAILABLE, Ownership
from bascule.toolkit.projection import ItemWriter, Projection
from bascule.tools.built_in import ONE_OBJECT, BuiltInCall, Status, function_schema
from bascule.tools.hosted import HostedHandler
from bascule.tools.items_only import answer, call, call_id_of, pair, wire_name
from bascule.tools.options import declared

_DESCRIPTION = "Searches for further tools. What it finds can be called from then on."
_PARAMETERS = function_schema(
    ["query"], query={"type": "string", "description": "What the tool should do."}
)


class ToolSearchParams(msgspec.Struct):
    """`description` and `parameters` belong to execution by the client."""

    execution: Literal["server", "client"] = "server"
    description: str | None = None
    parameters: Raw = Raw()


_decode = json.decoder(ToolSearchParams)


class ToolSearchCall(msgspec.Struct):
    """View of a `tool_search_call`. One that the server executed has no call id."""

    arguments: Any
    call_id: str | None = None
    execution: str | None = None


class ToolSearchOutput(msgspec.Struct):
    """View of a `tool_search_output`: declarations of the tools that were found."""

    tools: list[Raw]
    call_id: str | None = None
    execution: str | None = None


class ToolSearchHandler(HostedHandler[ToolSearchParams]):
    """Without a call id nothing says which call an output belongs to: each is then told by itself."""

    kind: ClassVar[str] = "tool_search"
    types: ClassVar[frozenset[str]] = frozenset({"tool_search"})
    item_types: ClassVar[frozenset[str]] = frozenset({"tool_search_call", "tool_search_output"})
    brings: ClassVar[frozenset[str]] = frozenset({"tool_search_output"})

    def parse(self, declaration: Raw, param: str) -> ToolSearchParams:
        params = declared(_decode, declaration, param)
        schema = bytes(params.parameters).lstrip()
        if schema not in (b"", b"null") and not schema.startswith(b"{"):
            place = f"{param}.parameters"
            raise invalid(f"'{place}' must be an object.", place, "invalid_type")
        if schema == b"null":
            params.parameters = Raw()
        return params

    def normalize(self, params: ToolSearchParams) -> Sequence[Tool]:
        identity = Identity(None, self.kind, self.kind)
        if params.execution == "server":
            return [Tool(identity)]
        schema = params.parameters if bytes(params.parameters) else _PARAMETERS
        return [Tool(identity, params.description or _DESCRIPTION, schema, searches=True)]

    def owner(self, params: ToolSearchParams, identity: Identity) -> Ownership:
        return CLIENT if params.execution == "client" else UNAVAILABLE

    def restore(self, writer: ItemWriter, call: Call, identity: Identity) -> Projection:
        return SearchProjection(writer, call)

    # --- history

    def brought(self, item: Item, param: str) -> Sequence[Brought]:
        tools = item.view(ToolSearchOutput, param).tools
        return [Brought(tool, f"{param}.tools[{i}]", found=True) for i, tool in enumerate(tools)]

    def flatten(self, item: Item, names: Ledger, param: str) -> Sequence[Flat]:
        wire = wire_name(names, "tool_search")
        if item.type == "tool_search_call":
            asked = item.view(ToolSearchCall, param)
            if asked.call_id is None:
                return pair(call_id_of(item), wire, asked.arguments, "The server made the search.")
            return [call(asked.call_id, wire, asked.arguments)]
        found = item.view(ToolSearchOutput, param)
        text = _told(found.tools, names)
        if found.call_id is None:
            return pair(call_id_of(item), wire, {}, text)
        return [answer(found.call_id, text)]

    def answers(self, item: Item) -> str | None:
        return item.view(ToolSearchOutput).call_id if item.type == "tool_search_output" else None


class _Found(msgspec.Struct):
    type: str = ""
    name: str | None = None
    description: str | None = None
    server_label: str | None = None
    tools: list["_Found"] = []


_found = json.decoder(_Found)


def _told(tools: Sequence[Raw], names: Ledger) -> str:
    """What was found, under the names by which the model calls it."""
    lines: list[str] = []
    for raw in tools:
        tool = _found(raw)
        if tool.type == "namespace":
            lines += [_line(tool.name, member, names) for member in tool.tools]
        else:
            lines.append(_line(None, tool, names))
    if not lines:
        return "No tools were found."
    return "\n".join(["These tools can be called now:", *lines])


def _line(namespace: str | None, tool: _Found, names: Ledger) -> str:
    name = tool.name or tool.server_label or tool.type
    wire = names.wire(Identity.of(namespace, name, tool.type)) or name
    about = " ".join((tool.description or "").split())
    return f"- {wire}: {about}" if about else f"- {wire}"


class SearchProjection(BuiltInCall):
    """`tool_search_call`: added and done, with an object of arguments."""

    id_prefix: ClassVar[str] = "tsc"

    def finish_with(self, objects: list[dict[str, Any]]) -> str | None:
        if len(objects) != 1:
            return ONE_OBJECT
        self._show("completed", objects[0])
        return None

    def cut(self) -> None:
        self._show("incomplete", {})

    def _show(self, status: Status, arguments: dict[str, Any]) -> None:
        """Added without its arguments, as recorded at OpenAI."""
        self.shown = True
        self.writer.added(self._item("in_progress", {}))
        self.writer.done(self._item(status, arguments))

    def _item(self, status: Status, arguments: dict[str, Any]) -> dict[str, Any]:
        return {
            "id": self.writer.item_id,
            "type": "tool_search_call",
            "status": status,
            "arguments": arguments,
            "call_id": self.call.call_id,
            "execution": "client",
        }
