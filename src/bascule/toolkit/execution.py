"""One call under way: from its submission to its end, which is certain."""

import asyncio
import math
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import Context
from typing import Any, Final

from bascule.toolkit.executor import Policy
from bascule.toolkit.outcome import Call, Failed, Outcome, Output
from bascule.toolkit.ownership import Binding
from bascule.toolkit.results import kept
from bascule.toolkit.steps import Steps
from bascule.toolkit.telemetry import Record
from bascule.toolkit.watch import watch

Run = Callable[[], Coroutine[Any, Any, Outcome]]
"""Begins the execution."""

GRACE: Final = 2.0
"""Seconds that an execution has to clean up when it is told to stop."""


class Execution:
    """A call of the gateway's. `begin` runs it, when its turn has come; `outcome` is set once, with
    what it gave or what became of it; `gone` is called then.

    Told to stop, by its time limit or with its turn, it has `grace` seconds; then it is torn down.
    Whatever it returns or raises after it was told so is not looked at.
    """

    __slots__ = (
        "_binding",
        "_call",
        "_context",
        "_ended",
        "_finished",
        "_gone",
        "_grace",
        "_max_result_bytes",
        "_over",
        "_record",
        "_run",
        "_steps",
        "_stopped",
        "_timer",
        "name",
        "outcome",
        "policy",
        "task",
        "torn",
    )

    def __init__(
        self,
        call: Call,
        binding: Binding,
        run: Run,
        *,
        record: Record,
        context: Context,
        max_result_bytes: int,
        grace: float,
        finished: Callable[[Outcome], None],
        gone: Callable[["Execution"], None],
    ) -> None:
        self.name: Final = call.name
        self.policy: Final[Policy] = binding.policy
        self.outcome: Final[asyncio.Future[Outcome]] = asyncio.get_running_loop().create_future()
        """Cancelled for a call that the turn's end has stopped."""
        self.task: asyncio.Task[Outcome] | None = None
        self.torn = False
        self._call = call
        self._binding = binding
        self._run = run
        self._record = record
        self._context = context
        self._max_result_bytes = max_result_bytes
        self._grace = grace
        self._finished = finished
        self._gone = gone
        self._steps: Steps[Outcome] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._stopped: str | None = None
        self._ended = False
        self._over = False

    def begin(self) -> None:
        """Run. The time limit counts from here."""
        self._record.begin()
        self._steps = Steps(_awaited(self._run), self._record.blocked, self._stuck)
        watch.hold()
        loop = asyncio.get_running_loop()
        # Calls are submitted from an upstream's read callback: the turn's own context is given along.
        self.task = loop.create_task(self._steps, context=self._context.copy())
        self.task.add_done_callback(self._done, context=self._context)
        if math.isfinite(self._binding.timeout):
            self._timer = loop.call_later(
                self._binding.timeout, self._stop, "timeout", context=self._context
            )

    def cancel(self) -> None:
        """The turn is over: `finished` is not called any more. A call that has not begun is gone at
        once."""
        self._over = True
        if self.task is None:
            self._end("cancelled", None)
        elif not self.task.done():
            self._stop("cancelled")

    def _stuck(self, seconds: float, place: str) -> None:
        self._context.copy().run(self._record.stuck, seconds, place)

    # --- the end

    def _stop(self, why: str) -> None:
        if self._stopped is not None or self.task is None or self.task.done():
            return
        self._stopped = why
        self._cancel_timer()
        self.task.cancel()
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._grace, self._tear, context=self._context)

    def _tear(self) -> None:
        """It goes on although it was cancelled, and has had its time."""
        if self.task is None or self._steps is None or self.task.done():
            return
        self.torn = True
        self._record.unstopped()
        self._steps.tear()
        self.task.cancel()
        self._end_stopped()

    def _done(self, task: "asyncio.Task[Outcome]") -> None:
        watch.release()
        self._cancel_timer()
        fault = None if task.cancelled() else task.exception()
        if self._stopped is not None:
            self._end_stopped()
        elif task.cancelled():
            # Nobody here did that: it raised CancelledError itself, or something that it awaits did.
            self._fail(asyncio.CancelledError())
        elif fault is not None:
            self._fail(fault)
        else:
            self._succeed(task.result())

    def _end_stopped(self) -> None:
        if self._stopped == "timeout":
            seconds = f"{self._binding.timeout:g}"
            message = f"The tool did not answer in {seconds} s."
            self._end("timeout", Failed(message=message, code="timeout"))
        else:
            self._end("cancelled", None)

    def _fail(self, fault: BaseException) -> None:
        self._record.failed(fault)
        self._end("failed", Failed(message=f"The tool failed: {type(fault).__name__}."))

    def _succeed(self, given: Outcome) -> None:
        try:
            outcome = kept(given, self._max_result_bytes)
        except Exception as e:  # noqa: BLE001 -- the result is somebody else's object
            self._record.wrong(e)
            self._end("failed", Failed(message="The tool gave a result of the wrong kind."))
            return
        public = given.public if isinstance(given, Output) else b"null"
        if public != b"null" and isinstance(outcome, Output) and outcome.public == b"null":
            self._record.public_left_out(len(public))
        self._end(type(outcome).__name__.lower(), outcome)

    def _end(self, how: str, outcome: Outcome | None) -> None:
        if self._ended:
            return
        self._ended = True
        self._record.end(how, outcome)
        if outcome is None or self._over:
            self.outcome.cancel()
        else:
            try:
                self._finished(outcome)
            except Exception as e:  # noqa: BLE001 -- what cannot be shown is still a result
                self._record.unshown(e)
            # Whoever waited for it may have been cancelled, and with it the future.
            if not self.outcome.done():
                self.outcome.set_result(outcome)
        self._gone(self)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


async def _awaited(run: Callable[[], Awaitable[Outcome]]) -> Outcome:
    """What `run` does before it gives something to await is a part of the execution, too."""
    return await run()
