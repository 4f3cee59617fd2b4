"""What of a turn outlives a round: serialisable, and all that a continuation needs."""

import time

import msgspec

from bascule.protocols import json
from bascule.protocols.responses.items import Flat, Item
from bascule.protocols.responses.response import Usage
from bascule.toolkit.citations import Citations
from bascule.toolkit.names import Identity
from bascule.toolkit.outcome import SuspendedCall


class Origin(msgspec.Struct, omit_defaults=True):
    """What an item was at its upstream; stored beside it."""

    upstream: str = ""
    model_name: str = ""
    details: list[msgspec.Raw] = []
    """Of a reasoning item: records that this upstream's model alone reads; of a server that speaks
    Responses, the item itself."""
    model: list[Flat] | None = None
    """What the item says to the model, where the item itself does not."""
    id: str = ""
    """The item's id at a server that speaks Responses."""


class OutputItem(msgspec.Struct):
    """One finished output item."""

    index: int
    type: str
    id: str
    data: msgspec.Raw
    """As it is stored."""
    origin: Origin | None = None
    gated: msgspec.Raw | None = None
    """As this request's client sees it, where that is less."""

    @property
    def shown(self) -> msgspec.Raw:
        return self.data if self.gated is None else self.gated

    def item(self) -> Item:
        return Item(
            self.type, self.id, bytes(self.data), self.origin.model if self.origin else None
        )


class TurnState(msgspec.Struct, kw_only=True):
    """The state at a round's boundary."""

    response_id: str
    owner: str
    created_at: int = msgspec.field(default_factory=lambda: int(time.time()))
    round: int = 0
    sequence_number: int = 0
    next_index: int = 0
    usage: Usage | None = None
    service_tier: str = "default"
    output: list[OutputItem] = []
    model_items: list[Flat] = []
    """The history as the next round's model will see it."""
    declared: list[msgspec.Raw] = []
    """Tools that calls of this turn declared."""
    suspended: list[SuspendedCall] = []
    citations: Citations = msgspec.field(default_factory=Citations)
    """The sources that the model may cite: those of the chain, and this turn's own."""

    def take(self, earlier: "Continuation") -> None:
        """What the turn before has left."""
        self.declared = list(earlier.declared)
        if earlier.citations is not None:
            self.citations = earlier.citations

    def continuation(
        self, suspended: list[SuspendedCall], names: dict[Identity, str]
    ) -> "Continuation":
        """What this turn leaves."""
        left = Continuation(suspended=suspended, declared=self.declared)
        if self.citations.last:
            left.citations = self.citations
        left.set_names(names)
        return left

    def set_tier(self, used: str | None) -> None:
        """The tier that the server says it used; `fast` is shown as `priority`."""
        if used is not None:
            self.service_tier = "priority" if used == "fast" else used

    def add_usage(self, usage: Usage | None) -> None:
        if usage is not None:
            self.usage = self.usage or Usage()
            self.usage.add(usage)


class Additional(msgspec.Struct, array_like=True):
    """An `additional_tools`, and the key of the item that it follows; empty for none."""

    after: str
    data: msgspec.Raw


NameRow = tuple[str | None, str, str, str]
"""Namespace, name, kind, wire name."""


class Continuation(msgspec.Struct, omit_defaults=True):
    """What is stored with a response for the turns that continue it."""

    plain: list[str] = []
    """Names of functions that went out verbatim: most of them."""
    names: list[NameRow] = []
    suspended: list[SuspendedCall] = []
    declared: list[msgspec.Raw] = []
    additional: list[Additional] = []
    citations: Citations | None = None
    """None for a chain that has had no sources."""

    def name_table(self) -> dict[Identity, str]:
        table = {Identity(None, name, "function"): name for name in self.plain}
        for namespace, name, kind, wire in self.names:
            table[Identity(namespace, name, kind)] = wire
        return table

    def set_names(self, table: dict[Identity, str]) -> None:
        for identity, wire in table.items():
            if identity == (None, wire, "function"):
                self.plain.append(wire)
            else:
                self.names.append((identity.namespace, identity.name, identity.kind, wire))


decode_continuation = json.decoder(Continuation)
decode_origin = json.decoder(Origin)
