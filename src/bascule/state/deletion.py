"""How stored responses go: functions on a SQLAlchemy connection with an open transaction."""

from typing import Final

from sqlalchemy import ColumnElement, Connection, and_, delete, exists, select, update

from bascule.state.among import among, listing
from bascule.state.schema import BORROWED, ITEMS, RESPONSES

_BLANK: Final = {
    "deleted": True,
    "history": b"",
    "input": b"",
    "output": b"",
    "snapshot": b"",
    "state": b"",
}


def delete_response(connection: Connection, owner: str, response_id: str) -> bool:
    """Makes the response a tombstone, then removes whatever nothing living needs any more."""
    living = and_(RESPONSES.c.id == response_id, RESPONSES.c.owner == owner, ~RESPONSES.c.deleted)
    if not connection.execute(update(RESPONSES).where(living).values(_BLANK)).rowcount:
        return False
    collected: str | None = response_id
    while collected is not None:
        collected = _collect(connection, collected)
    return True


def _collect(connection: Connection, response_id: str) -> str | None:
    """Removes a tombstone without children; gives the parent, which may be the next to go."""
    child = RESPONSES.alias()
    tombstone = select(RESPONSES.c.parent_id).where(
        RESPONSES.c.id == response_id,
        RESPONSES.c.deleted,
        ~exists().where(child.c.parent_id == response_id),
    )
    row = connection.execute(tombstone).one_or_none()
    if row is None:
        return None
    _remove(connection, response_id)
    return row.parent_id


def _remove(connection: Connection, response_id: str) -> None:
    held = select(BORROWED.c.item_key).where(BORROWED.c.response_id == response_id)
    returned = connection.execute(held).scalars().all()
    connection.execute(delete(ITEMS).where(ITEMS.c.response_id == response_id, _unborrowed()))
    # Takes its own loans along, and leaves what others borrowed from it without a creator.
    connection.execute(delete(RESPONSES).where(RESPONSES.c.id == response_id))
    if returned:
        # Not the bare column: every item that is on loan from the dead has no creator.
        creatorless = ITEMS.c.response_id.concat("").is_(None)
        statement = delete(ITEMS).where(among(ITEMS.c.key, "keys"), creatorless, _unborrowed())
        connection.execute(statement, {"keys": listing(returned)})


def _unborrowed() -> ColumnElement[bool]:
    return ~exists().where(BORROWED.c.item_key == ITEMS.c.key)
