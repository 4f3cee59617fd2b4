"""A gateway in front of the papers server, for tests of MCP tools."""

import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from bascule.testing import Call, ModelServer, Reply
from tests.services.mcp.servers import PAPERS, ROOT, listening
from tests.serving import Answer, Api, serving

Json = dict[str, Any]

MCP: Json = {"allow_hosts": ["127.0.0.1"]}
LOCAL: Json = {"tools": {"mcp": MCP}}
CONFIGURED: Json = {
    "label": "papers",
    "command": sys.executable,
    "args": [*PAPERS, "stdio"],
    "env": {"PYTHONPATH": str(ROOT)},
}
LIST_EVENTS = [
    "output_item.added",
    "mcp_list_tools.in_progress",
    "mcp_list_tools.completed",
    "output_item.done",
]
CALL_EVENTS = [
    "output_item.added",
    "mcp_call.in_progress",
    "mcp_call_arguments.delta",
    "mcp_call_arguments.done",
    "mcp_call.completed",
    "output_item.done",
]


def query(topic: str = "bridges", id_: str = "call_1") -> Reply:
    return Reply(Call("papers__query_papers", {"topic": topic}, id=id_))


@asynccontextmanager
async def in_front_of(
    replies: Any, **sections: Any
) -> AsyncGenerator[tuple[Api, ModelServer, Json]]:
    """A gateway, the model's server, and a declaration of the papers server."""
    async with (
        listening() as (url, _),
        ModelServer(replies) as model,
        serving(model.url, **{**LOCAL, **sections}) as api,
    ):
        declaration = {
            "type": "mcp",
            "server_label": "papers",
            "server_url": url,
            "require_approval": "never",
        }
        yield api, model, declaration


def types_of(answer: Answer) -> list[str]:
    return [item["type"] for item in answer.response["output"]]


def only(answer: Answer, type_: str) -> Json:
    [item] = [item for item in answer.response["output"] if item["type"] == type_]
    return item


def pool_of(api: Api) -> Any:
    handler: Any = api.engine.handlers.for_type("mcp")
    return handler._servers.pool


def outputs(model: ModelServer, turn: int) -> list[str]:
    """What tools said to the model."""
    messages = model.chats[turn].json["messages"]
    return [message["content"] for message in messages if message["role"] == "tool"]
