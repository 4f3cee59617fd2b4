"""Turns with an MCP server that is killed now and then."""

import asyncio
import gc
import os
import random
import signal
from pathlib import Path
from typing import Any

import pytest

from bascule.testing import Call, ModelServer, Reply, Request
from tests.serving import serving
from tests.tools.mcp_gateway import CONFIGURED, types_of

pytestmark = pytest.mark.anyio

TURNS = 200
AT_ONCE = 4
KILLS = 12


def answers(request: Request) -> Reply:
    if request.json["messages"][-1]["role"] == "tool":
        return Reply("Done.")
    return Reply(Call("papers__query_papers", {"topic": "x"}, id=f"call_{request.number}"))


def children() -> set[int]:
    found = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text()
    return {int(pid) for pid in found.split()}


def memory() -> int:
    """Kilobytes that are resident."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmRSS:", 1)[1].split()[0])


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.timeout(120)
@pytest.mark.requirement("mcp:kills")
async def test_turns_go_on_while_the_server_is_killed() -> None:
    chance = random.Random(7)
    others = children()
    section = {**CONFIGURED, "require_approval": "never"}
    tool = {"type": "mcp", "server_label": "papers", "require_approval": "never"}
    statuses: dict[str, int] = {}
    memory_after_start = files = tasks = 0
    async with (
        ModelServer(answers) as model,
        serving(model.url, mcp_servers=[section]) as api,
    ):

        async def turn() -> None:
            answer = await api.create(tools=[tool], stream=chance.random() < 0.5)
            assert answer.status == 200
            assert answer.response["status"] == "completed"
            assert types_of(answer)[-1] == "message"
            for item in answer.response["output"]:
                if item["type"] == "mcp_call":
                    statuses[item["status"]] = statuses.get(item["status"], 0) + 1

        await turn()
        kills = set(chance.sample(range(10, TURNS), KILLS))
        for number in range(1, TURNS, AT_ONCE):
            running = [asyncio.ensure_future(turn()) for _ in range(AT_ONCE)]
            if any(n in kills for n in range(number, number + AT_ONCE)):
                for pid in children() - others:
                    os.kill(pid, signal.SIGKILL)
            await asyncio.gather(*running)
            if number == 1 + 10 * AT_ONCE:
                gc.collect()
                memory_after_start, files, tasks = memory(), descriptors(), len(asyncio.all_tasks())
        gc.collect()
        grown = memory() - memory_after_start
        left: dict[str, Any] = {
            "files": descriptors() - files,
            "tasks": len(asyncio.all_tasks()) - tasks,
        }
    assert statuses["completed"] > TURNS // 2
    assert left["files"] <= 3, left
    assert left["tasks"] <= 3, left
    assert grown < 30_000
    assert children() <= others
