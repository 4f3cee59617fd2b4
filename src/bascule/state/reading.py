"""What a store reads: functions on an open SQLAlchemy connection, the same for every database."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from sqlalchemy import Connection, Row, select

from bascule.state.keylist import unpack
from bascule.state.schema import ITEMS, RESPONSES
from bascule.state.store import ItemRow, ResponseRow, StoreError

# One statement takes 32766 variables in SQLite and asyncpg; shorter ones are as fast.
_CHUNK: Final = 1000

_ITEM: Final = select(ITEMS.c.key, ITEMS.c.id, ITEMS.c.type, ITEMS.c.data, ITEMS.c.origin)
_RESPONSE: Final = select(RESPONSES).where(~RESPONSES.c.deleted)


def chunks(values: Sequence[str]) -> Iterator[Sequence[str]]:
    """Cuts a list into what one statement can name."""
    for start in range(0, len(values), _CHUNK):
        yield values[start : start + _CHUNK]


def read_response(connection: Connection, owner: str, response_id: str) -> ResponseRow | None:
    """The row, unless it is deleted or another's."""
    wanted = _RESPONSE.where(RESPONSES.c.id == response_id, RESPONSES.c.owner == owner)
    row = connection.execute(wanted).one_or_none()
    if row is None:
        return None
    try:
        return _response(row)
    except ValueError as error:
        raise StoreError(f"response {response_id} is damaged: {error}") from error


def read_items(connection: Connection, owner: str, keys: Sequence[str]) -> list[ItemRow]:
    """In the order of `keys`; raises StoreError where one is missing."""
    found: dict[str, ItemRow] = {}
    for chunk in chunks(keys):
        wanted = _ITEM.where(ITEMS.c.owner == owner, ITEMS.c.key.in_(chunk))
        found.update((row[0], _item(row)) for row in connection.execute(wanted))
    missing = [key for key in keys if key not in found]
    if missing:
        raise StoreError(f"{len(missing)} stored items are missing, first {missing[0]!r}")
    return [found[key] for key in keys]


def find_items(connection: Connection, owner: str, ids: Sequence[str]) -> dict[str, ItemRow]:
    """By public id, the newest of each."""
    found: dict[str, ItemRow] = {}
    for chunk in chunks(ids):
        wanted = _ITEM.where(ITEMS.c.owner == owner, ITEMS.c.id.in_(chunk)).order_by(ITEMS.c.number)
        # In ascending order of age: a newer row takes an older one's place.
        found.update((row[1], _item(row)) for row in connection.execute(wanted))
    return found


def _item(row: Sequence[Any]) -> ItemRow:
    key, public_id, kind, data, origin = row
    return ItemRow(key=key, id=public_id, type=kind, data=data, origin=origin)


def _response(row: Row[*tuple[Any, ...]]) -> ResponseRow:
    return ResponseRow(
        id=row.id,
        owner=row.owner,
        created_at=row.created_at,
        status=row.status,
        model=row.model,
        previous_response_id=row.previous_response_id,
        history=unpack(row.history),
        input=unpack(row.input),
        output=unpack(row.output),
        snapshot=row.snapshot,
        state=row.state,
    )
