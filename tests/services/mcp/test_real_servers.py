"""Servers that others have written, from npm, and one with a library of others' from PyPI."""

import asyncio
import socket
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bascule.services.mcp import McpError, McpPool, McpResult, McpServer
from tests.node import installed, search_path
from tests.services.mcp.servers import LIMIT, ROOT, pooling

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def programs() -> Path:
    """The folder of the programs."""
    return installed("mcp-servers").parent


def program(programs: Path, name: str, *arguments: str) -> McpServer:
    return McpServer(
        label=name,
        command=str(programs / f"mcp-server-{name}"),
        args=arguments,
        env={"PATH": search_path()},
        guarded=False,
    )


@asynccontextmanager
async def everything(programs: Path, how: str) -> AsyncGenerator[McpServer]:
    if how == "stdio":
        yield program(programs, "everything", "stdio")
        return
    port = free_port()
    command = [str(programs / "mcp-server-everything"), "streamableHttp"]
    environment = {"PATH": search_path(), "PORT": str(port), "HOST": "127.0.0.1"}
    async with over_http(port, command, environment):
        yield McpServer(label="everything", url=f"http://127.0.0.1:{port}/mcp")


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


@asynccontextmanager
async def over_http(
    port: int, command: list[str], environment: dict[str, str]
) -> AsyncGenerator[None]:
    """A server's process, once it listens."""
    process = await asyncio.create_subprocess_exec(
        *command,
        env=environment,
        cwd=ROOT,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with asyncio.timeout(LIMIT):
            while True:
                try:
                    _, writer = await asyncio.open_connection("127.0.0.1", port)
                except OSError:
                    await asyncio.sleep(0.05)
                else:
                    writer.close()
                    break
        yield
    finally:
        process.kill()
        await process.wait()


async def call(pool: McpPool, server: McpServer, name: str, /, **arguments: Any) -> McpResult:
    return await pool.call(server, name, arguments, seconds=LIMIT, hard_limit=LIMIT)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("how", ["stdio", "http"])
@pytest.mark.requirement("mcp:transports", "mcp:elicitation")
async def test_everything(programs: Path, how: str) -> None:
    async with everything(programs, how) as server, pooling() as pool:
        listing = await pool.tools(server)
        assert {"echo", "get-tiny-image", "trigger-elicitation-request"} <= {
            tool.name for tool in listing.tools
        }
        assert listing.resources
        echoed = await call(pool, server, "echo", message="bridge")
        assert "bridge" in (echoed.content[0].text or "")
        image = [c for c in (await call(pool, server, "get-tiny-image")).content if c.data]
        assert [(c.kind, c.mime_type) for c in image] == [("image", "image/png")]
        structured = await call(pool, server, "get-structured-content", location="Chicago")
        assert structured.structured is not None
        assert "temperature" in msgspec.json.decode(structured.structured)
        links = await call(pool, server, "get-resource-links", count=2)
        assert [c.kind for c in links.content].count("link") == 2
        reference = await call(
            pool, server, "get-resource-reference", resourceType="Text", resourceId=1
        )
        assert any(c.kind == "resource" and c.uri and c.text for c in reference.content)
        declined = await call(pool, server, "trigger-elicitation-request")
        assert "decline" in " ".join(c.text or "" for c in declined.content).lower()
        long = await pool.call(
            server,
            "trigger-long-running-operation",
            {"duration": 3, "steps": 12},
            seconds=1.5,
            hard_limit=LIMIT,
        )
        assert not long.is_error
        wrong = await call(pool, server, "get-sum", a="one")
        assert wrong.is_error
        try:
            refused = (await call(pool, server, "no-such-tool")).is_error
        except McpError as e:
            refused = e.type == "protocol_error"
        assert refused


@pytest.mark.timeout(300)
@pytest.mark.requirement("mcp:transports")
async def test_a_filesystem(programs: Path, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one")
    server = program(programs, "filesystem", str(tmp_path))
    async with pooling() as pool:
        tools = {tool.name: tool for tool in (await pool.tools(server)).tools}
        assert tools["read_text_file"].read_only
        assert not tools["write_file"].read_only
        path = str(tmp_path / "b.txt")
        await call(pool, server, "write_file", path=path, content="two")
        assert (tmp_path / "b.txt").read_text() == "two"
        read = await call(pool, server, "read_text_file", path=path)
        assert read.content[0].text == "two"
        outside = await call(pool, server, "read_text_file", path="/etc/passwd")
        assert outside.is_error


@asynccontextmanager
async def fast_notes(how: str) -> AsyncGenerator[McpServer]:
    command = (sys.executable, "-m", "tests.services.mcp.fast_notes")
    environment = {"PYTHONPATH": str(ROOT)}
    if how == "stdio":
        yield McpServer(
            label="notes",
            command=command[0],
            args=(*command[1:], "stdio"),
            env=environment,
            guarded=False,
        )
        return
    port = free_port()
    async with over_http(port, [*command, "http", str(port)], environment):
        yield McpServer(label="notes", url=f"http://127.0.0.1:{port}/mcp")


@pytest.mark.parametrize("how", ["stdio", "http"])
@pytest.mark.requirement("mcp:transports")
async def test_a_server_made_with_fastmcp(how: str) -> None:
    async with fast_notes(how) as server, pooling() as pool:
        listing = await pool.tools(server)
        assert [(tool.name, tool.read_only) for tool in listing.tools] == [
            ("read_note", True),
            ("count", False),
        ]
        assert listing.resources
        read = await call(pool, server, "read_note", title="two words")
        assert read.structured is not None
        assert msgspec.json.decode(read.structured) == {"title": "two words", "words": 2}
        missing = await call(pool, server, "read_note", title="missing")
        assert (missing.is_error, missing.content[0].text) == (True, "There is no such note.")
        assert (await call(pool, server, "count", to=3)).content[0].text == "3"
        wrong = await call(pool, server, "count", to="many")
        assert wrong.is_error
        content = await pool.read(server, "note://all", LIMIT)
        assert [c.text for c in content] == ["a, b"]
        content = await pool.read(server, "note://mine", LIMIT)
        assert [c.text for c in content] == ["the note mine"]
