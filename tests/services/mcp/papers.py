"""An MCP server about papers, with the SDK's own server side: `python -m tests.services.mcp.papers`.

Its argument is `stdio`, `http` or `sse`; over HTTP the first line says where it listens.
"""

import asyncio
import os
import socket
import sys

import uvicorn
from mcp.server.mcpserver import Context, Image, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations

server = MCPServer("papers")
PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de"
    "0000000c49444154789c636060600000000400015e00d3e60000000049454e44ae426082"
)


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def query_papers(topic: str) -> str:
    """Find papers about a topic."""
    return f"3 papers about {topic}"


@server.tool()
def insert_paper(title: str) -> dict[str, str]:
    """Add a paper."""
    return {"added": title}


@server.tool()
def fail(why: str) -> str:
    """Fail."""
    raise ToolError(why)


@server.tool()
def picture() -> Image:
    """A picture."""
    return Image(data=PIXEL, format="png")


@server.tool()
def big(size: int) -> str:
    """A long text."""
    return "x" * size


@server.tool()
def die() -> str:
    """End the server at once."""
    os._exit(3)


@server.tool()
async def slow(seconds: float, steps: int, context: Context) -> str:
    """Take some time, and tell of each step."""
    for step in range(steps):
        await asyncio.sleep(seconds / steps)
        await context.report_progress(step + 1, steps)
    return "slow, but done"


@server.tool()
async def silent(seconds: float) -> str:
    """Take some time, without a word."""
    await asyncio.sleep(seconds)
    return "done"


@server.tool()
def environment(name: str) -> str:
    """A variable of the server's environment."""
    return os.environ.get(name, "(not set)")


@server.resource("papers://index")
def index() -> str:
    """All papers."""
    return "one, two, three"


def main(how: str) -> None:
    if how == "stdio":
        server.run("stdio")
        return
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    listening.listen()
    app = server.sse_app() if how == "sse" else server.streamable_http_app()
    path = "sse" if how == "sse" else "mcp"
    print(f"http://127.0.0.1:{listening.getsockname()[1]}/{path}", flush=True)  # noqa: T201
    uvicorn.Server(uvicorn.Config(app, log_level="error")).run([listening])


if __name__ == "__main__":
    main(sys.argv[1])
