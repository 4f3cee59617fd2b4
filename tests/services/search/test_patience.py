"""Engines that want to be left alone for a while."""

import asyncio
from collections.abc import Sequence

import pytest

from bascule.services.search.patience import Patient
from bascule.services.search.port import SearchEngine, SearchError, SearchOptions, SearchResult

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("web_search:engines:delay")]

FOUND = [SearchResult("https://example.org/", "a", "b")]


class Scripted(SearchEngine):
    """Gives what it was told, one after the other; a number is a 429 with that delay."""

    def __init__(self, *outcomes: float | SearchError | None) -> None:
        self._outcomes = list(outcomes)
        self.asked: list[float] = []
        self.time = 0.0

    def clock(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        self.time += seconds
        await asyncio.sleep(0)

    async def search(self, query: str, options: SearchOptions) -> Sequence[SearchResult]:
        self.asked.append(self.time)
        outcome = self._outcomes.pop(0) if self._outcomes else None
        if isinstance(outcome, SearchError):
            raise outcome
        if outcome is not None:
            raise SearchError("rate_limited", "no", None if outcome < 0 else outcome)
        return FOUND


def patient(engine: Scripted) -> Patient:
    return Patient(engine, engine.clock, engine.sleep)


async def ask(made: Patient) -> Sequence[SearchResult]:
    return await made.search("q", SearchOptions())


@pytest.mark.parametrize(("said", "waited"), [(3.0, 3.0), (-1.0, 1.0), (15.0, 15.0)])
async def test_a_short_delay_is_waited_for(said: float, waited: float) -> None:
    engine = Scripted(said)
    made = patient(engine)
    assert await ask(made) == FOUND
    assert engine.asked == [0.0, waited]
    assert (made.calls, made.failures, made.limited, made.error) == (1, 0, False, None)


async def test_a_long_delay_is_told() -> None:
    engine = Scripted(60.0)
    made = patient(engine)
    for seconds in (60, 40):
        with pytest.raises(SearchError, match=f"Try again in {seconds} s") as told:
            await ask(made)
        assert told.value.code == "rate_limited"
        assert made.limited
        engine.time += 20.0
    # It was asked once, by the first search.
    assert engine.asked == [0.0]
    engine.time = 61.0
    assert await ask(made) == FOUND


async def test_it_is_not_asked_a_third_time() -> None:
    engine = Scripted(1.0, 2.0)
    made = patient(engine)
    with pytest.raises(SearchError, match="Try again in 2 s"):
        await ask(made)
    assert engine.asked == [0.0, 1.0]


async def test_other_faults_pass() -> None:
    fault = SearchError("timeout", "too slow")
    engine = Scripted(fault, 1.0, fault)
    made = patient(engine)
    for _ in range(2):
        with pytest.raises(SearchError, match="too slow"):
            await ask(made)
    assert made.error == "too slow"
    assert (made.calls, made.failures) == (2, 2)


async def test_what_one_search_is_told_holds_for_all() -> None:
    engine = Scripted(5.0)
    made = patient(engine)
    await asyncio.gather(ask(made), ask(made))
    await ask(made)
    assert engine.asked[0] == 0.0
    assert len(engine.asked) == 4
