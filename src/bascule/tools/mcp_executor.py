"""Runs the calls of MCP tools, and those of the two tools for a server's resources."""

from typing import Any, Final

import msgspec

from bascule.protocols import json
from bascule.services.mcp import McpError, McpServer
from bascule.toolkit.approval import Question
from bascule.toolkit.executor import ExecutionContext, ToolExecutor
from bascule.toolkit.names import Identity
from bascule.toolkit.outcome import Call, Failed, Outcome, Output
from bascule.toolkit.projection import ItemWriter, Projection
from bascule.tools.built_in import function_schema
from bascule.tools.mcp_items import CallProjection, approval_request
from bascule.tools.mcp_results import failed, outcome_of, output_of
from bascule.tools.mcp_servers import McpServers

RESOURCES: Final = "mcp_resource"
"""The kind of the tools that read a server's resources; the server has none of these names, or its own
come first."""

RESOURCE_TOOLS: Final = (
    (
        "list_resources",
        "Lists the resources of this MCP server: documents and data that it can give.",
        function_schema(
            [],
            cursor={"type": "string", "description": "Where to go on, from an earlier answer."},
        ),
    ),
    (
        "read_resource",
        "Reads a resource of this MCP server.",
        function_schema(["uri"], uri={"type": "string", "description": "The resource's URI."}),
    ),
)


class Target(msgspec.Struct, frozen=True):
    """Whose tool a call is of. `seconds` may pass without a sign of life."""

    server: McpServer
    name: str
    seconds: float
    kind: str


class _Resource(msgspec.Struct):
    uri: str = ""
    cursor: str | None = None


_arguments = json.decoder(dict[str, Any])
_resource = json.decoder(_Resource)


class McpExecutor(ToolExecutor[Target]):
    policy = "parallel"

    def __init__(self, servers: McpServers) -> None:
        self._servers = servers

    async def execute(self, call: Call, params: Target, context: ExecutionContext) -> Outcome:
        try:
            if params.kind == RESOURCES:
                return await self._resources(call, params, images=context.images)
            arguments = _arguments((call.arguments or "{}").encode())
            result = await self._servers.pool.call(
                params.server,
                params.name,
                arguments,
                seconds=params.seconds,
                hard_limit=self._servers.options.max_seconds,
            )
        except McpError as e:
            return failed(e)
        except msgspec.DecodeError as e:
            told = f"The arguments are no JSON object: {e}."
            return Failed(message=told, code="invalid_arguments")
        return outcome_of(result, images=context.images)

    async def _resources(self, call: Call, params: Target, *, images: bool) -> Outcome:
        asked = _resource((call.arguments or "{}").encode())
        pool = self._servers.pool
        if params.name == "read_resource":
            content = await pool.read(params.server, asked.uri, params.seconds)
            return output_of(content, images=images)
        links, after = await pool.resources(params.server, asked.cursor, params.seconds)
        listed = output_of(links, images=False)
        if after is None or not isinstance(listed.output, str):
            return listed
        more = f"{listed.output}\n(there are more: cursor {after})"
        return Output(output=more, public=listed.public)

    def ask(self, call: Call, identity: Identity, params: Target) -> Question:
        return approval_request(call, identity)

    def project(
        self, writer: ItemWriter, call: Call, identity: Identity, params: Target
    ) -> Projection:
        return CallProjection(writer, call, params.server.label, params.name)
