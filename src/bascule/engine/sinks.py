"""Where a turn's events go."""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from bascule.protocols.errors import ApiError
from bascule.protocols.responses.events import Event


class Source(Protocol):
    """What can be made to wait while a sink cannot write."""

    def pause(self) -> None: ...

    def resume(self) -> None: ...


class Notes(msgspec.Struct):
    """What is known about a turn before its first event leaves."""

    ignored: list[str]
    warnings: list[str]


class Sink(Protocol):
    """Takes a turn's events, synchronously; one that cannot write pauses the source.

    Calls come in this order: `read_from` with each round, `begin` once, `emit` any number of times, `close` once. `refuse` takes
    the place of all of them when the turn fails before it began, and ends a sink that does not
    stream at any time. After the reader has gone all calls are harmless.
    """

    streams: bool
    """Whether the client reads events as they come; else it sees the result alone."""

    def read_from(self, source: Source | None) -> None:
        """What the next events come from; None between rounds."""
        ...

    def begin(self, notes: Notes) -> None: ...

    def emit(self, batch: Sequence[Event]) -> None: ...

    def close(self) -> None: ...

    def refuse(self, error: ApiError) -> None: ...
