"""What an MCP call costs beyond the SDK's own work: CPU of a pooled call over loopback beside the bare
client's, the server in a process of its own. Run it as `python bench/mcp_calls.py`."""

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from mcp.client.client import Client  # noqa: E402
from tests.services.mcp.servers import listening, pooling  # noqa: E402

from bascule.services.mcp import McpServer  # noqa: E402

CALLS = 300
ROUNDS = 3


async def cpu(call: Callable[[], Awaitable[object]]) -> float:
    """Microseconds of CPU of a call, the best of some rounds."""
    best = float("inf")
    for _ in range(ROUNDS):
        begun = time.process_time()
        for _ in range(CALLS):
            await call()
        best = min(best, (time.process_time() - begun) / CALLS * 1e6)
    return best


async def main() -> None:
    arguments = {"topic": "bridges"}
    async with listening() as (url, _), pooling() as pool:
        async with Client(url, cache=None) as client:
            await client.list_tools()
            bare = await cpu(lambda: client.call_tool("query_papers", arguments))
        server = McpServer(label="papers", url=url)
        await pool.tools(server)
        pooled = await cpu(
            lambda: pool.call(server, "query_papers", arguments, seconds=60, hard_limit=600)
        )
    print("| | CPU of a call |")
    print("|---|---|")
    print(f"| the SDK's client | {bare:.0f} µs |")
    print(f"| the pool | {pooled:.0f} µs |")
    print(f"| more | {pooled - bare:.0f} µs, {pooled / bare:.2f} times |")


if __name__ == "__main__":
    asyncio.run(main())
