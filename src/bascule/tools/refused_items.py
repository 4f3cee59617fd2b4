"""Items that a model cannot be told of here, and whose loss would change what it is asked."""

from collections.abc import Sequence
from typing import ClassVar

from bascule.protocols import capabilities
from bascule.protocols.responses.items import Flat, Item
from bascule.toolkit.names import Ledger
from bascule.tools.items_only import ItemsOnly


class RefusedItems(ItemsOnly):
    """Refuses by name, with the reason that the matrix gives."""

    item_types: ClassVar[frozenset[str]] = frozenset(
        name for name, row in capabilities.ITEMS.items() if row.chat.always("refused")
    )

    def flatten(self, item: Item, names: Ledger, param: str) -> Sequence[Flat]:
        raise capabilities.refusal(capabilities.ITEMS[item.type], f"{param}.type")
