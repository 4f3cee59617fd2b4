"""Which calls of a turn may run now: the window, and the tools' policies."""

from collections.abc import Iterator
from typing import Generic, Protocol, TypeVar

from bascule.toolkit.executor import Policy


class Admissible(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def policy(self) -> Policy: ...


A = TypeVar("A", bound=Admissible)


class Admission(Generic[A]):
    """Calls wait here in the order in which they were submitted, and hold a place of the window only
    while they run.

    Two calls exclude each other if one of them is exclusive, or if they have one name and one of them
    is per name. A call waits for every earlier one that it excludes, running or not, so that none is
    overtaken for ever; those that exclude nobody pass by.
    """

    def __init__(self, width: int) -> None:
        self._width = width
        self._waiting: list[A] = []
        self._running: list[A] = []

    def join(self, call: A) -> None:
        self._waiting.append(call)

    def leave(self, call: A) -> None:
        """The call has ended, or will not run."""
        if call in self._running:
            self._running.remove(call)
        elif call in self._waiting:
            self._waiting.remove(call)

    @property
    def waiting(self) -> tuple[A, ...]:
        return tuple(self._waiting)

    @property
    def running(self) -> tuple[A, ...]:
        return tuple(self._running)

    def admit(self) -> list[A]:
        """Those that may run from now on, in order. They hold their places until they `leave`."""
        if not self._waiting:
            return []
        admitted = list(self._free())
        if admitted:
            chosen = set(map(id, admitted))
            self._waiting = [call for call in self._waiting if id(call) not in chosen]
        return admitted

    def _free(self) -> Iterator[A]:
        if any(call.policy == "exclusive" for call in self._running):
            return
        names = {call.name for call in self._running}
        alone = {call.name for call in self._running if call.policy == "per_name"}
        for at, call in enumerate(self._waiting):
            if len(self._running) >= self._width:
                return
            if call.policy == "exclusive":
                if at == 0 and not self._running:
                    self._running.append(call)
                    yield call
                return
            if call.name not in (names if call.policy == "per_name" else alone):
                self._running.append(call)
                yield call
            names.add(call.name)
            if call.policy == "per_name":
                alone.add(call.name)
