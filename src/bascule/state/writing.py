"""What a group commit writes: functions on a SQLAlchemy connection with an open transaction.

The two hot statements go to the driver, for all turns of a group at once (see `hot.py`): by way of
SQLAlchemy a turn that is alone in its group would cost half as much again.
"""

from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import Connection, bindparam, insert, select

from bascule.state.among import among, listing
from bascule.state.conversing import extend
from bascule.state.hot import hot
from bascule.state.keylist import pack
from bascule.state.schema import BORROWED, ITEMS, RESPONSES
from bascule.state.store import Commit, ItemGone, ItemRow, StoreError

_STORED: Final = select(
    *(ITEMS.c.key, ITEMS.c.id, ITEMS.c.owner, ITEMS.c.type, ITEMS.c.data, ITEMS.c.origin),
    ITEMS.c.response_id,
).where(among(ITEMS.c.key, "keys"))

_CREATORS: Final = select(ITEMS.c.key, ITEMS.c.response_id).where(
    among(ITEMS.c.key, "keys"), ITEMS.c.owner.concat("") == bindparam("owner")
)

_PARENTLESS: Final = select(RESPONSES.c.id).where(
    among(RESPONSES.c.id, "ids"), RESPONSES.c.parent_id.concat("").is_(None)
)


def write_turns(connection: Connection, turns: Sequence[Commit]) -> None:
    """Writes responses and items; raises StoreError when one of them cannot be, naming it.

    The caller rolls back then: which turn was at fault shows when each is written alone.
    """
    _put_responses(connection, turns)
    _put_items(connection, turns)
    orphans = _without_parent(connection, turns)
    for turn in turns:
        strange = _strange_keys(turn, inherits=turn.response.id not in orphans)
        if strange:
            _borrow(connection, turn, strange)
        if turn.addition is not None:
            row = turn.response
            extend(connection, row.owner, turn.addition, response_id=row.id)


def _put_responses(connection: Connection, turns: Sequence[Commit]) -> None:
    rows = [_response_values(turn) for turn in turns]
    if hot(connection).put_responses(connection, rows) != len(rows):
        names = ", ".join(turn.response.id for turn in turns)
        raise StoreError(f"a stored response of another owner or parent is in the way: {names}")


def _response_values(turn: Commit) -> tuple[Any, ...]:
    row = turn.response
    return (
        *(row.id, row.owner, row.created_at, row.status, row.model, row.previous_response_id),
        _parent(turn),
        *(pack(row.history), pack(row.input), pack(row.output), row.snapshot, row.state),
    )


def _parent(turn: Commit) -> str | None:
    return turn.response.previous_response_id or turn.parent_id


def _put_items(connection: Connection, turns: Sequence[Commit]) -> None:
    rows = [_item_values(turn, item) for turn in turns for item in turn.items]
    if rows and hot(connection).put_items(connection, rows) != len(rows):
        _refuse_changed(connection, rows)


def _item_values(turn: Commit, item: ItemRow) -> tuple[Any, ...]:
    row = turn.response
    return (
        *(item.key, item.id, row.owner, item.type, item.data, item.origin),
        *(row.id, row.created_at),
    )


def _refuse_changed(connection: Connection, rows: Sequence[tuple[Any, ...]]) -> None:
    # Some keys were stored before: that is right only where it is the same item again.
    keys = listing(row[0] for row in rows)
    stored = {row[0]: tuple(row) for row in connection.execute(_STORED, {"keys": keys})}
    for row in rows:
        if stored[row[0]] != row[:-1]:
            raise StoreError(f"another item is stored under the key {row[0]!r}")


def _without_parent(connection: Connection, turns: Sequence[Commit]) -> set[str]:
    """Responses whose history no ancestor keeps alive for them: all but those with a parent."""
    firsts = {turn.response.id for turn in turns if _parent(turn) is None}
    others = [turn.response.id for turn in turns if turn.response.id not in firsts]
    if not others:
        return firsts
    return firsts.union(connection.execute(_PARENTLESS, {"ids": listing(others)}).scalars())


def _strange_keys(turn: Commit, *, inherits: bool) -> list[str]:
    """What the lists name beyond the turn's own new items and the parent's."""
    row = turn.response
    listed = {*row.input, *row.output}
    listed.update(turn.unkept if inherits else row.history)
    listed.difference_update(item.key for item in turn.items)
    return sorted(listed)


def _borrow(connection: Connection, turn: Commit, keys: Sequence[str]) -> None:
    row = turn.response
    found = connection.execute(_CREATORS, {"keys": listing(keys), "owner": row.owner})
    stored = {row[0]: row[1] for row in found}
    missing = [key for key in keys if key not in stored]
    if missing:
        raise ItemGone(f"response {row.id} lists an item that is not stored: {missing[0]!r}")
    borrowed = {key for key, creator in stored.items() if creator != row.id}
    held = select(BORROWED.c.item_key).where(BORROWED.c.response_id == row.id)
    new = borrowed.difference(connection.execute(held).scalars())
    if new:
        rows = [{"response_id": row.id, "item_key": key} for key in sorted(new)]
        connection.execute(insert(BORROWED), rows)
