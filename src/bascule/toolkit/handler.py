"""What a tool type brings: `ToolHandler` for every type, `ToolExecutor` for what the gateway runs."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Generic, Literal, TypeVar

import msgspec
from msgspec import Raw

from bascule.protocols.responses.items import Flat, Item
from bascule.protocols.responses.request import ToolRef
from bascule.toolkit.names import Identity, Ledger
from bascule.toolkit.outcome import Call, Outcome
from bascule.toolkit.projection import ItemWriter, Projection

P = TypeVar("P")

Policy = Literal["parallel", "per_name", "exclusive"]
"""Which of a round's calls may overlap: all, all but calls of the same name, or none."""


class Tool(msgspec.Struct, frozen=True):
    """A function that a declaration brings for the model, not yet named."""

    identity: Identity
    description: str | None = None
    parameters: Raw = Raw()
    strict: bool | None = None


class ExecutionContext(msgspec.Struct):
    """What an execution may know of its turn."""

    response_id: str
    round: int


class ToolExecutor(ABC, Generic[P]):
    """Runs calls. Whatever it raises becomes an error result of that call alone."""

    policy: ClassVar[Policy] = "per_name"
    timeout: float = 60.0
    """Seconds, from when the call runs."""

    @abstractmethod
    async def execute(self, call: Call, params: P, context: ExecutionContext) -> Outcome:
        """Run the call; its arguments are the model's text and may be anything."""

    async def resume(
        self,
        call: Call,
        params: P,
        state: bytes,
        answers: Sequence[Item],
        context: ExecutionContext,
    ) -> Outcome:
        """Go on with a call that was suspended, with the input items that it awaited, in order."""
        raise NotImplementedError(f"{type(self).__name__} suspends but cannot resume")


class ToolHandler(ABC, Generic[P]):
    """One declared type. Stages: parse, discover, normalize, then flatten and project per item."""

    types: ClassVar[frozenset[str]]
    """Values of `type` in a declaration."""
    item_types: ClassVar[frozenset[str]] = frozenset()
    """Types of history items that are this handler's to flatten."""
    discovers: ClassVar[bool] = False
    """Whether `discover` does something; such plans are not kept."""
    lenient: ClassVar[bool] = False
    """Whether the projection makes sense of broken arguments itself, so that nobody repairs them."""

    @abstractmethod
    def parse(self, declaration: Raw, param: str) -> P:
        """Validate; raises ApiError 400 with the path below `param`."""

    async def discover(self, params: P) -> P:
        """Ask others what the tool consists of."""
        return params

    @abstractmethod
    def normalize(self, params: P) -> Sequence[Tool]:
        """The functions for the model."""

    def echo(self, declaration: Raw, params: P) -> Raw:
        """The declaration as the response shows it."""
        return declaration

    def executor(self, params: P) -> ToolExecutor[P] | None:
        """Who runs the calls, if the gateway does; None means that the client does."""
        return None

    def chosen(self, ref: ToolRef, identity: Identity) -> bool:
        """Whether a tool choice of this type names this tool."""
        return ref.name == identity.name and ref.namespace == identity.namespace

    def project(self, writer: ItemWriter, call: Call, identity: Identity) -> Projection | None:
        """How a call is shown; None for a plain function call."""
        return None

    def flatten(self, item: Item, names: Ledger, param: str) -> Sequence[Flat]:
        """A history item as the model's server can read it. Raises ApiError 400 below `param`."""
        raise NotImplementedError(f"{type(self).__name__} has item types but does not flatten")

    def answers(self, item: Item) -> str | None:
        """The key of what an input item answers, to match `Suspended.awaits`; None if nothing."""
        return None


class Handlers:
    """The handlers of a gateway, by the types they serve."""

    def __init__(self, handlers: Sequence["ToolHandler[Any]"]) -> None:
        self._by_type: dict[str, ToolHandler[object]] = {}
        self._by_item: dict[str, ToolHandler[object]] = {}
        for handler in handlers:
            for name in handler.types:
                if self._by_type.setdefault(name, handler) is not handler:
                    raise ValueError(f"two handlers for the tool type {name!r}")
            for name in handler.item_types:
                if self._by_item.setdefault(name, handler) is not handler:
                    raise ValueError(f"two handlers for the item type {name!r}")

    def for_type(self, type_: str) -> "ToolHandler[object] | None":
        return self._by_type.get(type_)

    def for_item(self, type_: str) -> "ToolHandler[object] | None":
        return self._by_item.get(type_)
