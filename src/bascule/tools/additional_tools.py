"""`additional_tools`: declarations that come in the middle of a history, for all that comes after them."""

from collections.abc import Sequence
from typing import ClassVar, Literal

import msgspec
from msgspec import Raw

from bascule.protocols.responses.items import Flat, Item
from bascule.toolkit.handler import Brought
from bascule.toolkit.names import Ledger
from bascule.tools.items_only import ItemsOnly


class AdditionalTools(msgspec.Struct):
    """View of an `additional_tools`."""

    tools: list[Raw]
    role: Literal["developer"]


class AdditionalToolsHandler(ItemsOnly):
    """The model knows tools by their declarations, so the item itself says nothing to it."""

    item_types: ClassVar[frozenset[str]] = frozenset({"additional_tools"})
    brings: ClassVar[frozenset[str]] = item_types
    unlisted: ClassVar[frozenset[str]] = item_types

    def brought(self, item: Item, param: str) -> Sequence[Brought]:
        tools = item.view(AdditionalTools, param).tools
        return [Brought(tool, f"{param}.tools[{i}]") for i, tool in enumerate(tools)]

    def flatten(self, item: Item, names: Ledger, param: str) -> Sequence[Flat]:
        item.view(AdditionalTools, param)
        return ()
