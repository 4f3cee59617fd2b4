"""A thread that looks whether an execution holds the event loop right now.

What holds it for ever would otherwise never be told: everything else in the process waits for it.
"""

import sys
import threading
import time
from collections.abc import Iterator
from typing import Final, Protocol

STUCK_SECONDS = 1.0
"""A step that takes so long is told of while it still runs."""
INTERVAL = 0.25
"""Seconds between two looks, while executions run; else the thread sleeps."""
_FRAMES: Final = 3


class Step(Protocol):
    """What runs on a thread's event loop."""

    @property
    def began(self) -> float:
        """By `time.perf_counter`."""
        ...

    def stuck(self, seconds: float, place: str) -> None:
        """Told once for each step, in the watching thread, with the lines of code that run."""
        ...


running: Final[dict[int, Step]] = {}
"""The step that runs in a thread, by the thread's identifier."""


class Watch:
    """One for the process; its thread is made for the first execution."""

    def __init__(self) -> None:
        self._held = 0
        self._lock = threading.Lock()
        self._busy = threading.Event()
        self._thread: threading.Thread | None = None

    def hold(self) -> None:
        """An execution begins: look from now on."""
        with self._lock:
            self._held += 1
            if self._held > 1:
                return
            self._busy.set()
            if self._thread is None:
                self._thread = threading.Thread(target=self._look, name="tool-watch", daemon=True)
                self._thread.start()

    def release(self) -> None:
        """An execution has ended."""
        with self._lock:
            self._held -= 1
            if self._held == 0:
                self._busy.clear()

    def _look(self) -> None:
        told: set[tuple[int, float]] = set()
        while True:
            self._busy.wait()
            time.sleep(INTERVAL)
            now = time.perf_counter()
            steps = tuple(running.items())
            told &= {(id(step), step.began) for _, step in steps}
            for thread, step in steps:
                seconds, key = now - step.began, (id(step), step.began)
                if seconds < STUCK_SECONDS or key in told:
                    continue
                place = " < ".join(_places(thread))
                if running.get(thread) is step:
                    told.add(key)
                    step.stuck(seconds, place)


def _places(thread: int) -> Iterator[str]:
    """Where a thread's code is, innermost first."""
    frame = sys._current_frames().get(thread)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    for _ in range(_FRAMES):
        if frame is None:
            return
        yield f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_name}"
        frame = frame.f_back


watch: Final = Watch()
