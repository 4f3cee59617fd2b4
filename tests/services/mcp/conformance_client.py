"""The gateway's MCP client as the conformance suite drives it: its last argument is the server's URL.

It connects, lists the tools and calls each of them; credentials are those that the suite gives.
"""

import asyncio
import os
import sys
from typing import Any

import msgspec

from bascule.config import Secret
from bascule.services.egress import EgressPolicy, Guard
from bascule.services.mcp import ClientCredentials, McpPool, McpServer, McpTool


def arguments(tool: McpTool) -> dict[str, Any]:
    """Something for each parameter that is required."""
    schema = msgspec.json.decode(tool.input_schema)
    values = {"number": 2, "integer": 2, "boolean": True}
    members = schema.get("properties", {})
    return {
        name: values.get(members.get(name, {}).get("type"), "text")
        for name in schema.get("required", ())
    }


def credentials() -> ClientCredentials | None:
    given = msgspec.json.decode(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))
    if "client_secret" not in given:
        return None
    return ClientCredentials(
        given["client_id"], Secret(given["client_secret"]), given.get("issuer")
    )


async def main(url: str) -> None:
    pool = McpPool(Guard(EgressPolicy()))
    server = McpServer(label="conformance", url=url, oauth=credentials(), guarded=False)
    try:
        listing = await pool.tools(server)
        for tool in listing.tools:
            await pool.call(server, tool.name, arguments(tool), seconds=20, hard_limit=20)
    finally:
        await pool.aclose()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[-1]))
