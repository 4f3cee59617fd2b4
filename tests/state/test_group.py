"""The queue in front of a writer."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from bascule.state.group import GroupWriter, Outcomes
from bascule.state.store import StoreError

pytestmark = pytest.mark.anyio

Perform = Callable[[list[int]], Outcomes]


@pytest.fixture
async def thread() -> AsyncIterator[ThreadPoolExecutor]:
    executor = ThreadPoolExecutor(1)
    yield executor
    executor.shutdown()


def on(thread: ThreadPoolExecutor, perform: Perform) -> GroupWriter[int]:
    """A queue whose groups are performed on the thread."""
    loop = asyncio.get_running_loop()
    return GroupWriter(partial(loop.run_in_executor, thread, perform))


async def test_takes_all_that_is_queued_in_order(thread: ThreadPoolExecutor) -> None:
    groups: list[Sequence[int]] = []
    writer = on(thread, lambda jobs: groups.append(jobs) or [True] * len(jobs))
    assert await asyncio.gather(*(writer.submit(job) for job in range(150))) == [True] * 150
    assert [job for group in groups for job in group] == list(range(150))
    assert [len(group) for group in groups] == [64, 64, 22]


async def test_what_comes_during_a_write_shares_the_next(thread: ThreadPoolExecutor) -> None:
    groups: list[Sequence[int]] = []
    begun, go_on = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def perform(jobs: Sequence[int]) -> Outcomes:
        groups.append(jobs)
        loop.call_soon_threadsafe(begun.set)
        assert go_on.wait(20)
        return [True] * len(jobs)

    writer = on(thread, perform)
    tasks = [asyncio.create_task(writer.submit(0))]
    await begun.wait()
    tasks += [asyncio.create_task(writer.submit(job)) for job in range(1, 9)]
    await asyncio.sleep(0)
    tasks[4].cancel()
    go_on.set()
    await asyncio.wait(tasks)
    assert groups == [[0], [*range(1, 9)]]
    assert [task.cancelled() for task in tasks] == [job == 4 for job in range(9)]


async def test_each_waiter_hears_its_own_outcome(thread: ThreadPoolExecutor) -> None:
    writer = on(
        thread, lambda jobs: [StoreError(f"no {job}") if job % 2 else job == 0 for job in jobs]
    )
    outcomes = await asyncio.gather(
        *(writer.submit(job) for job in range(4)), return_exceptions=True
    )
    assert (outcomes[0], outcomes[2]) == (True, False)
    assert [str(outcomes[1]), str(outcomes[3])] == ["no 1", "no 3"]


async def test_goes_on_after_a_writer_that_breaks(thread: ThreadPoolExecutor) -> None:
    def perform(jobs: Sequence[int]) -> Outcomes:
        if 0 in jobs:
            raise RuntimeError("broken")
        return [True] * len(jobs)

    writer = on(thread, perform)
    outcomes = await asyncio.gather(writer.submit(0), writer.submit(1), return_exceptions=True)
    assert [str(outcome) for outcome in outcomes] == ["the write failed: broken"] * 2
    assert await writer.submit(2) is True


async def test_drained_when_nothing_is_left(thread: ThreadPoolExecutor) -> None:
    done: list[int] = []
    writer = on(thread, lambda jobs: done.extend(jobs) or [True] * len(jobs))
    await writer.drain()
    tasks = [asyncio.create_task(writer.submit(job)) for job in range(100)]
    await asyncio.sleep(0)
    await writer.drain()
    assert done == list(range(100))
    assert await asyncio.gather(*tasks) == [True] * 100
