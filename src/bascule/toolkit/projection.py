"""How a call is shown to the client: the model writes functions, the client reads items."""

from collections.abc import Mapping
from typing import Any, ClassVar, Protocol

from bascule.protocols.responses.events import IndexEvent, ItemEvent
from bascule.protocols.responses.items import ItemStatus
from bascule.toolkit.outcome import Call, Outcome


class ItemWriter(Protocol):
    """One item's place in the stream. Numbers, ids and indexes are set by the writer."""

    item_id: str

    def added(self, item: Any) -> None:
        """The item as it begins; must come first."""
        ...

    def event(self, event: ItemEvent | IndexEvent) -> None: ...

    def done(self, item: Any) -> None:
        """The finished item; must come last."""
        ...


class Projection:
    """Shows one call. Made when the call's name is known, driven as its arguments arrive.

    For a client-owned call `complete` writes the finished item. For a gateway-owned one it shows
    that the work begins, and `finish` writes the finished item.

    A client-owned call of which nothing was shown need not be: with a `fault` the model is told of it
    and may call again, without one nothing is lost (the model was cut before it said anything). If
    something was shown, `complete` finishes it as `incomplete`, and a `fault` then fails the turn:
    nobody may act upon half a call.
    """

    id_prefix: ClassVar[str] = "fc"
    fault: str | None = None
    """Why the call makes no sense, in words for the model; set by `complete`."""
    members: Mapping[str, Any] = {}
    """What the declaration adds to the items of its calls; set before `begin`."""

    def __init__(self, writer: ItemWriter, call: Call) -> None:
        """`call` has no arguments yet."""
        self.writer = writer
        self.call = call

    def begin(self) -> None:
        raise NotImplementedError

    def arguments(self, fragment: str) -> None:
        """A fragment of the arguments as the model wrote it."""

    def complete(self, arguments: str, status: ItemStatus) -> None:
        """All arguments; with status `incomplete` the model was cut and nothing will run."""
        raise NotImplementedError

    def finish(self, outcome: Outcome) -> None:
        """The outcome of a gateway-owned call."""
        raise NotImplementedError
