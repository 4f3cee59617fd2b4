"""`mcp`: tools of MCP servers, and the approvals that they may need."""

from collections.abc import Sequence
from typing import Any, ClassVar

import msgspec
import structlog
from msgspec import Raw, structs

from bascule.config import Config
from bascule.protocols import json
from bascule.protocols.errors import ApiError, invalid
from bascule.protocols.responses.items import Flat, Item
from bascule.protocols.responses.request import ToolRef
from bascule.services.mcp import McpError, McpServer, McpTool
from bascule.toolkit.approval import Answer
from bascule.toolkit.discovery import Announcement, Discovery
from bascule.toolkit.handler import Health, Tool, ToolHandler
from bascule.toolkit.names import Identity, Ledger
from bascule.toolkit.options import ToolOptions
from bascule.toolkit.outcome import Call, SuspendedCall
from bascule.toolkit.ownership import UNAVAILABLE, Ownership, gateway
from bascule.tools.hosted import with_defaults
from bascule.tools.items_only import answer, call, call_id_of, failed, pair
from bascule.tools.mcp_executor import RESOURCE_TOOLS, RESOURCES, McpExecutor, Target
from bascule.tools.mcp_items import ListedTool, ListedTools
from bascule.tools.mcp_params import McpParams, read_mcp, without_credentials
from bascule.tools.mcp_policy import McpPolicy
from bascule.tools.mcp_servers import McpOptions, McpServers, whole
from bascule.tools.options import ignored_options, may_be_called

_log = structlog.stdlib.get_logger("bascule.mcp")


class McpListTools(msgspec.Struct):
    """View of an `mcp_list_tools`."""

    server_label: str
    tools: list[ListedTool]
    error: Any = None


class McpCall(msgspec.Struct):
    """View of an `mcp_call`. `error` is an object, a text in older documents."""

    server_label: str
    name: str
    arguments: str
    output: str | None = None
    error: Any = None
    status: str | None = None
    approval_request_id: str | None = None


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


class Found(msgspec.Struct):
    """A declaration, and what is known of its server."""

    params: McpParams
    policy: McpPolicy
    server: McpServer | None = None
    tools: Sequence[McpTool] = ()
    resources: bool = False
    announcement: ListedTools | None = None


class McpHandler(ToolHandler[Found]):
    """A server's tools become functions `label__name`; their calls run there."""

    types: ClassVar[frozenset[str]] = frozenset({"mcp"})
    item_types: ClassVar[frozenset[str]] = frozenset(
        {"mcp_list_tools", "mcp_call", "mcp_approval_request", "mcp_approval_response"}
    )
    option_type: ClassVar[type[ToolOptions] | None] = McpOptions
    takes_config: ClassVar[bool] = True
    discovers: ClassVar[bool] = True
    settles: ClassVar[bool] = True

    def __init__(self, options: McpOptions, config: Config) -> None:
        self._servers = McpServers(options, config)
        self._executor = McpExecutor(self._servers)
        self._options = whole(options)

    def parse(self, declaration: Raw, param: str) -> Found:
        params = read_mcp(declaration, param, self._servers.configured)
        self._servers.check(params, param)
        return Found(params, McpPolicy(params, self._servers.section(params)))

    def recall(self, params: Found) -> None:
        """Without the request's own declaration only the operator's servers can be reached: what a
        client has sent before is not kept."""
        if self._servers.section(params.params) is None:
            raise invalid(
                f"A call of the MCP server '{params.params.server_label}' goes on in this turn: "
                "declare the server.",
                "tools",
            )

    async def discover(self, params: Found, discovery: Discovery) -> Found:
        """An earlier list of the chain makes a new one needless while the server has the same tools,
        and stands in for it when it cannot be asked; without one it has no tools then, and the turn goes
        on."""
        server = self._servers.find(params.params, discovery.owner)
        label = params.params.server_label
        earlier = _listed(discovery.earlier, label)
        try:
            listing = await self._servers.pool.tools(server)
        except McpError as e:
            if earlier is not None:
                # Whether a tool only reads is for the operator's server to say, not for a history.
                unsure = [structs.replace(tool, read_only=False) for tool in earlier]
                tools = earlier if server.guarded else unsure
                return structs.replace(params, server=server, tools=tools)
            _log.info("a server has no tools", server=server.shown, error=e.message)
            told = ListedTools(label, (), e.shown())
            return structs.replace(params, server=server, announcement=told)
        tools = [tool for tool in listing.tools if params.policy.allows(tool)]
        same = earlier is not None and _same(tools, earlier, params.policy)
        return structs.replace(
            params,
            server=server,
            tools=tools,
            resources=listing.resources,
            announcement=None if same else ListedTools(label, tools),
        )

    def announce(self, params: Found) -> Announcement | None:
        return params.announcement

    def masked(self, declaration: Raw) -> Raw:
        """Without what the client's credentials for the server may stand in."""
        return without_credentials(declaration)

    def echo(self, declaration: Raw, params: Found) -> Raw:
        """With its defaults, as recorded at OpenAI."""
        return with_defaults(
            self.masked(declaration),
            allowed_tools=None,
            headers=None,
            require_approval="always",
            server_description=None,
        )

    def normalize(self, params: Found) -> Sequence[Tool]:
        label, about = params.params.server_label, params.params.server_description
        ignored = ignored_options(params.params.allowed_callers, params.params.defer_loading)
        offered = may_be_called(params.params.allowed_callers)
        tools = [
            Tool(
                Identity(label, tool.name, "mcp"),
                "\n\n".join(filter(None, (about, tool.description))) or None,
                tool.input_schema,
                shown_namespace=label,
                offered=offered,
                ignored=ignored,
            )
            for tool in params.tools
            if params.policy.allows(tool)
        ]
        if params.resources:
            tools += [
                Tool(
                    Identity(label, name, RESOURCES),
                    text,
                    schema,
                    shown_namespace=label,
                    offered=offered,
                )
                for name, text, schema in RESOURCE_TOOLS
                if params.policy.allows_resources(name)
            ]
        return tools

    def owner(self, params: Found, identity: Identity) -> Ownership:
        if params.server is None:
            return UNAVAILABLE
        tool = next((t for t in params.tools if t.name == identity.name), None)
        if tool is None or identity.kind == RESOURCES:
            tool = McpTool(identity.name, "", Raw(), read_only=True)
        target = Target(
            params.server, identity.name, self._servers.seconds(params.params), identity.kind
        )
        return gateway(self._executor, target, self._options, params.policy.rule(tool))

    def chosen(self, ref: ToolRef, identity: Identity) -> bool:
        """All of a server's tools, or one of them."""
        return ref.server_label == identity.namespace and ref.name in (None, identity.name)

    async def aclose(self) -> None:
        await self._servers.pool.aclose()

    def health(self) -> Sequence[Health]:
        """Of the operator's servers; those of requests are their clients' own business."""
        return self._servers.pool.health(shared=True)

    # --- history

    def flatten(self, item: Item, names: Ledger, param: str) -> Sequence[Flat]:
        if item.type == "mcp_list_tools":
            item.view(McpListTools, param)
            return ()  # the model knows tools by their declarations
        if item.type == "mcp_call":
            made = item.view(McpCall, param)
            wire = _wire(names, made.server_label, made.name)
            return pair(call_id_of(item), wire, made.arguments, _output(made))
        if item.type == "mcp_approval_request":
            asked = item.view(McpApprovalRequest, param)
            wire = _wire(names, asked.server_label, asked.name)
            return [call(asked.id, wire, asked.arguments)]
        said = item.view(McpApprovalResponse, param)
        return [answer(said.approval_request_id, Answer(said.approve, said.reason).refusal())]

    def settle(self, items: Sequence[tuple[Item, str]], names: Ledger) -> Sequence[SuspendedCall]:
        """Requests, what was answered, and what came of it: an approved call runs now, unless its
        `mcp_call` is there already."""
        asked: dict[str, tuple[Item, McpApprovalRequest]] = {}
        said: dict[str, McpApprovalResponse] = {}
        made: set[str] = set()
        for item, param in items:
            if item.type == "mcp_approval_request":
                request = item.view(McpApprovalRequest, param)
                asked[request.id] = (item, request)
            elif item.type == "mcp_approval_response":
                response = item.view(McpApprovalResponse, param)
                if response.approval_request_id not in asked:
                    raise _unknown(response.approval_request_id, param)
                if response.approval_request_id in said:
                    told = f"'{response.approval_request_id}' is answered twice."
                    raise invalid(told, param, "duplicate_answer")
                said[response.approval_request_id] = response
                if response.approve:
                    item.model = []
            elif item.type == "mcp_call":
                view = item.view(McpCall, param)
                if view.approval_request_id in asked:
                    made.add(view.approval_request_id or "")
                    item.model = [answer(view.approval_request_id or "", _output(view))]
        missing = [id_ for id_ in asked if id_ not in said]
        if missing:
            raise invalid(self.unanswered(missing[0]), "input")
        return [
            self._suspended(asked[id_][1], names)
            for id_, response in said.items()
            if response.approve and id_ not in made
        ]

    def _suspended(self, request: McpApprovalRequest, names: Ledger) -> SuspendedCall:
        wire = _wire(names, request.server_label, request.name)
        made = Call(call_id=request.id, name=wire, arguments=request.arguments)
        declaration = {"type": "mcp", "server_label": request.server_label}
        known = request.server_label in self._servers.configured
        return SuspendedCall(
            call=made,
            tool=json.encode(declaration) if known else b"null",
            awaits=[request.id],
            approval=True,
        )

    def answers(self, item: Item) -> str | None:
        if item.type != "mcp_approval_response":
            return None
        return item.view(McpApprovalResponse).approval_request_id

    def approval(self, item: Item, param: str) -> Answer:
        said = item.view(McpApprovalResponse, param)
        return Answer(said.approve, said.reason)

    def unanswered(self, key: str) -> str:
        return f"No approval response found for the approval request {key}."


def _wire(names: Ledger, label: str, name: str) -> str:
    """The name of a tool of a history: the server's own, else the gateway's for its resources."""
    own, ours = Identity(label, name, "mcp"), Identity(label, name, RESOURCES)
    return names.wire(own) or names.wire(ours) or names.assign(own)


def _listed(earlier: Sequence[Item], label: str) -> list[McpTool] | None:
    """The tools of a server as the newest list of a chain has them; None without a list that counts."""
    for item in reversed(earlier):
        if item.type == "mcp_list_tools":
            view = item.view(McpListTools)
            if view.server_label == label:
                return None if view.error is not None else [tool.tool() for tool in view.tools]
    return None


def _same(tools: Sequence[McpTool], earlier: Sequence[McpTool], policy: McpPolicy) -> bool:
    """Whether a server still has the tools of a list, as far as they may be called."""
    now = {t.name: (t.description, _object(t.input_schema)) for t in tools if policy.allows(t)}
    then = {t.name: (t.description, _object(t.input_schema)) for t in earlier if policy.allows(t)}
    return now == then


def _object(schema: Raw) -> Any:
    return msgspec.json.decode(schema)


def _unknown(id_: str, param: str) -> ApiError:
    return invalid(
        f"There is no approval request '{id_}' that waits for an answer.",
        f"{param}.approval_request_id",
        "invalid_value",
    )


def _output(view: McpCall) -> str:
    if view.error is not None:
        return json.encode({"error": view.error}).decode()
    if view.output is not None:
        return view.output
    return failed(view.status, "call") or "(no output)"
