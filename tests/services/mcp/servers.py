"""MCP servers for tests, as processes of their own on loopback."""

import asyncio
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from bascule.services.egress import EgressPolicy, Guard
from bascule.services.mcp import McpPool, McpServer

ROOT = Path(__file__).parents[3]
LIMIT = 20.0
PAPERS = ("-m", "tests.services.mcp.papers")


def by_pipes(label: str = "papers", **more: object) -> McpServer:
    """The papers server, begun by the client."""
    settings: dict[str, object] = {
        "command": sys.executable,
        "args": (*PAPERS, "stdio"),
        "env": {"PYTHONPATH": str(ROOT)},
        "guarded": False,
        "shared": True,
        **more,
    }
    return McpServer(label=label, **settings)  # pyright: ignore[reportArgumentType]


@asynccontextmanager
async def listening(how: str = "http") -> AsyncGenerator[tuple[str, asyncio.subprocess.Process]]:
    """The papers server over HTTP: its URL, and the process."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, *PAPERS, how, cwd=ROOT, stdout=asyncio.subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        line = await asyncio.wait_for(process.stdout.readline(), LIMIT)
        yield line.decode().strip(), process
    finally:
        if process.returncode is None:
            process.kill()
        await asyncio.wait_for(process.wait(), LIMIT)


@asynccontextmanager
async def pooling(*, allow: bool = True, **settings: float) -> AsyncGenerator[McpPool]:
    hosts = frozenset({"127.0.0.1"}) if allow else frozenset[str]()
    pool = McpPool(Guard(EgressPolicy(hosts)), **settings)  # pyright: ignore[reportArgumentType]
    try:
        yield pool
    finally:
        await pool.aclose()
