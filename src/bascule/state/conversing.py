"""Conversations: functions on a SQLAlchemy connection with an open transaction, the same for every
database."""

from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    Connection,
    bindparam,
    delete,
    insert,
    select,
    update,
)

from bascule.state.among import among, listing
from bascule.state.deletion import collect_items
from bascule.state.reading import item_row
from bascule.state.schema import CONVERSATION_ITEMS, CONVERSATIONS, ITEMS
from bascule.state.store import (
    Addition,
    Conversation,
    ConversationChanged,
    ConversationGone,
    ConversationRow,
    ItemGone,
    ItemInConversation,
    ItemRow,
    Page,
)

_OWN: Final = (CONVERSATIONS.c.id == bindparam("wanted")) & (
    CONVERSATIONS.c.owner == bindparam("of")
)
_PLACES: Final = CONVERSATION_ITEMS.c.place
_COLUMNS: Final = (
    *(ITEMS.c.key, ITEMS.c.id, ITEMS.c.type, ITEMS.c.data, ITEMS.c.origin),
    _PLACES,
)
_PLACED: Final = (
    select(*_COLUMNS)
    .join(CONVERSATION_ITEMS, CONVERSATION_ITEMS.c.item_key == ITEMS.c.key)
    .join(CONVERSATIONS, CONVERSATIONS.c.id == CONVERSATION_ITEMS.c.conversation_id)
    .where(_OWN)
)
_ROW: Final = select(CONVERSATIONS).where(_OWN)
_NAMED: Final = (
    select(*_COLUMNS)
    .join(CONVERSATION_ITEMS, CONVERSATION_ITEMS.c.item_key == ITEMS.c.key)
    # Not the bare column: from the item to its places is the way, not through the conversation.
    .join(CONVERSATIONS, CONVERSATIONS.c.id == CONVERSATION_ITEMS.c.conversation_id.concat(""))
    .where(_OWN, ITEMS.c.id == bindparam("public_id"), ITEMS.c.owner == bindparam("of"))
    .order_by(_PLACES)
)
_ALL: Final = _PLACED.order_by(_PLACES)


def _page(after: ColumnElement[bool], *, descending: bool) -> Any:
    # The places first, by their index: only then the items that stand there.
    places = (
        select(CONVERSATION_ITEMS.c.item_key, _PLACES)
        .join(CONVERSATIONS, CONVERSATIONS.c.id == CONVERSATION_ITEMS.c.conversation_id)
        .where(_OWN, after)
        .order_by(_PLACES.desc() if descending else _PLACES.asc())
        .limit(bindparam("most"))
        .subquery()
    )
    place = places.c.place
    return (
        select(*_COLUMNS[:-1], place)
        .join(places, places.c.item_key == ITEMS.c.key)
        .order_by(place.desc() if descending else place.asc())
    )


_ASCENDING: Final = _page(bindparam("cursor") < _PLACES, descending=False)
_DESCENDING: Final = _page(bindparam("cursor") > _PLACES, descending=True)
_END: Final = 2**62
"""Beyond every place."""


def _own(owner: str, conversation_id: str) -> dict[str, Any]:
    return {"of": owner, "wanted": conversation_id}


# --- reading


def read_conversation(
    connection: Connection, owner: str, conversation_id: str
) -> ConversationRow | None:
    """The row, unless it is another's."""
    row = connection.execute(_ROW, _own(owner, conversation_id)).one_or_none()
    return None if row is None else _conversation(row)


def load_conversation(
    connection: Connection, owner: str, conversation_id: str
) -> Conversation | None:
    """The row and all items."""
    own = _own(owner, conversation_id)
    row = connection.execute(_ROW, own).one_or_none()
    if row is None:
        return None
    placed = connection.execute(_ALL, own).all()
    return Conversation(
        row=_conversation(row),
        items=[item_row(found[:5]) for found in placed],
        unkept=[found[0] for found in placed if found[5] >= row.kept],
    )


def _conversation(row: Any) -> ConversationRow:
    return ConversationRow(
        id=row.id,
        owner=row.owner,
        created_at=row.created_at,
        metadata=row.metadata,
        version=row.version,
        state=row.state,
        response_id=row.response_id,
    )


def read_page(
    connection: Connection,
    owner: str,
    conversation_id: str,
    *,
    limit: int,
    after: str | None,
    descending: bool,
) -> Page | None:
    """None for a cursor that is not there."""
    own = _own(owner, conversation_id)
    cursor = _END if descending else -1
    if after is not None:
        named = connection.execute(_NAMED, {**own, "public_id": after}).all()
        if not named:
            return None
        # One item may have several places: a page begins after all of them.
        cursor = named[0][5] if descending else named[-1][5]
    statement = _DESCENDING if descending else _ASCENDING
    rows = connection.execute(statement, {**own, "cursor": cursor, "most": limit + 1}).all()
    return Page(items=[item_row(row[:5]) for row in rows[:limit]], more=len(rows) > limit)


def find_in_conversation(
    connection: Connection, owner: str, conversation_id: str, public_id: str
) -> ItemRow | None:
    """By public id."""
    own = _own(owner, conversation_id)
    row = connection.execute(_NAMED, {**own, "public_id": public_id}).first()
    return None if row is None else item_row(row[:5])


# --- writing


def create_conversation(
    connection: Connection, row: ConversationRow, items: Sequence[ItemRow], keys: Sequence[str]
) -> bool:
    """The row, and what it begins with."""
    values = {
        "id": row.id,
        "owner": row.owner,
        "created_at": row.created_at,
        "metadata": row.metadata,
        "state": row.state,
        "version": row.version,
        "tail": 0,
        "response_id": row.response_id,
        "kept": 0,
    }
    connection.execute(insert(CONVERSATIONS), values)
    return add(
        connection, row.owner, Addition(conversation_id=row.id, keys=keys), items, row.created_at
    )


def add(
    connection: Connection,
    owner: str,
    addition: Addition,
    items: Sequence[ItemRow],
    created_at: int,
) -> bool:
    """New items that no response created, and places for them and for stored ones."""
    if items:
        rows = [
            {
                "key": item.key,
                "id": item.id,
                "owner": owner,
                "type": item.type,
                "data": item.data,
                "origin": item.origin,
                "created_at": created_at,
            }
            for item in items
        ]
        connection.execute(insert(ITEMS), rows)
    extend(connection, owner, addition)
    return True


def extend(
    connection: Connection, owner: str, addition: Addition, *, response_id: str | None = None
) -> None:
    """Gives stored items the next places. `response_id`: the turn's own, which keeps them."""
    count = len(addition.keys)
    values: dict[str, Any] = {
        "version": CONVERSATIONS.c.version + 1,
        "tail": CONVERSATIONS.c.tail + count,
    }
    if addition.state is not None:
        values["state"] = addition.state
    if response_id is not None:
        values |= {"response_id": response_id, "kept": CONVERSATIONS.c.tail + count}
    # Locks the row: what is read of it from here on stays.
    tail = _change(connection, owner, addition, values)
    _check(connection, owner, addition)
    if count:
        first = tail - count
        rows = [
            {"conversation_id": addition.conversation_id, "place": first + i, "item_key": key}
            for i, key in enumerate(addition.keys)
        ]
        connection.execute(insert(CONVERSATION_ITEMS), rows)


def _change(connection: Connection, owner: str, addition: Addition, values: dict[str, Any]) -> int:
    statement = update(CONVERSATIONS).where(
        CONVERSATIONS.c.id == addition.conversation_id, CONVERSATIONS.c.owner == owner
    )
    if addition.version is not None:
        statement = statement.where(CONVERSATIONS.c.version == addition.version)
    changed = connection.execute(statement.values(values)).rowcount
    row = connection.execute(_ROW, _own(owner, addition.conversation_id)).one_or_none()
    if row is None:
        raise ConversationGone(f"there is no conversation {addition.conversation_id}")
    if not changed:
        raise ConversationChanged(f"conversation {addition.conversation_id} was changed meanwhile")
    return row.tail


_STORED: Final = select(ITEMS.c.key, ITEMS.c.id).where(
    among(ITEMS.c.key, "keys"), ITEMS.c.owner.concat("") == bindparam("of")
)
_PRESENT: Final = (
    select(CONVERSATION_ITEMS.c.item_key)
    .where(
        CONVERSATION_ITEMS.c.conversation_id.concat("") == bindparam("wanted"),
        CONVERSATION_ITEMS.c.item_key.in_(
            select(ITEMS.c.key).where(ITEMS.c.owner == bindparam("of"), among(ITEMS.c.id, "ids"))
        ),
    )
    .limit(1)
)


def _check(connection: Connection, owner: str, addition: Addition) -> None:
    if not addition.keys:
        return
    stored = connection.execute(_STORED, {"keys": listing(addition.keys), "of": owner}).all()
    missing = set(addition.keys).difference(row[0] for row in stored)
    if missing:
        raise ItemGone(f"an item for conversation {addition.conversation_id} is not stored")
    present = {**_own(owner, addition.conversation_id), "ids": listing(row[1] for row in stored)}
    if connection.execute(_PRESENT, present).first() is not None:
        raise ItemInConversation(f"an item is in conversation {addition.conversation_id} already")


def set_metadata(connection: Connection, owner: str, conversation_id: str, metadata: bytes) -> bool:
    """Whether there is one."""
    statement = update(CONVERSATIONS).where(
        CONVERSATIONS.c.id == conversation_id, CONVERSATIONS.c.owner == owner
    )
    return connection.execute(statement.values(metadata=metadata)).rowcount > 0


def remove_item(connection: Connection, owner: str, conversation_id: str, public_id: str) -> bool:
    """Takes an item from all its places; whether it had one."""
    statement = update(CONVERSATIONS).where(
        CONVERSATIONS.c.id == conversation_id, CONVERSATIONS.c.owner == owner
    )
    connection.execute(statement.values(version=CONVERSATIONS.c.version + 1))
    own = _own(owner, conversation_id)
    named = connection.execute(_NAMED, {**own, "public_id": public_id}).all()
    for row in named:
        place = (CONVERSATION_ITEMS.c.conversation_id == conversation_id) & (row[5] == _PLACES)
        connection.execute(delete(CONVERSATION_ITEMS).where(place))
    collect_items(connection, [row[0] for row in named])
    return bool(named)


def delete_conversation(connection: Connection, owner: str, conversation_id: str) -> bool:
    """Whether there was one."""
    held = (
        select(CONVERSATION_ITEMS.c.item_key)
        .join(CONVERSATIONS, CONVERSATIONS.c.id == CONVERSATION_ITEMS.c.conversation_id)
        .where(_OWN)
    )
    keys = connection.execute(held, _own(owner, conversation_id)).scalars().all()
    statement = delete(CONVERSATIONS).where(
        CONVERSATIONS.c.id == conversation_id, CONVERSATIONS.c.owner == owner
    )
    if not connection.execute(statement).rowcount:
        return False
    collect_items(connection, keys)
    return True
