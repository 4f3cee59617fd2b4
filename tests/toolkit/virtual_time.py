"""An event loop whose clock jumps to the next timer, so that hours pass in no time, the same each run."""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class Deadlock(AssertionError):
    """Everything waits, and no timer will ever fire."""


class _Jumping(selectors.DefaultSelector):  # type: ignore[misc,valid-type]
    now = 0.0

    def select(self, timeout: float | None = None) -> Any:
        ready = super().select(0)
        if not ready and timeout is None:
            raise Deadlock
        if not ready and timeout is not None and timeout > 0:
            self.now += timeout
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._jumping = _Jumping()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run to the end on a loop of virtual time, and hold it to leaving no task behind."""
    loop = VirtualLoop()
    asyncio.set_event_loop(loop)
    try:
        result = loop.run_until_complete(main)
        left = asyncio.all_tasks(loop)
        assert not left, f"tasks were left behind: {left}"
        return result
    finally:
        asyncio.set_event_loop(None)
        loop.close()
