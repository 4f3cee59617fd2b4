"""The agents SDK with an MCP server that the gateway calls, approvals by each of its two ways."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from agents import Agent, HostedMCPTool, OpenAIResponsesModel, RunConfig, Runner
from openai import AsyncOpenAI

from bascule.testing import Call, Reply
from tests.process import gateway
from tests.sdk.conftest import Model
from tests.services.mcp.servers import listening

pytestmark = pytest.mark.anyio

NO_TRACE = RunConfig(tracing_disabled=True)
CONFIG = """
[tools.mcp]
allow_hosts = ["127.0.0.1"]
"""


@asynccontextmanager
async def agent(
    model: Model, home: Path, approval: Any, on_request: Any = None
) -> AsyncGenerator[Agent[None]]:
    config = home / "bascule.toml"
    config.write_text(CONFIG)
    arguments = ["--config", str(config), "--upstream", model.server.url, "--profile", "openai"]
    call = Call("papers__query_papers", {"topic": "bridges"}, id="call_1")
    model.play(Reply(call), "There are three.")
    with gateway(home, *arguments) as running:
        async with (
            listening() as (url, _),
            AsyncOpenAI(base_url=f"{running.url}/v1", api_key="none", max_retries=0) as client,
        ):
            tool = HostedMCPTool(
                tool_config={
                    "type": "mcp",
                    "server_label": "papers",
                    "server_url": url,
                    "require_approval": approval,
                },
                on_approval_request=on_request,
            )
            asked = OpenAIResponsesModel(model="bascule-demo", openai_client=client)
            yield Agent(name="Guide", instructions="Help.", model=asked, tools=[tool])


async def test_a_run_without_approvals(model: Model, tmp_path: Path) -> None:
    async with agent(model, tmp_path, "never") as guide:
        result = await Runner.run(guide, "How many papers?", run_config=NO_TRACE)
    assert result.final_output == "There are three."
    assert "3 papers about bridges" in json.dumps(model.last.json)


async def test_a_function_that_approves(model: Model, tmp_path: Path) -> None:
    asked: list[str] = []

    def approve(request: Any) -> Any:
        asked.append(request.data.name)
        return {"approve": True}

    async with agent(model, tmp_path, "always", approve) as guide:
        result = await Runner.run(guide, "How many papers?", run_config=NO_TRACE)
    assert asked == ["query_papers"]
    assert result.final_output == "There are three."
    assert "3 papers about bridges" in json.dumps(model.last.json)


@pytest.mark.parametrize("approve", [True, False])
async def test_an_interruption(model: Model, tmp_path: Path, approve: bool) -> None:
    async with agent(model, tmp_path, "always") as guide:
        first = await Runner.run(guide, "How many papers?", run_config=NO_TRACE)
        [waiting] = first.interruptions
        state = first.to_state()
        if approve:
            state.approve(waiting)
        else:
            state.reject(waiting)
        second = await Runner.run(guide, state, run_config=NO_TRACE)
    assert second.final_output == "There are three."
    said = json.dumps(model.last.json)
    assert ("3 papers about bridges" in said) == approve
    assert ("did not approve" in said) != approve
