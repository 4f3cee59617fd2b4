"""The turn's table from wire names to tools."""

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw

from bascule.toolkit.handler import ToolHandler
from bascule.toolkit.names import DEFAULT_NAMESPACE, Identity
from bascule.toolkit.outcome import Call
from bascule.toolkit.ownership import Ownership
from bascule.toolkit.projection import ItemWriter, Projection

if TYPE_CHECKING:
    from bascule.toolkit.grammar import TextGrammar


class ToolEntry(msgspec.Struct, frozen=True):
    """One callable tool of the turn."""

    identity: Identity
    wire: str
    handler: ToolHandler[Any]
    ownership: Ownership
    declaration: Raw
    shown_namespace: str | None = None
    """The namespace in the client's own words."""
    offered: bool = True
    """Whether the model is told of it."""
    lenient: bool = False
    """Whether nobody repairs what it is called with."""
    members: Mapping[str, Any] = {}
    """What the declaration adds to the items of its calls."""
    grammar: "TextGrammar | None" = None
    """What the one text that it is called with has to match."""

    @property
    def shown_identity(self) -> Identity:
        """With the namespace in the client's own words."""
        return self.identity._replace(namespace=self.shown_namespace)

    @property
    def asks(self) -> bool:
        """Whether it is known only of a complete call whether it may run."""
        return self.ownership.binding is not None and self.ownership.binding.rule is not None

    def project(self, writer: ItemWriter, call: Call) -> Projection | None:
        """How a call of it is shown; None for a plain function call."""
        shown = self.shown_identity
        binding = self.ownership.binding
        if binding is not None:
            return binding.executor.project(writer, call, shown, binding.params)
        projection = self.handler.restore(writer, call, shown)
        if projection is not None and self.members:
            projection.members = self.members
        return projection


class ToolRegistry:
    """Request-scoped; routing is a look-up here and nothing else."""

    def __init__(self, entries: Iterable[ToolEntry] = ()) -> None:
        self._entries = {entry.wire: entry for entry in entries}
        self._others: dict[str, ToolEntry | None] | None = None
        self.has_grammars = any(entry.grammar is not None for entry in self._entries.values())
        """Whether calls of some tool have to match a grammar."""

    def lookup(self, name: str) -> ToolEntry | None:
        """The tool that a model calls by its wire name, by `namespace.name`, or by its bare name where
        that is unique. None for a name that the model made up: such a call is the client's."""
        found = self._entries.get(name)
        if found is not None:
            return found
        if self._others is None:
            self._others = self._other_names()
        return self._others.get(name)

    def _other_names(self) -> dict[str, ToolEntry | None]:
        """None for a name that means several tools."""
        others: dict[str, ToolEntry | None] = {}
        for entry in self._entries.values():
            namespace, name, _ = entry.identity
            dotted = f"{namespace or DEFAULT_NAMESPACE}.{name}"
            for other in {dotted, name}:
                others[other] = None if other in others else entry
        return others

    def __iter__(self) -> Iterator[ToolEntry]:
        return iter(self._entries.values())

    def __len__(self) -> int:
        return len(self._entries)
