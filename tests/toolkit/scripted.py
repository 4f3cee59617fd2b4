"""Executors that do what a test says, and calls of them."""

from collections.abc import Awaitable, Callable
from typing import Any

from bascule.toolkit.executor import ExecutionContext, Policy, ToolExecutor
from bascule.toolkit.outcome import Call, Outcome
from bascule.toolkit.ownership import Binding
from bascule.toolkit.scheduler import Scheduler

Doing = Callable[[], Awaitable[Any]]
CAP = 1000
KIND = "lookup"


class Scripted(ToolExecutor[Any]):
    async def execute(self, call: Call, params: Any, context: ExecutionContext) -> Outcome:
        return await params()


class Calls:
    """A scheduler, and what it told of the calls that were submitted to it."""

    def __init__(self, width: int = 5, cap: int = CAP, **options: Any) -> None:
        self.scheduler = Scheduler(width, cap, **options)
        self.finished: dict[str, Outcome] = {}
        self.begun: list[str] = []

    def start(
        self,
        id_: str,
        doing: Doing,
        *,
        name: str = "a",
        policy: Policy = "parallel",
        timeout: float = 60.0,
        arguments: str = "{}",
        shows: Callable[[Outcome], None] | None = None,
    ) -> None:
        executor = Scripted()
        call = Call(call_id=id_, name=name, arguments=arguments)
        binding = Binding(executor, doing, policy, timeout)

        async def run() -> Outcome:
            self.begun.append(id_)
            return await executor.execute(call, doing, ExecutionContext("resp_1", 1))

        def finished(outcome: Outcome) -> None:
            self.finished[id_] = outcome
            if shows is not None:
                shows(outcome)

        self.scheduler.start(call, KIND, binding, run, finished)
