"""`mcp`: tools of MCP servers, and the approvals that they may need."""

from collections.abc import Sequence
from typing import Any, ClassVar, Final, Literal

import msgspec
from msgspec import Raw

from bascule.protocols import json
from bascule.protocols.errors import invalid
from bascule.protocols.responses.items import Flat, Item
from bascule.protocols.responses.request import ToolRef
from bascule.toolkit.handler import Tool
from bascule.toolkit.names import Identity, Ledger
from bascule.tools.hosted import HostedHandler
from bascule.tools.items_only import answer, call, call_id_of, failed, pair
from bascule.tools.options import Callers, declared
from bascule.tools.shapes import NULL, Name, with_defaults


class ToolFilter(msgspec.Struct):
    """Tools of a server: those it says only read (or do not), those with these names; both, if both
    are given."""

    read_only: bool | None = None
    tool_names: list[str] | None = None


class ApprovalFilter(msgspec.Struct):
    always: ToolFilter | None = None
    never: ToolFilter | None = None


class McpParams(msgspec.Struct):
    """A declared server. `headers` and `authorization` are used, never stored, logged or shown."""

    server_label: Name
    server_url: str | None = None
    connector_id: str | None = None
    tunnel_id: str | None = None
    server_description: str | None = None
    headers: dict[str, str] | None = None
    authorization: str | None = None
    allowed_tools: list[str] | ToolFilter | None = None
    require_approval: Literal["always", "never"] | ApprovalFilter | None = None
    """Always, when it is left out."""
    defer_loading: bool | None = None
    allowed_callers: Callers | None = None


_decode = json.decoder(McpParams)
_WHERE: Final = ("server_url", "connector_id", "tunnel_id")
_DEFAULTS: Final = {"allowed_tools": NULL, "headers": NULL, "server_description": NULL}


class McpListTools(msgspec.Struct):
    """View of an `mcp_list_tools`."""

    server_label: str
    tools: list[Any]


class McpCall(msgspec.Struct):
    """View of an `mcp_call`. `error` is an object, a text in older documents."""

    server_label: str
    name: str
    arguments: str
    output: str | None = None
    error: Any = None
    status: str | None = None


class McpApprovalRequest(msgspec.Struct):
    """View of an `mcp_approval_request`."""

    id: str
    server_label: str
    name: str
    arguments: str


class McpApprovalResponse(msgspec.Struct):
    """View of an `mcp_approval_response`."""

    approval_request_id: str
    approve: bool
    reason: str | None = None


class McpHandler(HostedHandler[McpParams]):
    kind: ClassVar[str] = "mcp"
    types: ClassVar[frozenset[str]] = frozenset({"mcp"})
    item_types: ClassVar[frozenset[str]] = frozenset(
        {"mcp_list_tools", "mcp_call", "mcp_approval_request", "mcp_approval_response"}
    )

    def parse(self, declaration: Raw, param: str) -> McpParams:
        params = declared(_decode, declaration, param)
        given = [name for name in _WHERE if getattr(params, name) is not None]
        if len(given) > 1:
            place = f"{param}.{given[1]}"
            what = f"Only one of {', '.join(repr(name) for name in _WHERE)} can be given."
            raise invalid(what, place, "invalid_value")
        return params

    def masked(self, declaration: Raw) -> Raw:
        members = json.envelope(bytes(declaration))
        if not members.keys() & {"headers", "authorization"}:
            return declaration
        members.pop("authorization", None)
        return Raw(json.encode({**members, "headers": None}))

    def echo(self, declaration: Raw, params: McpParams) -> Raw:
        return with_defaults(self.masked(declaration), _DEFAULTS)

    def normalize(self, params: McpParams) -> Sequence[Tool]:
        return [Tool(Identity(params.server_label, "", "mcp"))]

    def chosen(self, ref: ToolRef, identity: Identity) -> bool:
        return ref.server_label == identity.namespace

    def flatten(self, item: Item, names: Ledger, param: str) -> Sequence[Flat]:
        if item.type == "mcp_list_tools":
            item.view(McpListTools, param)
            return ()  # the model knows tools by their declarations
        if item.type == "mcp_call":
            made = item.view(McpCall, param)
            wire = names.assign(Identity(made.server_label, made.name, "mcp"))
            return pair(call_id_of(item), wire, made.arguments, _output(made))
        if item.type == "mcp_approval_request":
            asked = item.view(McpApprovalRequest, param)
            wire = names.assign(Identity(asked.server_label, asked.name, "mcp"))
            return [call(asked.id, wire, asked.arguments)]
        said = item.view(McpApprovalResponse, param)
        return [answer(said.approval_request_id, _decision(said))]


def _output(view: McpCall) -> str:
    if view.error is not None:
        return json.encode({"error": view.error}).decode()
    if view.output is not None:
        return view.output
    return failed(view.status, "call") or "(no output)"


def _decision(view: McpApprovalResponse) -> str:
    said = "The user approved this call." if view.approve else "The user did not approve this call."
    return f"{said} {view.reason}" if view.reason else said
