"""The pool in front of real servers."""

import asyncio
import os
import signal
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bascule.services.mcp import Content, McpError, McpPool, McpResult, McpServer
from tests.services.mcp.servers import LIMIT, by_pipes, listening, pooling


@asynccontextmanager
async def reached(how: str) -> AsyncGenerator[McpServer]:
    if how == "stdio":
        yield by_pipes()
        return
    async with listening(how) as (url, _):
        yield McpServer(label="papers", url=url)


async def call(pool: McpPool, server: McpServer, name: str, /, **arguments: Any) -> McpResult:
    return await pool.call(server, name, arguments, seconds=LIMIT, hard_limit=LIMIT)


@pytest.mark.anyio
@pytest.mark.parametrize("how", ["stdio", "http", "sse"])
@pytest.mark.requirement("mcp:transports")
async def test_each_transport(how: str) -> None:
    async with reached(how) as server, pooling() as pool:
        listing = await pool.tools(server)
        tools = {tool.name: tool for tool in listing.tools}
        assert tools["query_papers"].read_only
        assert not tools["insert_paper"].read_only
        assert tools["query_papers"].description == "Find papers about a topic."
        schema = msgspec.json.decode(tools["query_papers"].input_schema)
        assert schema["required"] == ["topic"]
        assert listing.resources

        result = await call(pool, server, "query_papers", topic="bridges")
        assert result.content == [Content("text", text="3 papers about bridges")]
        failed = await call(pool, server, "fail", why="no reason")
        assert failed.is_error
        assert "no reason" in (failed.content[0].text or "")
        added = await call(pool, server, "insert_paper", title="On bascules")
        assert added.structured is not None
        assert msgspec.json.decode(added.structured) == {"added": "On bascules"}
        [picture] = (await call(pool, server, "picture")).content
        assert (picture.kind, picture.mime_type) == ("image", "image/png")

        links, after = await pool.resources(server, None, LIMIT)
        assert [link.uri for link in links] == ["papers://index"]
        assert after is None
        [index] = await pool.read(server, "papers://index", LIMIT)
        assert index.text == "one, two, three"
        assert [h.connects for h in pool.health()] == [1]


@pytest.mark.anyio
@pytest.mark.requirement("mcp:progress")
async def test_progress_keeps_a_call_alive_within_its_limit() -> None:
    async with reached("stdio") as server, pooling() as pool:
        await pool.tools(server)
        arguments = {"seconds": 2.4, "steps": 24}
        result = await pool.call(server, "slow", arguments, seconds=1.2, hard_limit=LIMIT)
        assert result.content == [Content("text", text="slow, but done")]
        with pytest.raises(McpError, match=r"did not end the call in 0\.4 s"):
            await pool.call(server, "slow", arguments, seconds=5, hard_limit=0.4)
        with pytest.raises(McpError, match=r"did not answer in 0\.2 s"):
            await pool.call(server, "silent", {"seconds": 5}, seconds=0.2, hard_limit=LIMIT)
        # The connection is as good as before.
        assert await call(pool, server, "query_papers", topic="a")
        assert [h.connects for h in pool.health()] == [1]


@pytest.mark.anyio
@pytest.mark.requirement("mcp:cancellation")
async def test_a_cancelled_call_leaves_the_connection_usable() -> None:
    async with reached("http") as server, pooling() as pool:
        await pool.tools(server)
        calling = asyncio.create_task(call(pool, server, "silent", seconds=30))
        others = [
            asyncio.create_task(call(pool, server, "query_papers", topic=str(i))) for i in "ab"
        ]
        await asyncio.wait(others, timeout=LIMIT)
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
        assert [task.result().is_error for task in others] == [False, False]
        assert not (await call(pool, server, "query_papers", topic="c")).is_error
        assert [h.connects for h in pool.health()] == [1]


@pytest.mark.anyio
@pytest.mark.parametrize("how", ["stdio", "http"])
@pytest.mark.requirement("mcp:reconnect")
async def test_a_server_that_dies_fails_its_calls(how: str) -> None:
    async with reached(how) as server, pooling() as pool:
        others = set(_children())
        waiting = asyncio.create_task(call(pool, server, "silent", seconds=30))
        await pool.tools(server)
        with pytest.raises(McpError) as died:
            await call(pool, server, "die")
        with pytest.raises(McpError):
            await asyncio.wait_for(waiting, LIMIT)
        assert died.value.type == "protocol_error"
        if how == "stdio":  # it begins anew, and after a death that nobody saw, too
            assert not (await call(pool, server, "query_papers", topic="again")).is_error
            [child] = set(_children()) - others
            os.kill(int(child), signal.SIGKILL)
            await _until(lambda: [h.state for h in pool.health()] == ["closed"])
            assert not (await call(pool, server, "query_papers", topic="again")).is_error
            assert [h.connects for h in pool.health()] == [3]
        else:
            with pytest.raises(McpError) as gone:
                await call(pool, server, "query_papers", topic="again")
            assert gone.value.code == "unreachable"
            assert "127.0.0.1" not in gone.value.message


@pytest.mark.anyio
@pytest.mark.requirement("mcp:result-size")
async def test_a_result_that_is_too_large() -> None:
    async with reached("http") as server, pooling(max_result_bytes=100_000) as pool:
        with pytest.raises(McpError) as large:
            await call(pool, server, "big", size=10_000_000)
        assert large.value.code == "too_large"
        assert not (await call(pool, server, "query_papers", topic="c")).is_error


@pytest.mark.anyio
@pytest.mark.requirement("mcp:pool")
async def test_idle_connections_are_closed_and_places_are_limited() -> None:
    async with pooling(max_connections=1, idle_seconds=0.2) as pool:
        first, second = by_pipes(env={**by_pipes().env, "N": "1"}), by_pipes()
        assert (await call(pool, first, "environment", name="N")).content[0].text == "1"
        assert (await call(pool, second, "environment", name="N")).content[0].text == "(not set)"
        assert len(pool.health()) == 1
        busy = asyncio.create_task(call(pool, second, "silent", seconds=1.5))
        await asyncio.sleep(0.05)
        with pytest.raises(McpError, match="too many connections"):
            await call(pool, first, "environment", name="N")
        assert not (await busy).is_error
        await _until(lambda: [h.state for h in pool.health()] == ["closed"])


async def _until(true: Any) -> None:
    end = time.monotonic() + LIMIT
    while not true():
        assert time.monotonic() < end
        await asyncio.sleep(0.02)


@pytest.mark.anyio
@pytest.mark.requirement("mcp:identity")
async def test_credentials_and_owners_have_connections_of_their_own() -> None:
    async with listening() as (url, _), pooling() as pool:
        servers = [
            McpServer(label="a", url=url, headers={"authorization": "Bearer sesame"}),
            McpServer(label="a", url=url, headers={"authorization": "Bearer two"}),
            McpServer(label="a", url=url, owner="somebody"),
        ]
        for server in servers:
            await pool.tools(server)
        assert len(pool.health()) == 3
        assert "sesame" not in repr([msgspec.to_builtins(h) for h in pool.health()])


@pytest.mark.anyio
@pytest.mark.requirement("mcp:unreachable")
async def test_servers_that_cannot_be_reached() -> None:
    others = set(_children())
    async with pooling() as pool, pooling(allow=False) as strict:
        refused = McpServer(label="a", url="http://127.0.0.1:1/mcp")
        with pytest.raises(McpError, match="cannot be reached"):
            await pool.tools(refused)
        with pytest.raises(McpError, match="may not connect to") as blocked:
            await strict.tools(refused)
        assert blocked.value.code == "egress_blocked"
        with pytest.raises(McpError):
            await pool.tools(McpServer(label="b", command="/no/such/program", guarded=False))
        hanging = McpServer(
            label="c",
            command="sleep",
            args=("60",),
            guarded=False,
            shared=True,
            connect_timeout=0.3,
        )
        with pytest.raises(McpError, match=r"did not answer in 0\.3 s"):
            await pool.tools(hanging)
        # One that the operator has configured is left alone for a while.
        before = time.monotonic()
        with pytest.raises(McpError, match=r"did not answer in 0\.3 s"):
            await pool.tools(hanging)
        assert time.monotonic() - before < 0.2
    assert set(_children()) <= others


def _children() -> list[str]:
    with Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").open() as f:
        return f.read().split()
