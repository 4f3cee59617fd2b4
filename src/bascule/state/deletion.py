"""How stored responses go: functions on a SQLAlchemy connection with an open transaction."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Select, and_, delete, exists, select, update

from bascule.state.among import among, listing
from bascule.state.schema import BORROWED, CONVERSATION_ITEMS, ITEMS, RESPONSES

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
    _collect(connection, [response_id])
    return True


def expire_responses(connection: Connection, before: int, limit: int) -> int:
    """Deletes up to `limit` responses that were created before `before` (Unix seconds), whoever
    owns them; gives their number."""
    # The youngest first: what continues a response goes with it or before it, so that a long chain
    # goes piece by piece and leaves no heap of tombstones to be removed at once.
    due = (
        select(RESPONSES.c.id)
        .where(RESPONSES.c.created_at < before, ~RESPONSES.c.deleted)
        .order_by(RESPONSES.c.created_at.desc())
        .limit(limit)
    )
    ids = list(connection.execute(due).scalars())
    if ids:
        blank = update(RESPONSES).where(among(RESPONSES.c.id, "ids")).values(_BLANK)
        connection.execute(blank, {"ids": listing(ids)})
        _collect(connection, ids)
    return len(ids)


def _collect(connection: Connection, ids: Sequence[str]) -> None:
    """Removes what nothing living continues any more: of these tombstones and those above them."""
    lines = connection.execute(_LINES, {"ids": listing(ids)}).all()
    parents: dict[str, str | None] = {row.id: row.parent_id for row in lines}
    children = connection.execute(_CHILDREN, {"ids": listing(parents)})
    left = Counter(children.scalars())
    bare = [response_id for response_id in parents if not left[response_id]]
    gone: list[str] = []
    while bare:
        gone.append(bare.pop())
        parent = parents[gone[-1]]
        if parent is not None and parent in parents:
            left[parent] -= 1
            if not left[parent]:
                bare.append(parent)
    if gone:
        _remove(connection, gone)


def _lines() -> Select[Any]:
    """The tombstones among `ids`, and each tombstone that such a one continues, up to the first
    that is none."""
    first = select(RESPONSES.c.id, RESPONSES.c.parent_id)
    line = first.where(among(RESPONSES.c.id, "ids"), RESPONSES.c.deleted).cte(
        "line", recursive=True
    )
    above = first.join(line, RESPONSES.c.id == line.c.parent_id).where(RESPONSES.c.deleted)
    return select(line.union(above))


_LINES: Final = _lines()
_CHILDREN: Final = select(RESPONSES.c.parent_id).where(among(RESPONSES.c.parent_id, "ids"))
_HELD: Final = select(BORROWED.c.item_key).where(among(BORROWED.c.response_id, "ids"))


def _remove(connection: Connection, ids: Sequence[str]) -> None:
    listed = {"ids": listing(ids)}
    returned = connection.execute(_HELD, listed).scalars().all()
    created = among(ITEMS.c.response_id, "ids")
    connection.execute(delete(ITEMS).where(created, _unneeded()), listed)
    # Takes its own loans along, and leaves what others borrowed from it without a creator.
    connection.execute(delete(RESPONSES).where(among(RESPONSES.c.id, "ids")), listed)
    collect_items(connection, returned)


def collect_items(connection: Connection, keys: Sequence[str]) -> None:
    """Removes those of the items that have no creator and that nobody needs any more."""
    if keys:
        # Not the bare column: every item that is on loan from the dead has no creator.
        creatorless = ITEMS.c.response_id.concat("").is_(None)
        statement = delete(ITEMS).where(among(ITEMS.c.key, "keys"), creatorless, _unneeded())
        connection.execute(statement, {"keys": listing(keys)})


def _unneeded() -> ColumnElement[bool]:
    borrowed = exists().where(BORROWED.c.item_key == ITEMS.c.key)
    return ~borrowed & ~exists().where(CONVERSATION_ITEMS.c.item_key == ITEMS.c.key)
