"""An MCP server that says what a test wants it to, right or wrong: JSON-RPC over plain HTTP."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

Json = dict[str, Any]
Answer = Json | Response | None
"""None: the method is not known."""
Method = Callable[[Json], Answer | Awaitable[Answer]]

LIMIT = 10.0


def tool(name: str, **more: Any) -> Json:
    return {"name": name, "inputSchema": {"type": "object"}, **more}


class Scripted:
    """`tools/list` gives `tools` and `tools/call` a text, unless `methods` say otherwise: a result, or
    a whole HTTP answer. `asked` holds the methods that came."""

    def __init__(self, *tools: Json, session: str = "", **methods: Method) -> None:
        """`session` is the id that it gives to who connects."""
        self._headers = {"mcp-session-id": session} if session else {}
        self.tools = list(tools)
        self.methods = methods
        self.asked: list[str] = []
        self.url = ""

    async def serve(self, request: Request) -> Response:
        if request.method != "POST":
            return Response(status_code=405)
        message: Json = msgspec.json.decode(await request.body())
        method = message["method"]
        if "id" not in message:
            return Response(status_code=202)
        self.asked.append(method)
        own = self.methods.get(method.replace("/", "_"))
        result: Any = self._result(method) if own is None else own(message.get("params") or {})
        if asyncio.iscoroutine(result):
            result = await result
        if isinstance(result, Response):
            return result
        if result is None:
            error = {"code": -32601, "message": "Method not found"}
            return _json({"jsonrpc": "2.0", "id": message["id"], "error": error})
        answer = _json({"jsonrpc": "2.0", "id": message["id"], "result": result})
        answer.headers.update(self._headers)
        return answer

    def _result(self, method: str) -> Json | None:
        if method == "initialize":
            return {
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "scripted", "version": "1"},
            }
        if method == "tools/list":
            return {"tools": self.tools}
        if method == "tools/call":
            return {"content": [{"type": "text", "text": "done"}]}
        return None


def _json(data: Any) -> Response:
    return Response(msgspec.json.encode(data), media_type="application/json")


@asynccontextmanager
async def scripted(server: Scripted) -> AsyncGenerator[Scripted]:
    """The server on loopback; `server.url` says where."""
    app = Starlette(routes=[Route("/mcp", server.serve, methods=["GET", "POST", "DELETE"])])
    web = uvicorn.Server(uvicorn.Config(app, port=0, log_config=None, lifespan="off"))
    serving = asyncio.create_task(web.serve())
    try:
        async with asyncio.timeout(LIMIT):
            while not web.started:
                await asyncio.sleep(0.01)
        port = web.servers[0].sockets[0].getsockname()[1]
        server.url = f"http://127.0.0.1:{port}/mcp"
        yield server
    finally:
        web.should_exit = True
        web.force_exit = True
        await asyncio.wait_for(serving, LIMIT)
