"""Old responses go: the port's promise, and the background work that relies on it."""

import asyncio

import msgspec
import pytest
from structlog.testing import capture_logs

from bascule.state.retention import BATCH, FIRST_SECONDS, PAUSE_SECONDS, PERIOD_SECONDS, Retention
from bascule.state.store import Commit, ResponseRow, Store, StoreError
from tests.state.rows import a_turn, commit, listed, whole

pytestmark = pytest.mark.anyio

NOW = 1_900_000_000
DAY = 86_400


def aged(days: float, parent: ResponseRow | None = None, owner: str = "alice") -> Commit:
    """A turn of so many days ago."""
    turn = a_turn(parent, owner=owner)
    row = msgspec.structs.replace(turn.response, created_at=int(NOW - days * DAY))
    return Commit(response=row, items=turn.items)


async def is_gone(store: Store, row: ResponseRow) -> bool:
    if await store.response(row.owner, row.id) is not None:
        return False
    for key in [*row.input, *row.output]:
        with pytest.raises(StoreError, match="missing"):
            await store.items(row.owner, [key])
    return True


async def test_what_is_old_goes_whoever_owns_it(store: Store) -> None:
    old = [await commit(store, aged(31, owner=owner)) for owner in ("alice", "bob", "")]
    young = [await commit(store, aged(29, owner=owner)) for owner in ("alice", "bob", "")]
    assert await store.expire(NOW - 30 * DAY, 100) == 3
    assert all([await is_gone(store, row) for row in old])
    assert all([await whole(store, row) for row in young])
    assert await store.expire(NOW - 30 * DAY, 100) == 0


async def test_exactly_so_old_is_not_too_old(store: Store) -> None:
    row = await commit(store, aged(30))
    assert await store.expire(NOW - 30 * DAY, 100) == 0
    assert await store.expire(NOW - 30 * DAY + 1, 100) == 1
    assert await is_gone(store, row)


async def test_a_younger_response_keeps_what_it_continues(store: Store) -> None:
    rows = [await commit(store, aged(33))]
    for days in (32, 31, 20):
        rows.append(await commit(store, aged(days, rows[-1])))
    assert await store.expire(NOW - 30 * DAY, 100) == 3
    for row in rows[:3]:
        assert await store.response("alice", row.id) is None
    assert await whole(store, rows[3])
    later = await commit(store, aged(1, rows[3]))
    assert await store.expire(NOW - 10 * DAY, 100) == 1
    assert await whole(store, later)
    assert await store.expire(NOW, 100) == 1
    for key in listed(later):
        with pytest.raises(StoreError, match="missing"):
            await store.items("alice", [key])


async def test_an_item_that_a_younger_response_lists_stays(store: Store) -> None:
    old = await commit(store, aged(40))
    turn = aged(1)
    row = msgspec.structs.replace(turn.response, input=[*old.output, *turn.response.input])
    borrower = await commit(store, Commit(response=row, items=turn.items))
    assert await store.expire(NOW - 30 * DAY, 100) == 1
    assert await whole(store, borrower)
    with pytest.raises(StoreError, match="missing"):
        await store.items("alice", old.input)


async def test_a_long_chain_goes_piece_by_piece(store: Store) -> None:
    row = await commit(store, aged(100))
    rows = [row]
    for index in range(1, 60):
        rows.append(await commit(store, aged(100 - index / 10, rows[-1])))
    for left in (40, 20, 0):
        assert await store.expire(NOW, 20) == 20
        assert [await store.response("alice", row.id) is not None for row in rows] == [
            index < left for index in range(60)
        ]
        # Nothing is left over for the next piece.
        assert all([await is_gone(store, row) for row in rows[left:]])


async def test_turns_go_on_meanwhile(store: Store) -> None:
    for _ in range(30):
        await commit(store, aged(50))
    young = [aged(1) for _ in range(30)]
    done = await asyncio.gather(
        *(store.expire(NOW - 30 * DAY, 5) for _ in range(6)), *(store.commit(t) for t in young)
    )
    assert done[:6] == [5] * 6
    assert all([await whole(store, turn.response) for turn in young])


class Time:
    """A clock that only sleeping moves; `pauses` is what was slept."""

    def __init__(self) -> None:
        self.now = float(NOW)
        self.pauses: list[float] = []
        self.woken = asyncio.Condition()
        self._ended = 0

    def clock(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        number = len(self.pauses)
        async with self.woken:
            self.woken.notify_all()
            await self.woken.wait_for(lambda: self._ended >= number)
        self.now += seconds

    async def wait_for(self, pauses: int) -> None:
        """Until it sleeps once more than `pauses - 1` times; ends those."""
        async with asyncio.timeout(20), self.woken:
            self._ended = pauses - 1
            self.woken.notify_all()
            await self.woken.wait_for(lambda: len(self.pauses) >= pauses)


async def test_looks_some_time_after_the_start_and_then_now_and_then(store: Store) -> None:
    time = Time()
    rows = [await commit(store, aged(31)) for _ in range(2 * BATCH + 1)]
    due = await commit(store, aged(30 - 2 * FIRST_SECONDS / DAY))
    young = await commit(store, aged(1))
    retention = Retention(store, 30, clock=time.clock, sleep=time.sleep)
    retention.start()
    retention.start()  # again: no second one
    await time.wait_for(1)
    assert await whole(store, rows[0])
    with capture_logs() as logs:
        await time.wait_for(4)
    assert time.pauses == [FIRST_SECONDS, PAUSE_SECONDS, PAUSE_SECONDS, PERIOD_SECONDS]
    assert [log["count"] for log in logs] == [len(rows)]
    assert all([await is_gone(store, row) for row in rows])
    assert await whole(store, due)
    await time.wait_for(5)
    assert await is_gone(store, due)
    assert await whole(store, young)
    await retention.aclose()
    await retention.aclose()


async def test_for_ever() -> None:
    class Untouched:
        pass

    tasks = asyncio.all_tasks()
    retention = Retention(Untouched(), 0)  # type: ignore[arg-type]
    retention.start()
    assert asyncio.all_tasks() == tasks
    await retention.aclose()


async def test_a_fault_is_told_and_tried_again(store: Store) -> None:
    time = Time()
    await store.aclose()
    retention = Retention(store, 30, clock=time.clock, sleep=time.sleep)
    retention.start()
    with capture_logs() as logs:
        await time.wait_for(3)
    assert time.pauses == [FIRST_SECONDS, PERIOD_SECONDS, PERIOD_SECONDS]
    assert [log["log_level"] for log in logs] == ["error"] * 2
    await retention.aclose()
