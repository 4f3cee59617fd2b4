"""Whatever the calls are and do, and whenever the turn ends: bounds, order, isolation, and no task left.

Random plans run on a clock that jumps, so that a plan of minutes takes a moment, the same each time.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from bascule.toolkit.execution import GRACE
from bascule.toolkit.executor import Policy
from bascule.toolkit.outcome import Failed, Outcome, Output
from tests.toolkit.scripted import CAP, Calls
from tests.toolkit.virtual_time import run

LIMIT = 20.0
DOING = (
    "answers",
    "answers",
    "answers",
    "raises",
    "times out itself",
    "is cancelled",
    "returns nothing",
    "says too much",
    "hangs",
    "cleans up",
    "swallows once",
    "never stops",
    "awaits a task",
)
_ENDS = {"hangs", "cleans up", "swallows once", "never stops"}


@dataclass(frozen=True)
class Planned:
    """A call that is submitted `after` seconds from the one before, and works for `seconds`."""

    name: str
    policy: Policy
    doing: str
    seconds: float
    after: float


def _policies() -> st.SearchStrategy[Policy]:
    return st.sampled_from(("parallel", "parallel", "per_name", "per_name", "exclusive"))


CALLS = st.lists(
    st.builds(
        Planned,
        st.sampled_from("abc"),
        _policies(),
        st.sampled_from(DOING),
        st.integers(1, 8).map(float),
        st.sampled_from((0.0, 0.0, 0.0, 0.5, 3.0)),
    ),
    max_size=10,
)
WIDTH = st.integers(1, 4)


@dataclass
class Told:
    """When a call was submitted, began and ended for its turn."""

    submitted: float
    began: float = float("inf")
    ended: float = float("inf")


@dataclass
class Running:
    """A plan as it runs."""

    plan: Sequence[Planned]
    width: int
    times: list[Told] = field(default_factory=list)
    calls: Calls = field(init=False)

    async def submit(self) -> None:
        self.calls = Calls(self.width)
        for i, planned in enumerate(self.plan):
            await asyncio.sleep(planned.after)
            self.times.append(Told(_now()))
            self.calls.start(
                str(i),
                lambda i=i: self._work(i),
                name=planned.name,
                policy=planned.policy,
                timeout=LIMIT,
                shows=lambda _, i=i: self._end(i),
            )

    def _end(self, i: int) -> None:
        self.times[i].ended = _now()

    async def _work(self, i: int) -> Any:
        self.times[i].began = _now()
        planned = self.plan[i]
        await asyncio.sleep(planned.seconds)
        return await _act(planned.doing, str(i))


async def _act(doing: str, answer: str) -> Any:
    if doing in _ENDS:
        await _hang(doing)
    match doing:
        case "raises":
            raise ValueError
        case "times out itself":
            raise TimeoutError
        case "is cancelled":
            raise asyncio.CancelledError
        case "returns nothing":
            return None
        case "says too much":
            return Output(output=answer + "x" * CAP)
        case "awaits a task":
            await asyncio.ensure_future(asyncio.sleep(0.25))
        case _:
            pass
    return Output(output=answer)


async def _hang(doing: str) -> None:
    try:
        await asyncio.sleep(1e6)
    except asyncio.CancelledError:
        match doing:
            case "cleans up":
                await asyncio.sleep(GRACE / 2)
            case "swallows once":
                await asyncio.sleep(1e6)
            case "never stops":
                while True:
                    with suppress(asyncio.CancelledError):
                        await asyncio.sleep(1e6)
            case _:
                pass
        raise


def _expected(doing: str, answer: str) -> Outcome:
    """What becomes of a call, whatever the others do."""
    match doing:
        case "raises":
            return Failed(message="The tool failed: ValueError.")
        case "times out itself":
            return Failed(message="The tool failed: TimeoutError.")
        case "is cancelled":
            return Failed(message="The tool failed: CancelledError.")
        case "returns nothing":
            return Failed(message="The tool gave a result of the wrong kind.")
        case "says too much":
            kept = (answer + "x" * CAP)[:CAP]
            return Output(output=f"{kept}\n[cut: the result had {CAP + len(answer)} bytes]")
        case doing if doing in _ENDS:
            return Failed(message="The tool did not answer in 20 s.", code="timeout")
        case _:
            return Output(output=answer)


def _now() -> float:
    return asyncio.get_running_loop().time()


def _excludes(a: Planned, b: Planned) -> bool:
    if "exclusive" in (a.policy, b.policy):
        return True
    return a.name == b.name and "per_name" in (a.policy, b.policy)


def _check_times(plan: Sequence[Planned], times: Sequence[Told], width: int) -> None:
    moments = sorted({t for told in times for t in (told.submitted, told.began, told.ended)})
    for at in moments:
        if at == float("inf"):
            continue
        # Just after each change, when all that it brings has happened.
        running = {i for i, told in enumerate(times) if told.began <= at < told.ended}
        assert len(running) <= width
        for i in running:
            assert not any(_excludes(plan[i], plan[j]) for j in running if j != i)
        for i, told in enumerate(times):
            if told.submitted <= at < min(told.began, told.ended):
                earlier = [j for j in range(i) if times[j].ended > at]
                assert len(running) == width or any(_excludes(plan[i], plan[j]) for j in earlier), (
                    f"call {i} waits at {at} for nothing"
                )
    for i, told in enumerate(times):
        for j in range(i):
            if _excludes(plan[i], plan[j]):
                assert times[j].ended <= told.began, f"call {i} overtook {j}"


@pytest.fixture(autouse=True)
def _no_lines() -> Any:
    with capture_logs():
        yield


@pytest.mark.requirement(
    "tools:scheduler:policies",
    "tools:scheduler:window",
    "tools:scheduler:order",
    "tools:scheduler:isolation",
    "tools:scheduler:timeout",
)
@settings(max_examples=120)
@given(CALLS, WIDTH)
def test_a_turn_that_runs_to_its_end(plan: list[Planned], width: int) -> None:
    async def main() -> None:
        running = Running(plan, width)
        await running.submit()
        results = await running.calls.scheduler.results()
        assert results == [_expected(p.doing, str(i)) for i, p in enumerate(plan)]
        assert [running.calls.finished[str(i)] for i in range(len(plan))] == results
        _check_times(plan, running.times, width)
        for planned, told in zip(plan, running.times, strict=True):
            assert told.ended - told.began <= LIMIT + GRACE
            if planned.doing in ("hangs", "never stops"):
                assert told.ended - told.began >= LIMIT
        ended = _now()
        await running.calls.scheduler.cancel()
        assert _now() - ended <= 1

    run(main())


@pytest.mark.requirement("tools:scheduler:cancel", "tools:scheduler:unstopped")
@settings(max_examples=120)
@given(CALLS, WIDTH, st.integers(0, 120).map(lambda n: n / 4), st.booleans())
def test_a_turn_that_ends_at_any_point(
    plan: list[Planned], width: int, at: float, waiting: bool
) -> None:
    async def turn(running: Running) -> None:
        await running.submit()
        if waiting:
            await running.calls.scheduler.results()
        else:
            await asyncio.sleep(1e6)

    async def main() -> None:
        running = Running(plan, width)
        running.calls = Calls(width)
        task = asyncio.ensure_future(turn(running))
        await asyncio.sleep(at)
        task.cancel()
        await asyncio.wait([task])
        before = dict(running.calls.finished)
        await running.calls.scheduler.cancel()
        assert _now() - at <= GRACE + 1
        assert asyncio.all_tasks() == {asyncio.current_task()}
        # What had ended is as it would have been, and nothing is told any more.
        assert running.calls.finished == before
        for id_, outcome in before.items():
            assert outcome == _expected(plan[int(id_)].doing, id_)
        _check_times(plan[: len(running.times)], _until(running.times, at), width)

    run(main())


def _until(times: Sequence[Told], at: float) -> list[Told]:
    """All that still ran or waited then ended then."""
    return [Told(t.submitted, t.began, min(t.ended, at)) for t in times if t.submitted <= at]


@pytest.mark.requirement("tools:scheduler:isolation")
@settings(max_examples=50)
@given(CALLS, WIDTH, st.data())
def test_what_a_call_does_changes_no_other(
    plan: list[Planned], width: int, data: st.DataObject
) -> None:
    """One call does something else that takes as long: all others end as before, and when."""
    if not plan:
        return
    at = data.draw(st.integers(0, len(plan) - 1))
    changed = data.draw(st.sampled_from(("answers", "raises", "is cancelled", "returns nothing")))

    async def outcomes(calls: Sequence[Planned]) -> list[tuple[Outcome, float, float]]:
        running = Running(calls, width)
        await running.submit()
        results = await running.calls.scheduler.results()
        await running.calls.scheduler.cancel()
        return [(r, t.began, t.ended) for r, t in zip(results, running.times, strict=True)]

    def with_doing(doing: str) -> list[Planned]:
        was = plan[at]
        call = Planned(was.name, was.policy, doing, was.seconds, was.after)
        return [*plan[:at], call, *plan[at + 1 :]]

    plain = run(outcomes(with_doing("answers")))
    other = run(outcomes(with_doing(changed)))
    assert [o for i, o in enumerate(plain) if i != at] == [
        o for i, o in enumerate(other) if i != at
    ]
    assert plain[at][1:] == other[at][1:]
