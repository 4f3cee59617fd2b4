"""`ToolHandler`: what every declared tool type brings. Who runs calls is a `ToolExecutor` beside it."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, TypeVar

import msgspec
from msgspec import Raw

from bascule.protocols.responses.items import Flat, Item, Passed
from bascule.protocols.responses.request import ToolRef
from bascule.protocols.upstream import FAMILY_ITEMS, ModelSurface
from bascule.telemetry.logger import Logger
from bascule.toolkit.approval import Answer
from bascule.toolkit.discovery import Announcement, Discovery
from bascule.toolkit.names import Identity, Ledger
from bascule.toolkit.options import ToolOptions
from bascule.toolkit.outcome import Call, SuspendedCall
from bascule.toolkit.ownership import CLIENT, Ownership
from bascule.toolkit.projection import ItemWriter, Projection

if TYPE_CHECKING:
    from bascule.toolkit.grammar import TextGrammar

P = TypeVar("P")

_log = Logger("bascule.tools")


class Tool(msgspec.Struct, frozen=True):
    """A function that a declaration brings for the model, not yet named."""

    identity: Identity
    description: str | None = None
    parameters: Raw = Raw()
    strict: bool | None = None
    shown_namespace: str | None = None
    """The namespace in the client's own words, where it has one."""
    declaration: Raw = Raw()
    """The tool's own part of a declaration that brings several; empty for the whole."""
    place: str = ""
    """Where that part stands, as the start of a path below the declaration: `tools[1].`."""
    offered: bool = True
    """Whether the model is told of it; else a call of it is answered with an error."""
    lenient: bool = False
    """Whether its shape makes sense of broken arguments itself, so that nobody repairs them."""
    grammar: "TextGrammar | None" = None
    """What the one text that it is called with has to match."""
    deferred: bool = False
    """Whether a model that can search is told of it only when it has searched."""
    searches: bool = False
    """Whether the model can search for deferred tools with it."""
    ignored: Sequence[str] = ()
    """Members of the declaration that have no effect, as paths below it."""
    members: Mapping[str, Any] = {}
    """Members that the declaration adds to the items of its calls."""


class Brought(msgspec.Struct, frozen=True):
    """A declaration that is no part of the request's list."""

    declaration: Raw
    place: str
    """Where it stands, for errors."""
    found: bool = False
    """Whether a search has found it: it is not deferred any more."""


class Health(msgspec.Struct):
    """How somebody outside does that a tool type depends on."""

    type: str
    """The tool type."""
    name: str
    state: str = "closed"
    """`connected`, `connecting`, `backing_off` or `closed`."""
    error: str | None = None
    """Why it could not be reached the last time."""
    calls: int = 0
    failures: int = 0
    connects: int = 0


class ToolHandler(ABC, Generic[P]):
    """One declared type. Stages: parse, discover, normalize, then flatten and restore per item."""

    types: ClassVar[frozenset[str]]
    """Values of `type` in a declaration."""
    item_types: ClassVar[frozenset[str]] = frozenset()
    """Types of history items that are this handler's to flatten."""
    served: ClassVar[bool] = True
    """Whether declarations mean something here; else only servers that know them are given them."""
    names_late: ClassVar[bool] = True
    """Whether the names that its history items need are given after those of the declared tools, so
    that a function which bears a hosted tool's name keeps it."""
    option_type: ClassVar[type[ToolOptions] | None] = None
    """What `[tools.TYPE]` may hold. A class that has some is made with them, `Handler(options)`;
    types that the gateway never runs have none."""
    takes_config: ClassVar[bool] = False
    """Whether the class is made with the whole configuration besides, `Handler(options, config)`: what
    is said of it stands in several places."""
    ours: ClassVar[bool] = False
    """Whether the types are this gateway's own: a server that runs all hosted tools by itself does
    not know them."""
    discovers: ClassVar[bool] = False
    """Whether `discover` and `announce` do something; such plans are not kept."""

    @abstractmethod
    def parse(self, declaration: Raw, param: str) -> P:
        """Validate; raises ApiError 400 with the path below `param`."""

    async def discover(self, params: P, discovery: Discovery) -> P:
        """Ask others what the tool consists of. Declarations of one request are asked for together."""
        return params

    def announce(self, params: P) -> Announcement | None:
        """What the client is shown of what `discover` found."""
        return None

    def recall(self, params: P) -> None:
        """The declaration comes from an earlier turn, without its secrets: a call that waited goes on,
        and this request does not declare its tool. Raises ApiError 400 if it cannot go on so."""

    @abstractmethod
    def normalize(self, params: P) -> Sequence[Tool]:
        """The functions for the model."""

    def masked(self, declaration: Raw) -> Raw:
        """The declaration without its secrets: what may be stored, and shown."""
        return declaration

    def echo(self, declaration: Raw, params: P) -> Raw:
        """The declaration as the response shows it."""
        return self.masked(declaration)

    def owner(self, params: P, identity: Identity) -> Ownership:
        """Who executes the calls of one tool that `normalize` gave: the client, unless the handler
        says otherwise."""
        return CLIENT

    def chosen(self, ref: ToolRef, identity: Identity) -> bool:
        """Whether a tool choice of one of this handler's types names this tool. By default a type has
        one tool, and the type is its name."""
        return True

    def restore(self, writer: ItemWriter, call: Call, identity: Identity) -> Projection | None:
        """A client-owned call in the shape in which its tool was declared; None for a plain function
        call. `identity` has the namespace in the client's own words."""
        return None

    def flatten(self, item: Item, names: Ledger, param: str) -> Sequence[Flat]:
        """A history item as the model's server can read it. Raises ApiError 400 below `param`."""
        raise NotImplementedError(f"{type(self).__name__} has item types but does not flatten")

    def forward(
        self, item: Item, names: Ledger, surface: ModelSurface, param: str
    ) -> Sequence[Flat]:
        """A history item for a server that takes this type as it is. Raises ApiError 400 below
        `param`."""
        return [Passed(item.unminted())]

    async def aclose(self) -> None:
        """Let go of what it holds: the gateway stops."""

    def health(self) -> Sequence[Health]:
        """How those do that it depends on: who watches the gateway is told."""
        return ()

    settles: ClassVar[bool] = False
    """Whether `settle` does something."""

    def settle(self, items: Sequence[tuple[Item, str]], names: Ledger) -> Sequence[SuspendedCall]:
        """Items of this handler's types that an input has, with their places, before each is
        flattened: what several of them say only together. May set `model` of some. Gives the calls
        that wait, and were answered. Raises ApiError 400 below an item's place."""
        return ()

    brings: ClassVar[frozenset[str]] = frozenset()
    """Item types that bring declarations along: `brought` does something for them."""

    unlisted: ClassVar[frozenset[str]] = frozenset()
    """Those of `brings` whose items are kept in the turn's record, and are no items that could be listed."""

    def brought(self, item: Item, param: str) -> Sequence[Brought]:
        """The declarations that an item of a history brings, for it and all that comes after. Raises
        ApiError 400 below `param`."""
        return ()

    def is_late(self, item: Item, param: str) -> bool:
        """Whether an item is read only when the turn's tools have their names. Raises ApiError 400."""
        return self.names_late

    def answers(self, item: Item) -> str | None:
        """The key of what an input item answers, to match `Suspended.awaits`; None if nothing."""
        return None

    def unanswered(self, key: str) -> str:
        """What a client is told that leaves out an item which answers."""
        return f"No tool output found for function call {key}."

    def approval(self, item: Item, param: str) -> Answer:
        """What an item says that answers a `Question`. Raises ApiError 400 below `param`."""
        raise NotImplementedError(f"{type(self).__name__} asks but cannot read the answer")


class Handlers:
    """The handlers of a gateway, by the types they serve."""

    def __init__(
        self,
        handlers: Sequence["ToolHandler[Any]"],
        aliases: "Mapping[str, ToolHandler[Any]] | None" = None,
    ) -> None:
        """`aliases` are handlers for functions of a certain name."""
        self._aliases: Mapping[str, ToolHandler[object]] = aliases or {}
        self._by_type: dict[str, ToolHandler[object]] = {}
        self._by_item: dict[str, ToolHandler[object]] = {}
        self.brings: Final[frozenset[str]] = frozenset().union(*(h.brings for h in handlers))
        """Item types that bring declarations along."""
        self.unlisted: Final[frozenset[str]] = frozenset().union(*(h.unlisted for h in handlers))
        """Those of them that are kept in the turn's record alone."""
        for handler in handlers:
            for name in handler.types:
                if self._by_type.setdefault(name, handler) is not handler:
                    raise ValueError(f"two handlers for the tool type {name!r}")
            for name in handler.item_types:
                if self._by_item.setdefault(name, handler) is not handler:
                    raise ValueError(f"two handlers for the item type {name!r}")

    async def aclose(self) -> None:
        """Close each handler; one that fails keeps nobody from the others."""
        both = [*self._by_type.values(), *self._by_item.values()]
        for handler in {id(handler): handler for handler in both}.values():
            try:
                await handler.aclose()
            except Exception as e:  # noqa: BLE001 -- it may be somebody's plugin
                _log.error("a tool type did not close", handler=type(handler).__name__, exc_info=e)

    def health(self) -> list[Health]:
        """How the outside things of all types do."""
        unique = {id(handler): handler for handler in self._by_type.values()}
        return [health for handler in unique.values() for health in handler.health()]

    def for_type(self, type_: str, name: str | None = None) -> "ToolHandler[object] | None":
        """The handler of a declaration of this type, and of this name if it has one."""
        if type_ == "function" and name is not None and name in self._aliases:
            return self._aliases[name]
        return self._by_type.get(type_)

    def for_item(self, type_: str) -> "ToolHandler[object] | None":
        return self._by_item.get(type_)

    def passes(self, surface: ModelSurface, item_type: str) -> bool:
        """Whether a server is given a history item of this type as it is."""
        if item_type in FAMILY_ITEMS:
            return surface.family
        handler = self._by_item.get(item_type)
        if handler is None or not handler.types or not handler.served:
            return True
        return any(
            type_ == "function" or surface.takes(type_, known=True, ours=handler.ours)
            for type_ in handler.types
        )
