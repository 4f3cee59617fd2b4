"""Servers of the Model Context Protocol, as a client of theirs."""

from bascule.services.mcp.content import Content, McpResult, McpTool
from bascule.services.mcp.errors import McpError
from bascule.services.mcp.pool import Listing, McpPool
from bascule.services.mcp.server import ClientCredentials, McpServer

__all__ = [
    "ClientCredentials",
    "Content",
    "Listing",
    "McpError",
    "McpPool",
    "McpResult",
    "McpServer",
    "McpTool",
]
