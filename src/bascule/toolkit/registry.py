"""Who owns which call: the turn's table from wire names to entries."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum

from msgspec import Raw

from bascule.toolkit.handler import ToolExecutor, ToolHandler
from bascule.toolkit.names import Identity


class Owner(Enum):
    """Who executes a call. UPSTREAM types run in the model server and never come back as calls;
    LOCAL is the client's own runtime."""

    CLIENT = "client"
    GATEWAY = "gateway"
    UPSTREAM = "upstream"
    LOCAL = "local"


@dataclass(frozen=True, slots=True)
class Binding:
    """An executor with the parameters it was declared with; paired by the handler, so the types
    agree although they are erased here."""

    executor: ToolExecutor[object]
    params: object


@dataclass(frozen=True, slots=True)
class Ownership:
    """The owner, and who runs the call there. A gateway-owned tool without a binding answers every
    call with an error."""

    owner: Owner
    binding: Binding | None = None


CLIENT = Ownership(Owner.CLIENT)


@dataclass(frozen=True, slots=True)
class ToolEntry:
    """One callable tool of the turn."""

    identity: Identity
    wire: str
    handler: ToolHandler[object]
    ownership: Ownership
    declaration: Raw


class ToolRegistry:
    """Request-scoped; routing is a look-up here and nothing else."""

    def __init__(self, entries: Iterable[ToolEntry] = ()) -> None:
        self._entries = {entry.wire: entry for entry in entries}

    def lookup(self, wire: str) -> ToolEntry | None:
        """None for a name that the model made up: such a call is the client's."""
        return self._entries.get(wire)

    def __iter__(self) -> Iterator[ToolEntry]:
        return iter(self._entries.values())

    def __len__(self) -> int:
        return len(self._entries)
