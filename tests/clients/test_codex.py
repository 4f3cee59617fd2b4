"""Codex CLI in front of the gateway, in front of a model server that speaks Chat Completions."""

import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bascule.gateway.routes import create
from bascule.testing import Call, ModelServer, Reasoning, Reply, Text, Usage, http_error, responded
from bascule.testing.script import Script
from tests.clients import notes_server
from tests.clients.codex import Codex, Run
from tests.node import installed
from tests.services.search.fakes import SearxngFake, running
from tests.serving import Api, serving
from tests.tools.web_gateway import HITS

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300)]

Json = dict[str, Any]

USAGE = Usage(prompt=9000, completion=20)
"""Codex's prompts are long."""


@pytest.fixture(scope="module")
def program() -> Path:
    return installed("codex")


@pytest.fixture
def codex(program: Path, tmp_path: Path) -> Codex:
    return Codex(program, tmp_path)


@dataclass
class Between:
    """A gateway, with what came in at its door, and the model server behind it."""

    api: Api
    model: ModelServer
    asked: list[Json] = field(default_factory=list)
    """The bodies of the requests, as they were sent."""

    @property
    def told(self) -> list[list[Json]]:
        """The messages of each request that the model saw."""
        return [request.messages for request in self.model.chats]

    @property
    def names(self) -> list[str]:
        """The functions that the model was last told of."""
        return [tool["function"]["name"] for tool in self.model.chats[-1].tools]


@pytest.fixture
def between(
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[..., Any]:
    read_body = create.read_body

    @asynccontextmanager
    async def opened(script: Script, **options: Any) -> AsyncGenerator[Between]:
        async with ModelServer(script) as model, serving(model.url, **options) as api:
            found = Between(api, model)

            async def logged(*arguments: Any) -> bytes:
                body = await read_body(*arguments)
                found.asked.append(msgspec.json.decode(body))
                return body

            monkeypatch.setattr(create, "read_body", logged)
            yield found

    return opened


def assert_quiet(run: Run, *, known: bool = False) -> None:
    """It ended well and complained of nothing, but that it does not know the model."""
    assert run.status == 0, run
    assert run.last["type"] == "turn.completed", run.lines
    assert run.warnings == []
    errors = [item["message"] for item in run.items("error")]
    assert len(errors) == (0 if known else 1)
    assert all("fallback metadata" in message for message in errors)


def assert_all_tools_arrived(gateway: Between, *, but: set[str]) -> None:
    """Each declared tool is a function for the model, in order; `but` are types that nothing here
    runs."""
    declared: list[str] = []
    for tool in gateway.asked[-1]["tools"]:
        if tool["type"] == "namespace":
            declared += [f"{tool['name']}__{member['name']}" for member in tool["tools"]]
        elif tool["type"] not in but:
            declared.append(tool["name"])
    assert gateway.names == declared
    assert {tool["type"] for tool in gateway.asked[-1]["tools"]} >= but


@pytest.mark.requirement("tool:call:round-trip")
async def test_a_command_is_run_for_a_model_that_it_does_not_know(
    codex: Codex, between: Any
) -> None:
    command = "printf 'it was run' > made.txt; cat made.txt"
    script = [
        Reply(Reasoning("I make it."), Call("exec_command", {"cmd": command}, split=5), USAGE),
        Reply(Text("It is made.", chunks="words"), USAGE),
    ]
    async with between(script) as gateway:
        codex.configure(gateway.api.url)
        run = await codex.run("Make a file")
    assert_quiet(run)
    (executed,) = run.items("command_execution")
    assert (executed["aggregated_output"], executed["exit_code"]) == ("it was run", 0)
    assert (codex.work / "made.txt").read_text() == "it was run"
    assert [item["text"] for item in run.items("agent_message")] == ["It is made."]
    assert run.last["usage"] == {
        "input_tokens": 18000,
        "cached_input_tokens": 0,
        "cache_write_input_tokens": 0,
        "output_tokens": 40,
        "reasoning_output_tokens": 0,
    }

    first, second = gateway.asked
    assert (first["stream"], first["store"]) == (True, False)
    reasoning, call, output = second["input"][-3:]
    assert reasoning["encrypted_content"]
    assert (call["type"], call["name"]) == ("function_call", "exec_command")
    assert output["call_id"] == call["call_id"]
    assert_all_tools_arrived(gateway, but={"web_search"})
    said, result = gateway.told[1][-2:]
    assert said["tool_calls"][0]["function"]["name"] == "exec_command"
    assert msgspec.json.decode(said["tool_calls"][0]["function"]["arguments"]) == {"cmd": command}
    assert result["tool_call_id"] == said["tool_calls"][0]["id"] == call["call_id"]
    assert "it was run" in result["content"]
    assert gateway.told[1][: len(gateway.told[0])] == gateway.told[0]


PATCH = """\
*** Begin Patch
*** Update File: greeting.txt
@@
-hello
+good "morning", wörld
*** End Patch
"""


async def own_catalog(api: Api) -> Json:
    """The gateway's own, for Codex; its models are given the tool for patches."""
    answer = await api.send("GET", "/v1/models?client_version=0.171.0")
    assert [entry["slug"] for entry in answer.json["models"]] == ["mock-model"]
    entries = [entry | {"apply_patch_tool_type": "freeform"} for entry in answer.json["models"]]
    return {"models": entries}


@pytest.mark.requirement("tool:call:round-trip")
async def test_a_file_is_patched_by_a_custom_tool(codex: Codex, between: Any) -> None:
    script = [
        Reply(Call("apply_patch", {"input": PATCH}, split=7), USAGE),
        Reply("It is patched.", USAGE),
    ]
    (codex.work / "greeting.txt").write_text("hello\n")
    async with between(script) as gateway:
        codex.configure(gateway.api.url, catalog=await own_catalog(gateway.api))
        run = await codex.run("Change the greeting")
    assert_quiet(run, known=True)
    (change,) = run.items("file_change")
    assert change["status"] == "completed"
    assert (codex.work / "greeting.txt").read_text() == 'good "morning", wörld\n'

    declared = {tool.get("name"): tool["type"] for tool in gateway.asked[0]["tools"]}
    assert declared["apply_patch"] == "custom"
    assert_all_tools_arrived(gateway, but={"web_search"})
    call, output = gateway.asked[1]["input"][-2:]
    assert (call["type"], call["input"]) == ("custom_tool_call", PATCH)
    assert output["type"] == "custom_tool_call_output"
    said, result = gateway.told[1][-2:]
    (wire,) = said["tool_calls"]
    assert wire["function"]["name"] == "apply_patch"
    assert msgspec.json.decode(wire["function"]["arguments"]) == {"input": PATCH}
    assert result["tool_call_id"] == wire["id"]
    assert "Success" in result["content"]


@pytest.mark.requirement("tool:call:round-trip")
@pytest.mark.parametrize("count", [1, 12, 40])
async def test_an_mcp_server_of_its_own_is_called_in_its_namespace(
    codex: Codex, between: Any, count: int
) -> None:
    script = [
        Reply(Call("mcp__notes__read_note", {"title": "abc"}, split=4), USAGE),
        Reply("It says cba.", USAGE),
    ]
    tables = f"""
[mcp_servers.notes]
command = "{sys.executable}"
args = ["{notes_server.__file__}", "{count}"]
required = true
"""
    async with between(script) as gateway:
        codex.configure(gateway.api.url, tables=tables)
        run = await codex.run("What is in the note?")
    assert_quiet(run)
    (called,) = run.items("mcp_tool_call")
    assert (called["server"], called["tool"]) == ("notes", "read_note")
    assert (called["arguments"], called["error"]) == ({"title": "abc"}, None)
    assert called["result"]["content"] == [{"type": "text", "text": "note cba"}]

    groups = {tool["name"]: tool for tool in gateway.asked[0]["tools"] if "tools" in tool}
    members = [member["name"] for member in groups["mcp__notes"]["tools"]]
    assert max(members) == "read_note"
    assert len(members) == count
    assert_all_tools_arrived(gateway, but={"web_search"})
    call, _ = gateway.asked[1]["input"][-2:]
    assert (call["namespace"], call["name"]) == ("mcp__notes", "read_note")
    said, result = gateway.told[1][-2:]
    assert said["tool_calls"][0]["function"]["name"] == "mcp__notes__read_note"
    assert "note cba" in result["content"]


@pytest.mark.requirement("tool:call:round-trip")
async def test_several_calls_at_once_and_a_session_that_goes_on(codex: Codex, between: Any) -> None:
    both = [Call("exec_command", {"cmd": f"echo {word}"}) for word in ("left", "right")]
    script = [
        Reply(*both, USAGE),
        Reply("Both were run.", USAGE),
        Reply("Left and right.", USAGE),
    ]
    async with between(script) as gateway:
        codex.configure(gateway.api.url)
        first = await codex.run("Run two commands")
        second = await codex.run("What did they say?", "resume", "--last")
    assert_quiet(first)
    assert_quiet(second)
    outputs = [item["aggregated_output"] for item in first.items("command_execution")]
    assert sorted(outputs) == ["left\n", "right\n"]
    said, left, right = gateway.told[1][-3:]
    assert [call["id"] for call in said["tool_calls"]] == [
        left["tool_call_id"],
        right["tool_call_id"],
    ]
    assert "left" in left["content"]
    assert "right" in right["content"]
    assert gateway.told[1] == gateway.told[2][: len(gateway.told[1])]
    assert [item["text"] for item in second.items("agent_message")] == ["Left and right."]


async def test_a_search_is_made_for_it_in_front_of_a_chat_server(
    codex: Codex, between: Any
) -> None:
    script = [
        Reply(Call("web_search", {"query": "bridges of Cork"}, split=4), USAGE),
        Reply(Text("They are of stone [cite:1].", chunks="words"), USAGE),
    ]
    async with running(SearxngFake(*HITS)) as engine:
        options = {"web_search": {"engine": "searxng", "base_url": engine.url}}
        async with between(script, tools=options) as gateway:
            codex.configure(gateway.api.url)
            run = await codex.run("What of the bridges?")
    assert_quiet(run)
    (search,) = run.items("web_search")
    assert search["query"] == "bridges of Cork"
    assert [item["text"] for item in run.items("agent_message")] == ["They are of stone."]
    assert [asked.query for asked in engine.asked] == ["bridges of Cork"]
    declared = [tool["type"] for tool in gateway.asked[0]["tools"]]
    assert "web_search" in declared
    assert "web_search" in gateway.names
    assert HITS[0].url in gateway.told[1][-1]["content"]


async def test_a_search_is_left_to_a_server_that_makes_it_itself(
    codex: Codex, between: Any
) -> None:
    search = {
        "id": "ws_up",
        "type": "web_search_call",
        "status": "completed",
        "action": {"type": "search", "query": "bridges"},
    }
    part = {"type": "output_text", "text": "Stone.", "annotations": [], "logprobs": []}
    said = {
        "id": "msg_up",
        "type": "message",
        "status": "completed",
        "role": "assistant",
        "content": [part],
    }
    upstream = {"protocol": "responses", "flags": {"hosted_tools": ["web_search"]}}
    async with running(SearxngFake(*HITS)) as engine:
        tools = {"web_search": {"engine": "searxng", "base_url": engine.url}}
        script = responded(search, said)
        async with between(script, upstream_options=upstream, tools=tools) as gateway:
            codex.configure(gateway.api.url)
            run = await codex.run("What of the bridges?")
    assert_quiet(run)
    assert [item["query"] for item in run.items("web_search")] == ["bridges"]
    assert engine.asked == []
    [sent] = [request.json for request in gateway.model.requests if request.method == "POST"]
    own = [tool for tool in gateway.asked[0]["tools"] if tool["type"] == "web_search"]
    assert [tool for tool in sent["tools"] if tool["type"] == "web_search"] == own
    assert len(own) == 1


@pytest.mark.requirement("error:context-length")
async def test_a_prompt_that_is_too_long_is_told_as_such(codex: Codex, between: Any) -> None:
    refused = http_error(
        400,
        "This model's maximum context length is 8192 tokens. However, your request has 9000.",
        code="context_length_exceeded",
    )
    async with between([refused]) as gateway:
        codex.configure(gateway.api.url)
        run = await codex.run("Hello")
    assert run.status == 1
    assert run.last["type"] == "turn.failed"
    assert "ran out of room" in run.last["error"]["message"]
    assert len(gateway.model.chats) == 1
