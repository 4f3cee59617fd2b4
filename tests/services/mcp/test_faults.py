"""Servers that do not do as the protocol says."""

import asyncio
from typing import Any

import pytest
from starlette.responses import Response

from bascule.services.mcp import Content, McpError, McpServer
from tests.services.mcp.scripted import Scripted, scripted, tool
from tests.services.mcp.servers import LIMIT, pooling

pytestmark = pytest.mark.anyio

Json = dict[str, Any]


def of(server: Scripted, **more: Any) -> McpServer:
    return McpServer(label="scripted", url=server.url, **more)


@pytest.mark.requirement("mcp:list:pages")
async def test_all_pages() -> None:
    def page(params: Json) -> Json:
        at = int(params.get("cursor", 0))
        tools = [tool(f"t{at}_{i}") for i in range(100)]
        return {"tools": tools} | ({"nextCursor": str(at + 1)} if at < 2 else {})

    async with scripted(Scripted(tools_list=page)) as server, pooling() as pool:
        listing = await pool.tools(of(server))
        again = await pool.tools(of(server))
    assert len(listing.tools) == 300
    assert again == listing
    assert server.asked.count("tools/list") == 3


@pytest.mark.requirement("mcp:list:pages")
@pytest.mark.parametrize(
    ("after", "count", "told"),
    [
        (lambda _: "same", 1, "in a circle"),
        (lambda at: f"{at}x", 1, "more than 50 pages"),
        (lambda at: f"{at}x", 300, "more than 2000 tools"),
    ],
)
async def test_a_list_without_an_end(after: Any, count: int, told: str) -> None:
    def page(params: Json) -> Json:
        tools = [tool(f"t{i}") for i in range(count)]
        return {"tools": tools, "nextCursor": after(params.get("cursor", ""))}

    async with scripted(Scripted(tools_list=page)) as server, pooling() as pool:
        with pytest.raises(McpError, match=told):
            await pool.tools(of(server))
    assert len(server.asked) <= 55


@pytest.mark.requirement("mcp:results:unknown")
async def test_content_of_an_unknown_type_is_carried() -> None:
    content = [{"type": "text", "text": "a"}, {"type": "hologram", "beams": [1, 2]}]
    call = {"content": content, "later": {"field": 1}}
    async with (
        scripted(Scripted(tool("t"), tools_call=lambda _: call)) as server,
        pooling() as pool,
    ):
        result = await pool.call(of(server), "t", {}, seconds=LIMIT, hard_limit=LIMIT)
    assert result.content == [
        Content("text", text="a"),
        Content("json", text='{"type":"hologram","beams":[1,2]}'),
    ]


@pytest.mark.requirement("mcp:errors")
@pytest.mark.parametrize(
    ("answer", "type_", "code", "told"),
    [
        (Response(status_code=503), "http_error", 503, "HTTP status 503"),
        (Response(status_code=401), "http_error", 401, "HTTP status 401"),
        (Response("<html>", media_type="text/html"), "protocol_error", None, "content type"),
        (Response("{", media_type="application/json"), "protocol_error", None, "parse"),
        ({"content": "none"}, "protocol_error", None, "not what the protocol says"),
        (None, "protocol_error", -32601, "Method not found"),
    ],
)
async def test_a_call_that_goes_wrong(answer: Any, type_: str, code: int | None, told: str) -> None:
    wrong_server = Scripted(tool("t"), tools_call=lambda _: answer)
    async with scripted(wrong_server) as server, pooling() as pool:
        with pytest.raises(McpError) as wrong:
            await pool.call(of(server), "t", {}, seconds=LIMIT, hard_limit=LIMIT)
        del server.methods["tools_call"]
        again = await pool.call(of(server), "t", {}, seconds=LIMIT, hard_limit=LIMIT)
    shown = wrong.value.shown()
    assert shown["type"] == type_
    assert told in shown["message"]
    assert "127.0.0.1" not in shown["message"]
    if code is not None:
        assert shown["code"] == code
    assert again.content == [Content("text", text="done")]


@pytest.mark.requirement("mcp:unreachable")
async def test_a_server_that_hangs_at_the_start() -> None:
    async def hang(_: Json) -> Json:
        await asyncio.Event().wait()
        return {}

    hanging = Scripted(initialize=hang, server_discover=hang)
    async with scripted(hanging) as server, pooling() as pool:
        with pytest.raises(McpError, match=r"did not answer in 0\.3 s"):
            await pool.tools(of(server, connect_timeout=0.3))


@pytest.mark.requirement("mcp:reconnect")
async def test_a_session_that_is_gone_begins_anew() -> None:
    """The server has not looked at the call: it is made again."""
    gone = [True]

    def call(_: Json) -> Json | Response:
        if gone:
            gone.pop()
            return Response(status_code=404)
        return {"content": [{"type": "text", "text": "done"}]}

    server = Scripted(tool("t"), session="one", tools_call=call)
    async with scripted(server), pooling() as pool:
        await pool.tools(of(server))
        result = await pool.call(of(server), "t", {}, seconds=LIMIT, hard_limit=LIMIT)
        assert [h.connects for h in pool.health()] == [2]
    assert result.content == [Content("text", text="done")]


@pytest.mark.requirement("mcp:errors")
@pytest.mark.parametrize("status", [404, 503])
async def test_an_error_is_that_of_its_own_call(status: int) -> None:
    """Of two calls at once the server refuses one over HTTP, and answers the other with an error of the
    protocol, which must not be made again."""
    refused = asyncio.Event()
    asked: list[str] = []

    async def call(params: Json) -> Json | Response | None:
        asked.append(params["name"])
        if params["name"] == "refused":
            refused.set()
            return Response(status_code=status)
        await refused.wait()
        return None

    async with scripted(Scripted(tools_call=call)) as server, pooling() as pool:
        await pool.tools(of(server))
        own, other = await asyncio.gather(
            *(
                pool.call(of(server), name, {}, seconds=LIMIT, hard_limit=LIMIT)
                for name in ("answered", "refused")
            ),
            return_exceptions=True,
        )
    assert isinstance(own, McpError)
    assert isinstance(other, McpError)
    assert (own.type, own.code) == ("protocol_error", -32601)
    assert (other.type, other.code) == ("http_error", status)
    assert asked.count("answered") == 1


@pytest.mark.requirement("mcp:errors")
async def test_an_error_of_the_protocol_that_came_with_an_http_status() -> None:
    body = '{"jsonrpc":"2.0","id":null,"error":{"code":-32602,"message":"Unknown tool"}}'
    answer = Response(body, 404, media_type="application/json")
    server = Scripted(tool("t"), tools_call=lambda _: answer)
    async with scripted(server), pooling() as pool:
        with pytest.raises(McpError, match="Unknown tool") as wrong:
            await pool.call(of(server), "t", {}, seconds=LIMIT, hard_limit=LIMIT)
    assert (wrong.value.type, wrong.value.code) == ("protocol_error", -32602)
    assert server.asked.count("tools/call") == 1
