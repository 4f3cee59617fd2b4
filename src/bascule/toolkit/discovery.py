"""Stage 2: what a handler may know while it asks others, and how it shows what it found."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import msgspec

from bascule.protocols.responses.items import Item
from bascule.toolkit.projection import ItemWriter


class Discovery(msgspec.Struct, frozen=True):
    """The turn for which a tool is looked up."""

    owner: str = ""
    """Whose turn it is: a digest, empty without authentication."""
    earlier: Sequence[Item] = ()
    """The items before: of the chain, of the input, and of this turn so far."""


ALONE = Discovery()


class Announcement(ABC):
    """An item that tells the client what was found. It is shown whole, before the model's own."""

    id_prefix: ClassVar[str]

    @abstractmethod
    def show(self, writer: ItemWriter) -> None:
        """Write the item and its events."""
