"""Tools and resources of MCP servers, through dispatch: by pipes and over HTTP."""

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from bascule.agent.approvals.ask import Question, Reply
from bascule.agent.calls import ToolName
from bascule.agent.events import Warned
from bascule.config import McpServerSection, Secret
from tests.agent.world import Json, World, function, world
from tests.clients import notes_server
from tests.services.mcp.scripted import Scripted, scripted, tool
from tests.services.mcp.servers import ROOT, listening

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]

FAST = McpServerSection(
    label="fast-notes",
    command=sys.executable,
    args=("-m", "tests.services.mcp.fast_notes", "stdio"),
    env={"PYTHONPATH": Secret(str(ROOT))},
)


def many(count: int, label: str = "notes") -> McpServerSection:
    return McpServerSection(
        label=label, command=sys.executable, args=(str(notes_server.__file__), str(count))
    )


def names(it: World) -> list[str]:
    specs = [spec.declaration for spec in it.session.registry.iter_specs()]
    return [spec.get("name") or spec["type"] for spec in specs]


async def call(it: World, tool: str, arguments: Any, space: str = "mcp__fast_notes") -> Any:
    [output] = await it.call(function(tool, arguments, namespace=space))
    return output["output"]


@pytest.mark.requirement("agent:mcp:stdio")
async def test_a_server_behind_pipes(tmp_path: Path) -> None:
    async with world(tmp_path, servers=[FAST]) as it:
        assert {"mcp__fast_notes", "list_mcp_resources", "read_mcp_resource"} <= set(names(it))
        [space] = [
            s.declaration
            for s in it.session.registry.iter_specs()
            if s.declaration["type"] == "namespace"
        ]
        assert {t["name"] for t in space["tools"]} == {"read_note", "count"}
        assert all(
            set(t["parameters"]) <= {"type", "properties", "required", "$defs"}
            for t in space["tools"]
        )
        said = await call(it, "read_note", {"title": "to do"})
        head, output, body = said.split("\n", 2)
        assert head.startswith("Wall time: ")
        assert output == "Output:"
        assert body == '{"title":"to do","words":2}'
        assert "There is no such note." in await call(it, "read_note", {"title": "missing"})
        assert "validation" in (await call(it, "read_note", {"other": 1})).lower()
        assert "failed to parse function arguments" in await call(it, "read_note", "{")
        handlers = it.session.registry.handlers
        assert handlers[ToolName("mcp__fast_notes", "read_note")].parallel
        assert not handlers[ToolName("mcp__fast_notes", "count")].parallel


@pytest.mark.requirement("agent:mcp:resources")
async def test_resources(tmp_path: Path) -> None:
    async with world(tmp_path, servers=[FAST]) as it:
        listed = await it.run("list_mcp_resources")
        assert '"server":"fast-notes","uri":"note://all"' in listed
        assert "a, b" in await it.run(
            "read_mcp_resource", {"server": "fast-notes", "uri": "note://all"}
        )
        wrong = await it.run("read_mcp_resource", {"server": "fast-notes", "uri": "note:"})
        assert wrong.startswith("The MCP server fast-notes: ")
        unknown = await it.run("list_mcp_resources", {"server": "other"})
        assert unknown == "there is no MCP server 'other'; there are: fast-notes"


@pytest.mark.requirement("agent:mcp:http")
async def test_a_server_over_http(tmp_path: Path) -> None:
    async with listening() as (url, _):
        section = McpServerSection(label="papers", url=url)
        async with world(tmp_path, servers=[section]) as it:
            assert "mcp__papers" in names(it)
            said = await call(it, "insert_paper", {"title": "On bridges"}, "mcp__papers")
            assert "On bridges" in said


@pytest.mark.requirement("agent:mcp:approvals")
async def test_what_needs_an_approval_is_asked_about(tmp_path: Path) -> None:
    asked: list[Question] = []

    async def approver(question: Question) -> Reply:
        asked.append(question)
        return Reply("session" if len(asked) > 1 else "no")

    section = McpServerSection(
        label="fast-notes",
        command=FAST.command,
        args=FAST.args,
        env=FAST.env,
        require_approval="always",
    )
    async with world(tmp_path, servers=[section], approval="on-request", approver=approver) as it:
        refused = await call(it, "count", {"to": 2})
        assert refused == "The user did not approve this call."
        assert asked[0].action.shown == 'fast-notes.count({"to":2})'
        for _ in range(2):
            assert "Output:\n" in await call(it, "count", {"to": 2})
        assert len(asked) == 2
    async with world(tmp_path, servers=[section], approval="never") as it:
        assert "needs an approval, and nobody can be asked" in await call(it, "count", {"to": 2})


@pytest.mark.requirement("agent:mcp:dies")
async def test_a_server_that_dies_is_told_and_begun_again(tmp_path: Path) -> None:
    async with world(tmp_path, servers=[many(1)]) as it:
        assert "note ad" in await call(it, "read_note", {"title": "da"}, "mcp__notes")
        pids = await asyncio.to_thread(_pids, str(notes_server.__file__))
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        outputs = [await call(it, "read_note", {"title": "da"}, "mcp__notes") for _ in range(2)]
        assert outputs[0].startswith("The MCP server notes: ") or "note ad" in outputs[0]
        assert "note ad" in outputs[1]


def _pids(wanted: str) -> list[int]:
    found: list[int] = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if wanted.encode() in path.read_bytes():
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found


async def test_a_server_that_is_not_there_is_missing_and_told(tmp_path: Path) -> None:
    gone = McpServerSection(label="gone", command="/no/such/program")
    async with world(tmp_path, servers=[gone, many(1)]) as it:
        [warning] = it.of(Warned)
        assert warning.message.startswith("The MCP server gone cannot be used: ")
        assert "mcp__notes" in names(it)


@pytest.mark.requirement("agent:mcp:deferred")
async def test_many_tools_are_searched_for(tmp_path: Path) -> None:
    async with world(tmp_path, servers=[many(60)], tools={"defer_above": 50}) as it:
        assert "tool_search" in names(it)
        assert "mcp__notes" not in names(it)
        search: Json = {
            "type": "tool_search_call",
            "execution": "client",
            "call_id": "call_1",
            "id": "t",
        }
        [output] = await it.call({**search, "arguments": {"query": "do_nothing_47", "limit": 1}})
        [space] = output["tools"]
        assert (space["name"], [t["name"] for t in space["tools"]]) == (
            "mcp__notes",
            ["do_nothing_47"],
        )
        assert "note " in await call(it, "do_nothing_47", {"title": "x"}, "mcp__notes")


@pytest.mark.requirement("agent:mcp:flat")
async def test_an_endpoint_without_namespaces_is_told_of_functions(tmp_path: Path) -> None:
    tools = {"namespaces": False, "defer_above": 2}
    async with world(tmp_path, servers=[many(4)], tools=tools) as it:
        own = [name for name in names(it) if name.startswith("mcp__")]
        assert own == [
            "mcp__notes__read_note",
            *(f"mcp__notes__do_nothing_{n}" for n in range(1, 4)),
        ]
        assert "tool_search" not in names(it)
        assert {s.declaration["type"] for s in it.session.registry.iter_specs()} == {
            "function",
            "custom",
        }
        assert "note ad" in await it.run("mcp__notes__read_note", {"title": "da"})


async def test_names_that_are_not_legal_are_made_so(tmp_path: Path) -> None:
    tools = [tool("get.user"), tool("get-user"), tool("\u00fcber")]
    async with scripted(Scripted(*tools)) as server:
        sections = [
            McpServerSection(label="my.server", url=server.url),
            McpServerSection(label="my-server", url=server.url),
        ]
        async with world(tmp_path, servers=sections) as it:
            own = [str(n) for n in it.session.registry.handlers if n.namespace]
            assert own == [
                "mcp__my_server.get_user", "mcp__my_server.get_user_2", "mcp__my_server._ber",
                "mcp__my_server.get_user_3", "mcp__my_server.get_user_4", "mcp__my_server._ber_2",
            ]  # fmt: skip
            assert "Output:" in await call(it, "get_user_2", {}, "mcp__my_server")
