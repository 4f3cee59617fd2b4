"""Items that a client adds to a conversation by itself."""

from collections.abc import Sequence

from bascule.engine.chain import input_row
from bascule.engine.references import unknown_item
from bascule.protocols.responses.conversation import already_in_conversation
from bascule.protocols.responses.items import ITEM_REFERENCE, Item
from bascule.state.store import ItemRow, Store


async def new_items(
    store: Store, owner: str, items: Sequence[Item], param: str = "items"
) -> tuple[list[ItemRow], list[str]]:
    """Rows of those that are not stored yet, and the keys of all, in order.

    An id that this owner has an item under stands for that item, as recorded. Raises ApiError: 404
    for a reference to an unknown item, 400 for one item twice.
    """
    ids = [item.id for item in items if item.id is not None]
    known = await store.find(owner, ids) if ids else {}
    rows: list[ItemRow] = []
    keys: list[str] = []
    for i, item in enumerate(items):
        row = known.get(item.id or "")
        if row is None:
            if item.type == ITEM_REFERENCE:
                raise unknown_item(item.id or "", f"{param}[{i}]")
            row = input_row(item)
            rows.append(row)
        keys.append(row.key)
    if len(set(keys)) < len(keys) or len({row.id for row in rows}) < len(rows):
        raise already_in_conversation(param)
    return rows, keys
