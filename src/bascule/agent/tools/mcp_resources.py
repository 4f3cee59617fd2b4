"""`list_mcp_resources` and `read_mcp_resource`: documents and data of MCP servers."""

import time
from collections.abc import Mapping
from typing import Any, ClassVar

import msgspec

from bascule.agent.calls import ToolKind, ToolName, ToolOutput
from bascule.agent.handler import (
    LocalHandler,
    ToolFault,
    ToolInvocation,
    ToolSpec,
    arguments,
    function,
    schema,
)
from bascule.agent.servers import Servers, ServerTools
from bascule.agent.tools.mcp import answered
from bascule.protocols import json
from bascule.services.mcp import McpError, McpResult

_SERVER = {"type": "string", "description": "The name of the MCP server."}


class ListArguments(msgspec.Struct):
    server: str | None = None
    cursor: str | None = None


class ReadArguments(msgspec.Struct):
    server: str
    uri: str


class _Resources(LocalHandler):
    parallel: ClassVar[bool] = True

    def __init__(self, servers: Servers, there: Mapping[str, ServerTools]) -> None:
        self._servers = servers
        self._there = there

    def kind(self) -> ToolKind:
        return ToolKind.FUNCTION

    def _server(self, label: str) -> ServerTools:
        """Raises ToolFault."""
        found = self._there.get(label)
        if found is None:
            known = ", ".join(self._there) or "none"
            raise ToolFault(f"there is no MCP server '{label}'; there are: {known}")
        return found


class ListMcpResources(_Resources):
    name = ToolName(None, "list_mcp_resources")

    def spec(self) -> ToolSpec:
        return function(
            "list_mcp_resources",
            "Lists the resources of the MCP servers, or of one of them.",
            schema(
                [],
                server=_SERVER,
                cursor={"type": "string", "description": "Where to go on, from an earlier answer."},
            ),
        )

    async def handle(self, invocation: ToolInvocation) -> ToolOutput:
        asked = arguments(invocation.payload, ListArguments)
        if asked.cursor is not None and asked.server is None:
            raise ToolFault("a cursor belongs to one server: name it")
        wanted = (
            list(self._there.values()) if asked.server is None else [self._server(asked.server)]
        )
        listed: list[dict[str, Any]] = []
        after: str | None = None
        for one in wanted:
            try:
                links, after = await self._servers.pool.resources(
                    one.server, asked.cursor, one.seconds
                )
            except McpError as e:
                if asked.server is not None:
                    raise ToolFault(f"The MCP server {one.section.label}: {e.message}") from None
                listed.append({"server": one.section.label, "error": e.message})
                continue
            listed += [
                {
                    "server": one.section.label,
                    "uri": link.uri,
                    "name": link.name,
                    "about": link.text,
                }
                for link in links
            ]
        answer: dict[str, Any] = {"resources": listed}
        if asked.server is not None and after is not None:
            answer["next_cursor"] = after
        return ToolOutput(content=json.encode(answer).decode())


class ReadMcpResource(_Resources):
    name = ToolName(None, "read_mcp_resource")

    def spec(self) -> ToolSpec:
        return function(
            "read_mcp_resource",
            "Reads a resource of an MCP server.",
            schema(
                ["server", "uri"],
                server=_SERVER,
                uri={"type": "string", "description": "The resource's URI."},
            ),
        )

    async def handle(self, invocation: ToolInvocation) -> ToolOutput:
        asked = arguments(invocation.payload, ReadArguments)
        one, began = self._server(asked.server), time.monotonic()
        try:
            content = await self._servers.pool.read(one.server, asked.uri, one.seconds)
        except McpError as e:
            raise ToolFault(f"The MCP server {one.section.label}: {e.message}") from None
        limit = invocation.session.settings.tools.max_output_tokens
        return answered(McpResult(content), time.monotonic() - began, limit)
