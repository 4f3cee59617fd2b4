"""An execution step by step: how long each one held the event loop, and an end that is certain."""

from asyncio import CancelledError
from collections.abc import Callable, Coroutine, Generator
from threading import get_ident
from time import perf_counter
from typing import Any, Final, NoReturn, TypeVar

from bascule.toolkit.watch import running

T = TypeVar("T")

BLOCKED_SECONDS: Final = 0.25
"""What one step may hold the event loop. Every turn of the gateway stands still meanwhile."""


class ToolExit(RuntimeError):
    """An executor wanted to end the process."""


class Steps(Coroutine[Any, Any, T]):
    """Wraps an execution's coroutine for the task that drives it.

    `blocked` is told the seconds of each step that took `BLOCKED_SECONDS` or more, `stuck` of one that
    has not ended yet (see `Watch`), in another thread. SystemExit becomes `ToolExit`, an error of this
    call alone; KeyboardInterrupt is the operator's and ends the loop. After `tear` the next step is the
    last one, whatever the coroutine makes of it.
    """

    __slots__ = ("_blocked", "_clock", "_coroutine", "_send", "_stuck", "_torn", "began")

    def __init__(
        self,
        coroutine: Coroutine[Any, Any, T],
        blocked: Callable[[float], None],
        stuck: Callable[[float, str], None],
        clock: Callable[[], float] = perf_counter,
    ) -> None:
        self._coroutine = coroutine
        self._send = coroutine.send
        self._blocked = blocked
        self._clock = clock
        self._torn = False
        self._stuck = stuck
        self.began = 0.0

    def tear(self) -> None:
        """Give up on a coroutine that goes on although it was cancelled. It is closed: its `finally`
        blocks run as far as they do not wait."""
        self._torn = True

    def stuck(self, seconds: float, place: str) -> None:
        """A step has not ended yet."""
        self._stuck(seconds, place)

    def send(self, value: Any, /) -> Any:
        # Each await of an execution comes through here: nothing is called that need not be.
        began = self.began = self._clock()
        thread = get_ident()
        running[thread] = self
        try:
            if self._torn:
                self._end()
            return self._send(value)
        except SystemExit as e:
            raise ToolExit from e
        finally:
            del running[thread]
            took = self._clock() - began
            if took >= BLOCKED_SECONDS:
                self._blocked(took)

    def throw(self, *raised: Any) -> Any:
        began = self.began = self._clock()
        thread = get_ident()
        running[thread] = self
        try:
            if self._torn:
                self._end()
            return self._coroutine.throw(*raised)
        except SystemExit as e:
            raise ToolExit from e
        finally:
            del running[thread]
            took = self._clock() - began
            if took >= BLOCKED_SECONDS:
                self._blocked(took)

    def close(self) -> None:
        self._coroutine.close()

    def __await__(self) -> Generator[Any, Any, T]:
        return self._coroutine.__await__()

    def _end(self) -> NoReturn:
        self._coroutine.close()
        raise CancelledError
