"""`from bascule.agent import Agent`: the library, as a user has it."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

import bascule.agent
from bascule.agent import Agent, LocalHandler, ToolFault, ToolOutput, tool
from bascule.agent.events import Event, TurnEnded
from bascule.agent.own import handler_of
from bascule.services.sandbox import Bubblewrap, SandboxError
from bascule.testing import ModelServer
from tests.agent.world import custom, function, patch, said, scripted

pytestmark = pytest.mark.anyio


@tool
def add(a: int, b: int = 1) -> int:
    """Adds two numbers."""
    return a + b


@tool(name="later", parallel=True)
async def wait(seconds: float) -> dict[str, Any]:
    """Waits."""
    await asyncio.sleep(seconds)
    return {"waited": seconds}


@tool(description="Always wrong.")
def wrong() -> str:
    raise ToolFault("as expected")


def outputs(model: ModelServer, number: int) -> list[Any]:
    return [item["output"] for item in model.requests[number].json["input"] if "output" in item]


@pytest.mark.requirement("agent:library")
async def test_an_agent_with_tools_of_ones_own(tmp_path: Path) -> None:
    events: list[Event] = []
    calls = [
        function("add", {"a": 2}, "call_1"), function("later", {"seconds": 0}, "call_2"),
        function("wrong", {}, "call_3"), function("add", {"a": "x"}, "call_4"), function("add", {"a": 1, "c": 2}, "call_5"),
        custom("apply_patch", patch("*** Add File: a.txt", "+a"), "call_6"),
    ]  # fmt: skip
    async with ModelServer(scripted(calls, [said("three")], [said("again")])) as model:
        agent = Agent(
            "m",
            base_url=model.url,
            api_key="k3y",
            cwd=tmp_path,
            home=tmp_path / "home",
            tools=[add, wait, wrong],
            listener=events.append,
        )
        async with agent:
            result = await agent.run("add")
            assert (result.text, result.status, result.error) == ("three", "completed", None)
            assert result.usage.input_tokens == 24
            assert "+++ b/a.txt" in result.diff
            assert (await agent.run("more")).text == "again"
            session_id = agent.session.id
        assert outputs(model, 1)[:5] == [
            "3",
            '{"waited":0.0}',
            "as expected",
            "failed to parse function arguments: Expected `int`, got `str` - at `$.a`",
            "failed to parse function arguments: Object contains unknown field `c`",
        ]
        declared = {
            t["name"]: t for t in model.requests[0].json["tools"] if t["type"] == "function"
        }
        assert declared["add"]["parameters"] == {
            "type": "object",
            "properties": {"a": {"type": "integer"}, "b": {"type": "integer", "default": 1}},
            "required": ["a"],
            "additionalProperties": False,
        }
        assert model.requests[0].headers["authorization"] == "Bearer k3y"
        assert len([event for event in events if isinstance(event, TurnEnded)]) == 2
    assert add(1, 2) == 3
    async with ModelServer(scripted([said("resumed")])) as model:
        again = Agent(
            "m", base_url=model.url, cwd=tmp_path, home=tmp_path / "home", resume=session_id
        )
        async with again:
            assert (await again.run("and?")).text == "resumed"
            assert len(outputs(model, 0)) == 6


async def test_an_agent_is_confined_by_default(tmp_path: Path) -> None:
    calls = [function("exec_command", {"cmd": "touch in; touch /var/tmp/bascule-agent; true"})]
    async with ModelServer(scripted(calls, [said("x")])) as model:
        async with Agent("m", base_url=model.url, cwd=tmp_path, home=tmp_path / "home") as agent:
            await agent.run("go")
        assert (tmp_path / "in").exists()
        assert not Path("/var/tmp/bascule-agent").exists()


async def test_without_a_sandbox_it_does_not_begin(tmp_path: Path) -> None:
    missing = Bubblewrap("no-such-program")
    agent = Agent("m", cwd=tmp_path, home=tmp_path / "home", adapter=missing)
    with pytest.raises(SandboxError, match="not installed"):
        async with agent:
            pytest.fail("it has begun")
    full = Agent(
        "m", cwd=tmp_path, home=tmp_path / "home", adapter=missing, sandbox="danger-full-access"
    )
    async with full:
        assert full.session.boundary.mode == "danger-full-access"


async def test_a_patch_that_was_cut_off_is_undone_when_the_next_one_begins(tmp_path: Path) -> None:
    from bascule.agent.patch.apply import journals_of

    folder = journals_of(tmp_path / "home", tmp_path)
    folder.mkdir(parents=True)
    (tmp_path / "a.txt").write_text("old\n")
    (tmp_path / ".bascule-1.old").hardlink_to(tmp_path / "a.txt")
    (tmp_path / "a.txt").unlink()
    path = tmp_path / "a.txt"
    (folder / "1.journal").write_text(
        f'{{"steps":[{{"path":"{path}","old":".bascule-1.old","new":null}}]}}'
    )
    events: list[Event] = []
    async with Agent("m", cwd=tmp_path, home=tmp_path / "home", listener=events.append):
        assert path.read_text() == "old\n"
    assert any(f"undone: {path}" in str(event) for event in events)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.txt", "home"]


def test_what_is_no_tool_is_told() -> None:
    with pytest.raises(TypeError, match="is no tool"):
        Agent("m", tools=[print])
    with pytest.raises(TypeError, match="needs a docstring"):
        tool(lambda: 1)

    with pytest.raises(TypeError, match="has no annotation"):

        @tool
        def untold(a) -> str:  # pyright: ignore
            """Something."""
            return ""

    assert isinstance(handler_of(add), LocalHandler)
    assert ToolOutput(content="x").text == "x"


def test_what_the_package_offers() -> None:
    assert all(getattr(bascule.agent, name) for name in bascule.agent.__all__)
    with pytest.raises(AttributeError, match="no attribute 'Other'"):
        _ = bascule.agent.Other  # type: ignore[attr-defined]
