"""An agent before a real model: one command that the model is made to run."""

from pathlib import Path

import pytest

from bascule.agent import Agent
from bascule.agent.events import Event, ToolEnded
from tests.serving import Api

pytestmark = [pytest.mark.anyio, pytest.mark.real, pytest.mark.timeout(600)]


async def test_a_forced_command_is_run(api: Api, enforces: bool, tmp_path: Path) -> None:
    """What it runs is the model's own idea; that it is run, and answered, is ours. A server that does
    not enforce the choice may say so."""
    events: list[Event] = []
    agent = Agent(
        api.model,
        base_url=f"{api.url}/v1",
        cwd=tmp_path,
        home=tmp_path / "home",
        instructions="You run commands with exec_command.",
        tool_choice={"type": "function", "name": "exec_command"},
        max_rounds=2,
        listener=events.append,
        timeout=300.0,
        retries=0,
    )
    async with agent:
        result = await agent.run("List the files here: run `ls`.")
    ended = [event for event in events if isinstance(event, ToolEnded)]
    if not ended and not enforces:
        assert "tool choice" in (result.error or "")
        return
    assert ended, result
    assert ended[0].tool == "exec_command"
    assert result.status in ("completed", "incomplete"), result
