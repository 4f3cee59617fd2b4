"""What a store reads: functions on an open SQLAlchemy connection, the same for every database."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from sqlalchemy import Connection, bindparam, select

from bascule.state.among import among, listing
from bascule.state.keylist import unpack
from bascule.state.schema import ITEMS, RESPONSES
from bascule.state.store import ItemRow, ResponseRow, StoreError

# Built once: composing a statement costs more than running it.
_RESPONSE: Final = select(RESPONSES).where(
    RESPONSES.c.id == bindparam("response_id"),
    RESPONSES.c.owner == bindparam("owner"),
    ~RESPONSES.c.deleted,
)
_ITEM: Final = select(ITEMS.c.key, ITEMS.c.id, ITEMS.c.type, ITEMS.c.data, ITEMS.c.origin)
_ITEMS: Final = _ITEM.where(
    # Not the bare column: the key's own index is the one to use, not the owner's.
    among(ITEMS.c.key, "keys"),
    ITEMS.c.owner.concat("") == bindparam("owner"),
)
_FOUND: Final = _ITEM.where(ITEMS.c.owner == bindparam("owner"), among(ITEMS.c.id, "ids")).order_by(
    ITEMS.c.number
)


_KEYS: Final = select(ITEMS.c.key).where(
    ITEMS.c.owner == bindparam("owner"), ITEMS.c.id == bindparam("id")
)


def read_response(connection: Connection, owner: str, response_id: str) -> ResponseRow | None:
    """The row, unless it is deleted or another's."""
    found = connection.execute(_RESPONSE, {"response_id": response_id, "owner": owner})
    row = found.mappings().one_or_none()
    return None if row is None else response_of(row)


def response_of(row: Mapping[Any, Any]) -> ResponseRow:
    """A row of the table as the port's; raises StoreError where it is damaged."""
    try:
        return _response(row)
    except ValueError as error:
        raise StoreError(f"response {row['id']} is damaged: {error}") from error


def read_items(connection: Connection, owner: str, keys: Sequence[str]) -> list[ItemRow]:
    """In the order of `keys`; raises StoreError where one is missing."""
    rows = connection.execute(_ITEMS, {"keys": listing(keys), "owner": owner}).all()
    return in_order(keys, rows)


def in_order(keys: Sequence[str], rows: Iterable[Sequence[Any]]) -> list[ItemRow]:
    """Rows of key, id, type, data and origin as items; raises StoreError where one is missing."""
    found = {row[0]: item_row(row) for row in rows}
    missing = [key for key in keys if key not in found]
    if missing:
        raise StoreError(f"{len(missing)} stored items are missing, first {missing[0]!r}")
    return [found[key] for key in keys]


def find_items(connection: Connection, owner: str, ids: Sequence[str]) -> dict[str, ItemRow]:
    """By public id, the newest of each."""
    rows = connection.execute(_FOUND, {"ids": listing(ids), "owner": owner}).all()
    # In ascending order of age: a newer row takes an older one's place.
    return {row[1]: item_row(row) for row in rows}


def find_keys(connection: Connection, owner: str, public_id: str) -> list[str]:
    """Of every item with this public id."""
    return list(connection.execute(_KEYS, {"owner": owner, "id": public_id}).scalars())


def item_row(row: Sequence[Any]) -> ItemRow:
    """From the columns key, id, type, data, origin."""
    key, public_id, kind, data, origin = row
    return ItemRow(key=key, id=public_id, type=kind, data=data, origin=origin)


def _response(row: Mapping[Any, Any]) -> ResponseRow:
    return ResponseRow(
        id=row["id"],
        owner=row["owner"],
        created_at=row["created_at"],
        status=row["status"],
        model=row["model"],
        previous_response_id=row["previous_response_id"],
        history=unpack(row["history"]),
        input=unpack(row["input"]),
        output=unpack(row["output"]),
        snapshot=row["snapshot"],
        state=row["state"],
    )
