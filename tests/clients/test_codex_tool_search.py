"""Codex with hundreds of tools: it searches for them, or brings them along in the middle of its history."""

import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bascule.gateway.routes import create
from bascule.testing import Answer as Scripted
from bascule.testing import Call, ModelServer, Reply, Request, Text, Usage, responded
from tests.clients import notes_server
from tests.clients.codex import Codex, Run
from tests.engine.test_responses_upstream import call as function_call
from tests.engine.test_responses_upstream import message
from tests.node import installed
from tests.serving import Api, serving

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300)]

Json = dict[str, Any]

SEARCHES = "gpt-5.5"
"""A model of which Codex knows that it can search."""
LITE = "gpt-6-sol"
"""One of which it knows that it is given its tools in the history."""
USAGE = Usage(prompt=9000, completion=20)
TOOLS = f"""
[mcp_servers.notes]
command = "{sys.executable}"
args = ["{notes_server.__file__}", "40"]
required = true
"""


@pytest.fixture(scope="module")
def program() -> Path:
    return installed("codex")


@pytest.fixture
def codex(program: Path, tmp_path: Path) -> Codex:
    return Codex(program, tmp_path)


@dataclass
class Between:
    api: Api
    model: ModelServer
    asked: list[bytes] = field(default_factory=list[bytes])
    """The bodies of Codex's requests, as they came."""

    def items(self, request: int) -> list[Json]:
        return msgspec.json.decode(self.asked[request])["input"]

    def names(self, request: int) -> list[str]:
        return [tool["function"]["name"] for tool in self.model.chats[request].tools]


@pytest.fixture
def between(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    read_body = create.read_body

    @asynccontextmanager
    async def opened(script: Any, **options: Any) -> AsyncGenerator[Between]:
        async with ModelServer(script) as model, serving(model.url, **options) as api:
            found = Between(api, model)

            async def logged(*arguments: Any) -> bytes:
                body = await read_body(*arguments)
                found.asked.append(bytes(body))
                return body

            monkeypatch.setattr(create, "read_body", logged)
            yield found

    return opened


def in_turn(*scripts: Callable[[Request], Scripted]) -> Callable[[Request], Scripted]:
    """Of a server that speaks Responses: an answer for each request but those for lists."""
    left = list(scripts)

    def answer(request: Request) -> Scripted:
        return left.pop(0)(request)

    return answer


RESPONSES: Json = {"upstream_options": {"protocol": "responses"}}


def check(run: Run) -> None:
    assert run.status == 0, run
    assert run.last["type"] == "turn.completed", run.lines
    assert run.items("error") == []


@pytest.mark.requirement("family:codex")
async def test_it_searches_in_front_of_a_chat_server(codex: Codex, between: Any) -> None:
    script = [
        Reply(Call("tool_search", {"query": "read a note", "limit": 40}, split=4), USAGE),
        Reply(Call("mcp__notes__read_note", {"title": "abc"}, split=4), USAGE),
        Reply(Text("It says cba."), USAGE),
    ]
    async with between(script) as gateway:
        codex.configure(gateway.api.url, tables=TOOLS, model=SEARCHES)
        run = await codex.run("What is in the note?")
    check(run)
    [called] = run.items("mcp_tool_call")
    assert (called["server"], called["tool"], called["error"]) == ("notes", "read_note", None)
    assert [item["text"] for item in run.items("agent_message")] == ["It says cba."]
    call, output = gateway.items(1)[-2:]
    assert (call["type"], call["execution"]) == ("tool_search_call", "client")
    assert call["arguments"] == {"query": "read a note", "limit": 40}
    assert (output["type"], output["call_id"]) == ("tool_search_output", call["call_id"])
    assert "mcp__notes__read_note" not in gateway.names(0)
    assert "tool_search" in gateway.names(0)
    # What was found is appended.
    assert gateway.names(1)[: len(gateway.names(0))] == gateway.names(0)
    assert "mcp__notes__read_note" in gateway.names(1)
    assert gateway.names(2) == gateway.names(1)
    assert "mcp__notes__read_note" in gateway.model.chats[1].messages[-1]["content"]


@pytest.mark.requirement("family:codex")
async def test_it_searches_in_front_of_a_server_that_knows_how(codex: Codex, between: Any) -> None:
    search = {
        "id": "tsc_up",
        "type": "tool_search_call",
        "status": "completed",
        "execution": "client",
        "call_id": "call_0",
        "arguments": {"query": "read a note"},
    }
    read = function_call("read_note", '{"title":"abc"}', namespace="mcp__notes")
    script = in_turn(responded(search), responded(read), responded(message("It says cba.")))
    async with between(script, **RESPONSES) as gateway:
        codex.configure(gateway.api.url, tables=TOOLS, model=SEARCHES)
        run = await codex.run("What is in the note?")
    check(run)
    [called] = run.items("mcp_tool_call")
    assert (called["tool"], called["error"]) == ("read_note", None)
    assert [chat.body for chat in gateway.model.chats] == gateway.asked


@pytest.mark.requirement("family:codex")
async def test_its_tools_come_along_in_front_of_a_chat_server(codex: Codex, between: Any) -> None:
    script = [
        Reply(Call("exec", {"input": 'text("from the program")'}, split=4), USAGE),
        Reply(Call("collaboration__list_agents", {}, split=4), USAGE),
        Reply(Text("All is done."), USAGE),
    ]
    async with between(script) as gateway:
        codex.configure(gateway.api.url, tables=TOOLS, model=LITE)
        run = await codex.run("Run a program")
    check(run)
    assert [item["text"] for item in run.items("agent_message")] == ["All is done."]
    first = gateway.items(0)[0]
    assert first["type"] == "additional_tools"
    declared = [
        tool["name"] if group["name"] == "functions" else f"{group['name']}__{tool['name']}"
        for group in first["tools"]
        for tool in group["tools"]
    ]
    assert gateway.names(0) == declared
    assert gateway.names(2) == declared
    call, output = gateway.items(1)[-2:]
    assert (call["type"], call["name"]) == ("custom_tool_call", "exec")
    assert call["input"] == 'text("from the program")'
    assert "from the program" in str(output["output"])
    call, output = gateway.items(2)[-2:]
    assert (call["type"], call["namespace"], call["name"]) == (
        "function_call",
        "collaboration",
        "list_agents",
    )
    assert "unsupported call" not in str(output["output"])


@pytest.mark.requirement("family:codex")
async def test_its_tools_come_along_in_front_of_a_server_that_reads_them(
    codex: Codex, between: Any
) -> None:
    exec_call = {
        "id": "ctc_up",
        "type": "custom_tool_call",
        "status": "completed",
        "call_id": "call_1",
        "name": "exec",
        "namespace": "functions",
        "input": 'text("from the program")',
    }
    agents = function_call("list_agents", "{}", "call_2", namespace="collaboration")
    script = in_turn(responded(exec_call), responded(agents), responded(message("All is done.")))
    async with between(script, **RESPONSES) as gateway:
        codex.configure(gateway.api.url, tables=TOOLS, model=LITE)
        run = await codex.run("Run a program")
    check(run)
    assert [item["text"] for item in run.items("agent_message")] == ["All is done."]
    assert [chat.body for chat in gateway.model.chats] == gateway.asked
    assert "from the program" in str(gateway.items(1)[-1]["output"])
