"""Executions that hold the event loop are found out, and no execution goes on for ever."""

import asyncio
import time
from collections.abc import Coroutine
from typing import Any

import pytest
from structlog.testing import capture_logs

from bascule.telemetry.logs import bind_request
from bascule.testing import Call, ModelServer, Reply
from bascule.toolkit import watch
from bascule.toolkit.outcome import Call as ToolCall
from bascule.toolkit.outcome import Outcome, Output
from bascule.toolkit.steps import BLOCKED_SECONDS, Steps, ToolExit
from tests.engine.lookup_tool import TOOL, LookupExecutor, install
from tests.serving import serving
from tests.toolkit.scripted import KIND, Calls


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def _unstuck(_: float, __: str) -> None:
    raise AssertionError


def told(coroutine: Coroutine[Any, Any, Any], clock: Clock) -> list[float]:
    """The seconds of the steps that held the loop."""
    blocked: list[float] = []

    async def main() -> None:
        task = asyncio.get_running_loop().create_task(
            Steps(coroutine, blocked.append, _unstuck, clock)
        )
        await asyncio.wait([task])
        if not task.cancelled():
            task.exception()

    asyncio.run(main())
    return blocked


@pytest.mark.requirement("tools:scheduler:blocked")
def test_only_steps_count_that_are_long_themselves() -> None:
    clock = Clock()

    async def work() -> None:
        for seconds in (0.01, BLOCKED_SECONDS, 0.2, 3):
            clock.now += seconds
            await asyncio.sleep(0)

    async def waits() -> None:
        for _ in range(10):
            clock.now += 0.2
            await asyncio.sleep(0)

    assert told(work(), clock) == [pytest.approx(BLOCKED_SECONDS), pytest.approx(3)]
    assert told(waits(), clock) == []


@pytest.mark.requirement("tools:scheduler:blocked")
def test_a_last_step_counts_however_it_ends() -> None:
    clock = Clock()

    async def raises() -> None:
        clock.now += 1
        raise KeyError

    async def holds_its_end() -> None:
        try:
            raise asyncio.CancelledError
        finally:
            clock.now += 2

    assert told(raises(), clock) == [pytest.approx(1)]
    assert told(holds_its_end(), clock) == [pytest.approx(2)]


@pytest.mark.anyio
async def test_an_exit_is_an_error() -> None:
    async def exits() -> None:
        raise SystemExit(1)

    with pytest.raises(ToolExit):
        await asyncio.create_task(Steps(exits(), lambda _: None, _unstuck))


@pytest.mark.anyio
@pytest.mark.requirement("tools:scheduler:unstopped")
async def test_what_is_torn_down_ends_and_runs_its_finally() -> None:
    ran: list[str] = []

    async def stubborn() -> None:
        try:
            while True:
                try:
                    await asyncio.sleep(1000)
                except asyncio.CancelledError:
                    ran.append("swallowed")
        finally:
            ran.append("finally")

    steps = Steps(stubborn(), lambda _: None, _unstuck)
    task = asyncio.create_task(steps)
    for _ in range(3):
        await asyncio.sleep(0)
        task.cancel()
    await asyncio.sleep(0)
    assert not task.done()
    steps.tear()
    task.cancel()
    await asyncio.wait([task], timeout=5)
    assert task.cancelled()
    assert ran == ["swallowed"] * 3 + ["finally"]


@pytest.mark.anyio
@pytest.mark.requirement("tools:scheduler:blocked")
async def test_an_operator_hears_of_a_tool_that_holds_the_loop() -> None:
    async def answering(call: ToolCall) -> Outcome:
        time.sleep(BLOCKED_SECONDS + 0.05)
        await asyncio.sleep(0)
        time.sleep(BLOCKED_SECONDS if call.call_id == "call_1" else 0)
        return Output(output="found")

    calls = [Call("lookup", {}, id="call_1")]
    async with (
        ModelServer([Reply(*calls), "Well."]) as model,
        serving(model.url, adjust=install(LookupExecutor(answering))) as api,
    ):
        with capture_logs() as logs:
            answer = await api.create(tools=[TOOL])
        metrics = (await api.send("GET", "/metrics")).body.decode()
    assert answer.response["status"] == "completed"
    (line,) = [line for line in logs if line["event"] == "a tool blocked the event loop"]
    assert (line["type"], line["log_level"]) == ("lookup", "warning")
    assert line["seconds"] >= BLOCKED_SECONDS
    assert 'bascule_tool_blocks_total{type="lookup"} 2' in metrics


@pytest.mark.anyio
@pytest.mark.requirement("tools:scheduler:blocked")
async def test_what_never_lets_go_is_told_of_while_it_holds_the_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(watch, "STUCK_SECONDS", 0.03)
    monkeypatch.setattr(watch, "INTERVAL", 0.01)

    async def holds_until_it_is_told_of() -> Outcome:
        await asyncio.sleep(0)
        end = time.monotonic() + 5
        while not [line for line in logs if "blocks" in line["event"]]:
            assert time.monotonic() < end
            time.sleep(0.001)
        return Output(output="at last")

    with capture_logs() as logs:
        bind_request("req-1")
        calls = Calls()
        calls.start("1", holds_until_it_is_told_of)
        assert await calls.scheduler.results() == [Output(output="at last")]
    (line,) = [line for line in logs if "blocks" in line["event"]]
    assert line["type"] == KIND
    assert f"{__file__}:" in line["at"]
    assert "in holds_until_it_is_told_of" in line["at"]
    await calls.scheduler.cancel()
