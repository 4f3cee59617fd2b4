"""A turn with all three kinds of owners: the client's function, an MCP server's tool, a search."""

from typing import Any

import pytest

from bascule.testing import Call
from tests.services.mcp.servers import listening
from tests.serving import Answer
from tests.tools.mcp_gateway import CALL_EVENTS, LIST_EVENTS, types_of
from tests.tools.web_gateway import EVENTS, HITS, WEB, searched, web

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("tools:rounds:mixed")]

Json = dict[str, Any]

STREAM = pytest.mark.parametrize("stream", [True, False])
SHELL: Json = {
    "type": "function",
    "name": "run_shell",
    "parameters": {"type": "object", "properties": {"command": {"type": "string"}}},
}
MCP: Json = {"mcp": {"allow_hosts": ["127.0.0.1"]}}
ASK = Call("db__query_papers", {"topic": "bridges"}, id="call_2")
RUN = Call("run_shell", {"command": "ls"}, id="call_3")
DONE = "Three papers, and the web [cite:2] agrees."


def tools_of(url: str) -> list[Json]:
    server = {"type": "mcp", "server_label": "db", "server_url": url, "require_approval": "never"}
    return [SHELL, {**server, "allowed_tools": ["query_papers", "insert_paper"]}, WEB]


def order_of(answer: Answer, index: int) -> list[str]:
    events = [e for e in answer.events if e.get("output_index") == index]
    return [event["type"].removeprefix("response.") for event in events]


@STREAM
async def test_three_rounds_and_the_clients_turn(stream: bool) -> None:
    async with (
        listening() as (url, _),
        web(searched(query="bridges"), ASK, RUN, DONE, sections={"tools": MCP}) as made,
    ):
        tools = tools_of(url)
        first = await made.ask(stream=stream, tools=tools)
        assert types_of(first) == ["mcp_list_tools", "web_search_call", "mcp_call", "function_call"]
        assert first.response["status"] == "completed"
        # Each round is one request, and the client's call ends the turn: nothing more is asked.
        assert len(made.model.chats) == 3
        names = [tool["function"]["name"] for tool in made.model.chats[0].tools]
        assert names == ["run_shell", "db__query_papers", "db__insert_paper", "web_search"]
        call = first.response["output"][-1]
        assert (call["name"], call["arguments"], call["call_id"]) == (
            "run_shell",
            '{"command":"ls"}',
            "call_3",
        )
        if stream:
            assert order_of(first, 0) == LIST_EVENTS
            assert order_of(first, 1) == EVENTS
            assert order_of(first, 2) == CALL_EVENTS

        answered = {"type": "function_call_output", "call_id": "call_3", "output": "a.txt"}
        second = await made.ask(
            stream=stream,
            tools=tools,
            previous_response_id=first.response["id"],
            input=[answered],
        )
        assert types_of(second) == ["message"]
        [part] = second.response["output"][0]["content"]
        assert part["text"] == "Three papers, and the web agrees."
        assert [a["url"] for a in part["annotations"]] == [HITS[1].url]
        messages = made.model.chats[-1].messages
        assert messages[: len(made.model.chats[2].messages)] == made.model.chats[2].messages
        results = [m["content"] for m in messages if m["role"] == "tool"]
        assert HITS[0].title in results[0]
        assert results[1:] == ["3 papers about bridges", "a.txt"]


@STREAM
async def test_one_round_with_all_three(stream: bool) -> None:
    """The gateway's own run, the client's goes out, and no further round is needed."""
    async with (
        listening() as (url, _),
        web([searched(query="bridges"), RUN, ASK], "x", sections={"tools": MCP}) as made,
    ):
        answer = await made.ask(stream=stream, tools=tools_of(url))
        assert types_of(answer) == [
            "mcp_list_tools",
            "web_search_call",
            "function_call",
            "mcp_call",
        ]
        assert len(made.model.chats) == 1
        answered = {"type": "function_call_output", "call_id": "call_3", "output": "a.txt"}
        before = answer.response["id"]
        await made.ask(tools=tools_of(url), previous_response_id=before, input=[answered])
        messages = made.model.chats[-1].messages
        made_calls = [c["id"] for m in messages for c in m.get("tool_calls") or ()]
        results = [m["tool_call_id"] for m in messages if m["role"] == "tool"]
        assert made_calls == ["call_1", "call_3", "call_2"]
        assert sorted(results) == ["call_1", "call_2", "call_3"]
