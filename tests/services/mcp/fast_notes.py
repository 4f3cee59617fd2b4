"""An MCP server made with FastMCP: `python -m tests.services.mcp.fast_notes stdio`, or `http PORT`."""

import sys
from dataclasses import dataclass
from typing import Annotated

from fastmcp import Context, FastMCP
from fastmcp.exceptions import ToolError
from pydantic import Field

server: FastMCP[None] = FastMCP("notes")


@dataclass
class Note:
    title: str
    words: int


@server.tool(annotations={"readOnlyHint": True})
def read_note(title: Annotated[str, Field(description="Of the note")]) -> Note:
    """Read a note."""
    if title == "missing":
        raise ToolError("There is no such note.")
    return Note(title, len(title.split()))


@server.tool
async def count(to: int, context: Context) -> int:
    """Count, and tell of each number."""
    for number in range(to):
        await context.report_progress(number + 1, to)
    return to


@server.resource("note://{title}")
def note(title: str) -> str:
    return f"the note {title}"


@server.resource("note://all")
def notes() -> str:
    return "a, b"


if __name__ == "__main__":
    if sys.argv[1] == "stdio":
        server.run("stdio", show_banner=False)
    else:
        server.run("http", host="127.0.0.1", port=int(sys.argv[2]), show_banner=False)
