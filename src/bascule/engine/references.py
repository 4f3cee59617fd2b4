"""Item references: each stands for an item that is stored."""

from collections.abc import Collection, Sequence

from bascule.engine.state import Origin, decode_origin
from bascule.protocols.errors import ApiError, invalid
from bascule.protocols.responses.items import ITEM_REFERENCE, Item, stored_items
from bascule.state.store import ItemRow, Store

Stored = tuple[Item, Origin | None]
"""An item of the store, and what was kept of its origin."""


def read_row(row: ItemRow) -> Stored:
    return read_rows([row])[0]


def read_rows(rows: Sequence[ItemRow]) -> list[Stored]:
    """All of a history at once."""
    items = stored_items([(row.type, row.id, row.data) for row in rows])
    for item, row in zip(items, rows, strict=True):
        item.key = row.key
    origins = [None if row.origin is None else decode_origin(row.origin) for row in rows]
    return list(zip(items, origins, strict=True))


async def resolve(
    store: Store, owner: str, items: Sequence[Item], present: Collection[str], param: str = "input"
) -> tuple[list[Item], list[Stored]]:
    """The items with stored ones in the place of references, and these with their origins.

    `present` are keys that the model sees anyway. Raises ApiError: 404 that names the reference
    whose item this owner does not have, 400 one whose item is there already.
    """
    wanted = [item.id for item in items if item.type == ITEM_REFERENCE and item.id is not None]
    rows = await store.find(owner, wanted)
    resolved: list[Item] = []
    found: dict[str, Stored] = {}
    for i, item in enumerate(items):
        if item.type != ITEM_REFERENCE:
            resolved.append(item)
            continue
        row = rows.get(item.id or "")
        if row is None:
            raise unknown_item(item.id or "", f"{param}[{i}]")
        if row.key in present or row.key in found:
            raise duplicate_item(row.id, f"{param}[{i}]")
        found[row.key] = read_row(row)
        resolved.append(found[row.key][0])
    return resolved, list(found.values())


def unknown_item(id_: str, param: str) -> ApiError:
    return ApiError(
        404,
        f"Item with id '{id_}' not found. Items of responses with `store` set to false are not "
        "kept, and deleted ones are gone.",
        param=param,
        code="item_not_found",
        type="invalid_request_error",
    )


def duplicate_item(id_: str, param: str) -> ApiError:
    return invalid(
        f"Duplicate item found with id '{id_}'. Remove duplicate items from your input and try "
        "again.",
        param,
        "duplicate_item",
    )
