"""`mcp`: tools of MCP servers, and the approvals that they may need."""

from collections.abc import Sequence
from typing import Any, ClassVar

import msgspec
from msgspec import Raw

from bascule.protocols import json
from bascule.protocols.responses.items import Flat, Item
from bascule.protocols.responses.request import ToolRef
from bascule.toolkit.handler import Tool
from bascule.toolkit.names import Identity, Ledger
from bascule.tools.hosted import HostedHandler, with_defaults
from bascule.tools.items_only import answer, call, call_id_of, failed, pair
from bascule.tools.mcp_params import McpParams, read_mcp, without_credentials


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
        return read_mcp(declaration, param)

    def masked(self, declaration: Raw) -> Raw:
        """Without what the client's credentials for the server may stand in."""
        return without_credentials(declaration)

    def echo(self, declaration: Raw, params: McpParams) -> Raw:
        """With its defaults, as recorded at OpenAI."""
        return with_defaults(
            self.masked(declaration),
            allowed_tools=None,
            headers=None,
            require_approval="always",
            server_description=None,
        )

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
