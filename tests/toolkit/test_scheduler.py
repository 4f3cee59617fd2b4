"""The scheduler: who runs when, and that whatever happens to a call stays in that call."""

import asyncio
import gc
import math
import sys
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
from structlog.testing import capture_logs

from bascule.telemetry.metrics import Metrics
from bascule.telemetry.observe import Observer, TurnObserver
from bascule.testing import Call, Gate, ModelServer, Reply
from bascule.toolkit.execution import GRACE
from bascule.toolkit.executor import Policy
from bascule.toolkit.outcome import Call as ToolCall
from bascule.toolkit.outcome import Failed, Outcome, Output
from bascule.toolkit.scheduler import Scheduler
from tests.engine.lookup_tool import TOOL, LookupExecutor, install
from tests.serving import serving
from tests.toolkit.scripted import KIND, Calls, Doing
from tests.toolkit.virtual_time import run


def answers(text: str, seconds: float = 0) -> Doing:
    async def doing() -> Outcome:
        await asyncio.sleep(seconds)
        return Output(output=text)

    return doing


def now() -> float:
    return asyncio.get_running_loop().time()


class Where:
    upstream, model, name = "mock", "mock-model", "mock-model"


def watched() -> tuple[Metrics, TurnObserver]:
    metrics = Metrics()
    return metrics, Observer(metrics=metrics).turn(Where(), stream=False)


def value(metrics: Metrics, name: str, **labels: str) -> float:
    return metrics.registry.get_sample_value(name, labels) or 0


# --- who runs when


def started(plan: list[tuple[str, str, Policy]], width: int = 5) -> list[set[str]]:
    """The calls that run together, second by second; each takes one second."""

    async def main() -> list[set[str]]:
        calls = Calls(width)
        for id_, name, policy in plan:
            calls.start(id_, answers(id_, 1), name=name, policy=policy)
        seconds: list[set[str]] = []
        seen = 0
        while seen < len(plan):
            await asyncio.sleep(0.5)
            seconds.append(set(calls.begun[seen:]))
            seen = len(calls.begun)
            await asyncio.sleep(0.5)
        await calls.scheduler.results()
        return seconds

    return run(main())


@pytest.mark.requirement("tools:scheduler:policies")
@pytest.mark.parametrize(
    ("plan", "seconds"),
    [
        ([("1", "a", "parallel"), ("2", "a", "parallel")], [{"1", "2"}]),
        ([("1", "a", "per_name"), ("2", "a", "per_name")], [{"1"}, {"2"}]),
        ([("1", "a", "per_name"), ("2", "b", "per_name")], [{"1", "2"}]),
        ([("1", "a", "per_name"), ("2", "a", "parallel")], [{"1"}, {"2"}]),
        ([("1", "a", "exclusive"), ("2", "b", "exclusive")], [{"1"}, {"2"}]),
        ([("1", "a", "exclusive"), ("2", "b", "parallel")], [{"1"}, {"2"}]),
        ([("1", "a", "parallel"), ("2", "b", "exclusive")], [{"1"}, {"2"}]),
        ([("1", "a", "per_name"), ("2", "b", "exclusive")], [{"1"}, {"2"}]),
        (
            # Nobody overtakes the exclusive one: it would wait for ever.
            [("1", "a", "parallel"), ("2", "b", "exclusive"), ("3", "a", "parallel")],
            [{"1"}, {"2"}, {"3"}],
        ),
        (
            # Who waits for another of its name is passed by those that need not.
            [("1", "a", "per_name"), ("2", "a", "per_name"), ("3", "b", "per_name")],
            [{"1", "3"}, {"2"}],
        ),
    ],
)
def test_policies(plan: list[tuple[str, str, Policy]], seconds: list[set[str]]) -> None:
    assert started(plan) == seconds


@pytest.mark.requirement("tools:scheduler:window")
def test_the_window() -> None:
    plan: list[tuple[str, str, Policy]] = [(str(i), "a", "parallel") for i in range(5)]
    assert started(plan, width=2) == [{"0", "1"}, {"2", "3"}, {"4"}]


@pytest.mark.requirement("tools:scheduler:window")
def test_who_waits_for_a_policy_holds_no_place_of_the_window() -> None:
    plan: list[tuple[str, str, Policy]] = [
        *((str(i), "slow", "per_name") for i in range(3)),
        ("other", "b", "parallel"),
    ]
    assert started(plan, width=2)[0] == {"0", "other"}


@pytest.mark.requirement("tools:scheduler:window")
def test_a_hundred_calls_of_one_name() -> None:
    plan: list[tuple[str, str, Policy]] = [(str(i), "a", "per_name") for i in range(100)]
    assert started(plan) == [{str(i)} for i in range(100)]


@pytest.mark.requirement("tools:scheduler:order")
def test_results_come_in_the_order_of_the_calls_and_are_told_as_they_come() -> None:
    async def main() -> None:
        calls = Calls()
        for seconds in (3, 1, 2):
            calls.start(str(seconds), answers(str(seconds), seconds))
        results = await calls.scheduler.results()
        assert results == [Output(output=text) for text in ("3", "1", "2")]
        assert list(calls.finished) == ["1", "2", "3"]
        assert await calls.scheduler.results() == []
        calls.start("4", answers("4"))
        assert await calls.scheduler.results() == [Output(output="4")]

    run(main())


# --- the time limit


@pytest.mark.requirement("tools:scheduler:timeout")
def test_the_time_limit_counts_from_when_a_call_runs() -> None:
    async def main() -> None:
        calls = Calls(width=1)
        calls.start("1", answers("1", 50), timeout=60)
        calls.start("2", answers("2", 50), timeout=60)
        calls.start("3", answers("3", 70), timeout=60)
        results = await calls.scheduler.results()
        assert results[:2] == [Output(output="1"), Output(output="2")]
        assert results[2] == Failed(message="The tool did not answer in 60 s.", code="timeout")
        assert now() == pytest.approx(160)

    run(main())


@pytest.mark.requirement("tools:scheduler:timeout")
def test_each_tool_has_its_own_and_may_have_none() -> None:
    async def main() -> None:
        calls = Calls()
        calls.start("1", answers("1", 5), timeout=1.5)
        calls.start("2", answers("2", 5), timeout=10)
        calls.start("3", answers("3", 1e6), timeout=math.inf)
        results = await calls.scheduler.results()
        assert results[0] == Failed(message="The tool did not answer in 1.5 s.", code="timeout")
        assert results[1:] == [Output(output="2"), Output(output="3")]

    run(main())


@pytest.mark.requirement("tools:scheduler:timeout")
def test_what_a_call_says_after_its_time_is_not_looked_at() -> None:
    async def late() -> Outcome:
        try:
            await asyncio.sleep(100)
        except asyncio.CancelledError:
            await asyncio.sleep(1)  # it cleans up
        return Output(output="late")

    async def main() -> None:
        calls = Calls(width=1)
        calls.start("1", late, timeout=10)
        calls.start("2", answers("2"))
        results = await calls.scheduler.results()
        assert [type(result) for result in results] == [Failed, Output]
        assert now() == pytest.approx(11)
        assert calls.finished["1"] == results[0]

    run(main())


# --- isolation


async def _raises() -> Outcome:
    raise KeyError("secret")


async def _times_out_itself() -> Outcome:
    async with asyncio.timeout(1):
        await asyncio.sleep(5)
    raise AssertionError


async def _raises_cancelled() -> Outcome:
    raise asyncio.CancelledError


async def _awaits_what_is_cancelled() -> Outcome:
    other = asyncio.ensure_future(asyncio.sleep(100))
    asyncio.get_running_loop().call_later(1, other.cancel)
    await other
    raise AssertionError


async def _cancels_itself() -> Outcome:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(100)
    raise AssertionError


async def _exits() -> Outcome:
    sys.exit(3)


async def _closes() -> Outcome:
    raise GeneratorExit


async def _stops() -> Outcome:
    raise StopAsyncIteration


async def _has_a_group() -> Outcome:
    async with asyncio.TaskGroup() as group:
        group.create_task(_raises())
        group.create_task(asyncio.sleep(100))
    raise AssertionError


def _no_coroutine() -> Any:
    return Output(output="not awaited")


def _raises_at_once() -> Any:
    raise ValueError("secret")


FAULTS: list[tuple[Callable[[], Any], str]] = [
    (_raises, "KeyError"),
    (_times_out_itself, "TimeoutError"),
    (_raises_cancelled, "CancelledError"),
    (_awaits_what_is_cancelled, "CancelledError"),
    (_cancels_itself, "CancelledError"),
    (_exits, "ToolExit"),
    (_closes, "GeneratorExit"),
    (_stops, "StopAsyncIteration"),
    (_has_a_group, "ExceptionGroup"),
    (_no_coroutine, "TypeError"),
    (_raises_at_once, "ValueError"),
]


@pytest.mark.requirement("tools:scheduler:isolation")
@pytest.mark.parametrize(("doing", "named"), FAULTS)
def test_what_an_executor_raises_is_that_calls_error(
    doing: Callable[[], Awaitable[Any]], named: str
) -> None:
    async def main() -> None:
        calls = Calls()
        calls.start("1", answers("1", 3))
        calls.start("2", doing)
        calls.start("3", answers("3", 3))
        with capture_logs() as logs:
            results = await calls.scheduler.results()
        assert results == [
            Output(output="1"),
            Failed(message=f"The tool failed: {named}."),
            Output(output="3"),
        ]
        assert calls.finished["2"] == results[1]
        (line,) = [line for line in logs if line["event"] == "tool failed"]
        assert line["type"] == KIND
        await calls.scheduler.cancel()

    run(main())


@pytest.mark.requirement("tools:scheduler:isolation")
@pytest.mark.parametrize("wrong", [None, "text", {"output": "text"}, Output, Exception("secret")])
def test_a_result_of_the_wrong_type_is_that_calls_error(wrong: Any) -> None:
    async def doing() -> Any:
        return wrong

    async def main() -> None:
        calls = Calls()
        calls.start("1", doing)
        calls.start("2", answers("2"))
        with capture_logs() as logs:
            results = await calls.scheduler.results()
        assert results == [
            Failed(message="The tool gave a result of the wrong kind."),
            Output(output="2"),
        ]
        assert "tool gave no outcome" in [line["event"] for line in logs]

    run(main())


@pytest.mark.requirement("tools:scheduler:isolation")
def test_an_operators_interrupt_is_no_tools_fault() -> None:
    async def interrupted() -> Outcome:
        raise KeyboardInterrupt

    async def main() -> None:
        calls = Calls()
        calls.start("1", interrupted)
        await calls.scheduler.results()

    loop = asyncio.new_event_loop()
    task = loop.create_task(main())
    with pytest.raises(KeyboardInterrupt):
        loop.run_until_complete(task)
    loop.run_until_complete(task)  # the call has its error all the same
    loop.close()


@pytest.mark.requirement("tools:scheduler:isolation")
def test_a_result_that_cannot_be_shown_is_not_lost() -> None:
    def shows(_: Outcome) -> None:
        raise ValueError("secret")

    async def main() -> None:
        calls = Calls(width=1)
        calls.start("1", answers("1"), shows=shows)
        calls.start("2", answers("2"))
        with capture_logs() as logs:
            results = await calls.scheduler.results()
        assert results == [Output(output="1"), Output(output="2")]
        assert "a tool's outcome could not be shown" in [line["event"] for line in logs]

    run(main())


@pytest.mark.requirement("tools:scheduler:isolation")
def test_a_public_part_that_is_too_large_is_left_out_and_told() -> None:
    async def doing() -> Outcome:
        return Output(output="small", public=b'"' + b"x" * 2000 + b'"')

    async def main() -> None:
        calls = Calls(cap=1000)
        calls.start("1", doing)
        with capture_logs() as logs:
            assert await calls.scheduler.results() == [Output(output="small")]
        (line,) = [line for line in logs if "too large" in line["event"]]
        assert (line["type"], line["bytes"]) == (KIND, 2002)

    run(main())


# --- executions that do not stop


async def _swallows_all() -> Outcome:
    while True:
        try:
            await asyncio.sleep(1000)
        except asyncio.CancelledError:
            continue


async def _waits_for_one_that_swallows() -> Outcome:
    inner = asyncio.ensure_future(_swallows_some())
    return await inner


async def _swallows_some() -> Outcome:
    end = now() + 30
    while now() < end:
        try:
            await asyncio.sleep(end - now())
        except asyncio.CancelledError:
            continue
    return Output(output="at last")


async def _waits_when_it_is_closed() -> Outcome:
    while True:
        try:
            await asyncio.sleep(1000)
        except BaseException:  # noqa: BLE001
            continue


STUBBORN = [_swallows_all, _waits_for_one_that_swallows, _waits_when_it_is_closed]


@pytest.fixture
def quiet() -> Iterator[None]:
    """What the interpreter says of coroutines that will not be closed is expected."""
    said: list[Any] = []
    before, sys.unraisablehook = sys.unraisablehook, said.append
    yield
    gc.collect()
    sys.unraisablehook = before
    assert all("ignored GeneratorExit" in str(each.exc_value) for each in said)


@pytest.mark.usefixtures("quiet")
@pytest.mark.requirement("tools:scheduler:unstopped")
@pytest.mark.parametrize("doing", STUBBORN)
def test_a_call_that_does_not_stop_at_its_time_limit_ends_for_the_turn(doing: Doing) -> None:
    async def main() -> None:
        metrics, observed = watched()
        calls = Calls(width=1, observed=observed)
        calls.start("1", doing, policy="exclusive", timeout=10)
        calls.start("2", answers("2"), policy="exclusive")
        with capture_logs() as logs:
            results = await calls.scheduler.results()
        assert results == [
            Failed(message="The tool did not answer in 10 s.", code="timeout"),
            Output(output="2"),
        ]
        assert now() == pytest.approx(10 + GRACE)
        (line,) = [line for line in logs if "did not stop" in line["event"]]
        assert line["type"] == KIND
        assert value(metrics, "bascule_tool_unstopped_total", type=KIND) == 1
        assert value(metrics, "bascule_tool_calls_total", type=KIND, outcome="timeout") == 1
        await calls.scheduler.cancel()
        assert now() < 10 + GRACE + 1
        if doing is _waits_for_one_that_swallows:  # the executor's own task ends when it likes
            await asyncio.sleep(30)

    run(main())


@pytest.mark.usefixtures("quiet")
@pytest.mark.requirement("tools:scheduler:unstopped", "tools:scheduler:cancel")
@pytest.mark.parametrize("doing", STUBBORN)
def test_the_turns_end_waits_a_bounded_time_for_a_call_that_does_not_stop(doing: Doing) -> None:
    async def main() -> None:
        metrics, observed = watched()
        calls = Calls(observed=observed)
        calls.start("1", doing)
        await asyncio.sleep(1)
        await calls.scheduler.cancel()
        assert now() == pytest.approx(1 + GRACE, abs=0.5)
        assert value(metrics, "bascule_tool_unstopped_total", type=KIND) == 1
        assert value(metrics, "bascule_tool_calls_total", type=KIND, outcome="cancelled") == 1
        assert calls.finished == {}
        if doing is _waits_for_one_that_swallows:
            await asyncio.sleep(30)

    run(main())


# --- the end of the turn


@pytest.mark.requirement("tools:scheduler:cancel")
def test_cancelling_stops_what_runs_and_what_waits() -> None:
    async def cleans_up() -> Outcome:
        try:
            await asyncio.sleep(100)
        finally:
            await asyncio.sleep(1)
            cleaned.append(now())
        raise AssertionError

    cleaned: list[float] = []

    async def main() -> None:
        metrics, observed = watched()
        calls = Calls(width=2, observed=observed)
        calls.start("1", cleans_up)
        calls.start("2", answers("2", 100))
        calls.start("3", answers("3", 100))
        results = asyncio.ensure_future(calls.scheduler.results())
        await asyncio.sleep(5)
        await calls.scheduler.cancel()
        assert cleaned == [6]
        assert calls.begun == ["1", "2"]
        assert calls.finished == {}
        assert value(metrics, "bascule_tool_calls_total", type=KIND, outcome="cancelled") == 3
        assert value(metrics, "bascule_tool_seconds_count", type=KIND) == 2
        with pytest.raises(asyncio.CancelledError):
            await results
        calls.start("4", answers("4"))
        await asyncio.sleep(1)
        assert "4" not in calls.begun
        await calls.scheduler.cancel()
        assert now() == pytest.approx(7)

    run(main())


@pytest.mark.requirement("tools:scheduler:cancel")
def test_whoever_waits_for_results_may_be_cancelled() -> None:
    async def main() -> None:
        calls = Calls()
        calls.start("1", answers("1", 10))
        waiting = asyncio.ensure_future(calls.scheduler.results())
        await asyncio.sleep(1)
        waiting.cancel()
        await asyncio.wait([waiting])
        await asyncio.sleep(20)  # the call ends as if nothing were
        assert calls.finished == {"1": Output(output="1")}
        await calls.scheduler.cancel()

    run(main())


def test_cancelling_without_calls_waits_for_nothing() -> None:
    async def main() -> None:
        scheduler = Scheduler(5, 1000)
        await scheduler.cancel()
        await scheduler.cancel()
        assert now() == 0

    run(main())


# --- through the gateway


def lookup(query: str, id_: str) -> Call:
    return Call("lookup", {"query": query}, id=id_)


@pytest.mark.anyio
@pytest.mark.requirement("tools:scheduler:isolation", "tools:scheduler:order")
@pytest.mark.parametrize("stream", [True, False])
async def test_a_turn_in_which_each_call_goes_wrong_in_its_own_way(stream: bool) -> None:
    async def answering(call: ToolCall) -> Any:
        match call.call_id:
            case "call_1":
                raise asyncio.CancelledError
            case "call_2":
                raise TimeoutError
            case "call_3":
                sys.exit(1)
            case "call_4":
                return None
            case "call_5":
                return Output(output="\ud800" + "x" * 5000)
            case _:
                return Output(output="fine")

    executor = LookupExecutor(answering)
    replies = [Reply(*(lookup(str(i), f"call_{i}") for i in range(1, 7))), "Well."]
    async with (
        ModelServer(replies) as model,
        serving(model.url, adjust=install(executor), tools={"max_result_bytes": 2000}) as api,
    ):
        answer = await api.create(tools=[TOOL], stream=stream)
        told = {m["tool_call_id"]: m["content"] for m in model.chats[1].json["messages"][2:]}
    assert answer.response["status"] == "completed"
    assert [item["status"] for item in answer.response["output"]] == [
        *["failed"] * 4,
        *["completed"] * 3,
    ]
    assert list(told) == [f"call_{i}" for i in range(1, 7)]
    assert told["call_1"] == '{"error":"The tool failed: CancelledError."}'
    assert told["call_2"] == '{"error":"The tool failed: TimeoutError."}'
    assert told["call_3"] == '{"error":"The tool failed: ToolExit."}'
    assert told["call_4"] == '{"error":"The tool gave a result of the wrong kind."}'
    assert told["call_5"] == "?" + "x" * 1999 + "\n[cut: the result had 5001 bytes]"
    assert told["call_6"] == "fine"


@pytest.mark.anyio
@pytest.mark.requirement("tools:scheduler:cancel")
async def test_no_execution_outlives_a_client_that_leaves() -> None:
    stopped = asyncio.Event()

    async def answering(_: ToolCall) -> Outcome:
        try:
            await asyncio.sleep(1000)
        finally:
            stopped.set()
        raise AssertionError

    executor = LookupExecutor(answering)
    replies = [Reply(lookup("x", "call_1"), "and more", Gate("writing"))]
    async with ModelServer(replies) as model, serving(model.url, adjust=install(executor)) as api:
        async with api.open(tools=[TOOL]) as pieces:
            await anext(pieces)
            await asyncio.wait_for(executor.started.wait(), 5)
        await asyncio.wait_for(stopped.wait(), 5)
