"""Nothing stays behind."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

from bascule.state.store import Commit
from tests.serving import Api


async def until(fact: Callable[[], bool], what: str, seconds: float = 5) -> None:
    """Wait for a fact that nobody announces. Raises TimeoutError."""
    deadline = time.monotonic() + seconds
    while not fact():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {seconds:g} s in vain for {what}")
        await asyncio.sleep(0.002)


def tasks_of_turns() -> list[str]:
    """Tasks that run a request or a part of one."""
    names = [getattr(task.get_coro(), "__qualname__", "") for task in asyncio.all_tasks()]
    parts = (
        "run_turn",
        "_Turn",
        "RequestResponseCycle",
        "Scheduler",
        "SendWriter",
        "_disconnected",
    )
    return [name for name in names if name.startswith(parts)]


async def nothing_left(api: Api) -> None:
    """No task of a turn is left, and no connection to the model server but unused ones."""
    await until(lambda: not tasks_of_turns(), "the turns' tasks to end")
    retrying: Any = next(iter(api.gateway.router.upstreams.values())).client
    await until(lambda: not retrying.client._connecting, "connecting to end")
    await until(
        lambda: all(c.exchange is None for c in retrying.client._open), "all exchanges to end"
    )
    assert not retrying.waiting


def commits_of(gateway: Any) -> list[Commit]:
    """All that is stored from now on."""
    commits: list[Commit] = []
    store = gateway.engine.store
    original = store.commit

    async def commit(turn: Commit) -> None:
        commits.append(turn)
        await original(turn)

    store.commit = commit
    return commits
