"""The hot statements on PostgreSQL: by arrays, one round trip for all turns of a group."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from sqlalchemy import Connection
from sqlalchemy.util import await_only

from bascule.state.hot import ItemValues, ResponseValues
from bascule.state.postgres import Driver, driver
from bascule.state.reading import in_order, response_of
from bascule.state.store import ItemRow, ResponseRow

_PUT_RESPONSES: Final = """
INSERT INTO responses (id, owner, created_at, status, model, previous_response_id, parent_id,
                       history, input, output, snapshot, state, deleted)
SELECT id, owner, created_at, status, model, previous,
       (SELECT r.id FROM responses r WHERE r.id = parent AND r.owner = given.owner),
       history, input, output, snapshot, state, FALSE
FROM unnest($1::text[], $2::text[], $3::bigint[], $4::text[], $5::text[], $6::text[],
            $7::text[], $8::bytea[], $9::bytea[], $10::bytea[], $11::bytea[], $12::bytea[])
    AS given(id, owner, created_at, status, model, previous, parent,
             history, input, output, snapshot, state)
ON CONFLICT (id) DO UPDATE SET
    status = excluded.status, model = excluded.model, history = excluded.history,
    input = excluded.input, output = excluded.output, snapshot = excluded.snapshot,
    state = excluded.state, deleted = FALSE
WHERE responses.owner = excluded.owner
  AND COALESCE(responses.previous_response_id, '') = COALESCE(excluded.previous_response_id, '')
"""

_PUT_ITEMS: Final = """
INSERT INTO items (key, id, owner, type, data, origin, response_id, created_at)
SELECT key, id, owner, type, data, origin, response_id, created_at
FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bytea[], $6::bytea[],
            $7::text[], $8::bigint[])
    WITH ORDINALITY AS given(key, id, owner, type, data, origin, response_id, created_at, place)
ORDER BY place
ON CONFLICT (key) DO NOTHING
"""

_RESPONSE: Final = """
SELECT id, owner, created_at, status, model, previous_response_id,
       history, input, output, snapshot, state
FROM responses WHERE id = $1 AND owner = $2 AND NOT deleted
"""

_ITEMS: Final = """
SELECT key, id, type, data, origin FROM items WHERE key = ANY ($1::text[]) AND owner || '' = $2
"""


class PostgresHot:
    """Runs in a greenlet of SQLAlchemy's."""

    def put_responses(self, connection: Connection, rows: Sequence[ResponseValues]) -> int:
        """See HotStatements."""
        written = 0
        for wave in _waves(rows):
            written += _put(driver(connection), _PUT_RESPONSES, wave)
        return written

    def put_items(self, connection: Connection, rows: Sequence[ItemValues]) -> int:
        """See HotStatements."""
        return _put(driver(connection), _PUT_ITEMS, rows)


def _put(connection: Driver, statement: str, rows: Sequence[tuple[Any, ...]]) -> int:
    tag = await_only(connection.execute(statement, *zip(*rows, strict=True)))
    return int(tag.rpartition(" ")[2])


def _waves(rows: Sequence[ResponseValues]) -> Iterator[Sequence[ResponseValues]]:
    """A statement sees nothing of its own rows: a row that names one of them waits for the next."""
    wave: list[ResponseValues] = []
    seen: set[str] = set()
    for row in rows:
        if row[0] in seen or row[6] in seen:
            yield wave
            wave, seen = [], set()
        wave.append(row)
        seen.add(row[0])
    if wave:
        yield wave


def read_response(connection: Connection, owner: str, response_id: str) -> ResponseRow | None:
    """As reading.read_response."""
    row = await_only(driver(connection).fetchrow(_RESPONSE, response_id, owner))
    return None if row is None else response_of(row)


def read_items(connection: Connection, owner: str, keys: Sequence[str]) -> list[ItemRow]:
    """As reading.read_items."""
    return in_order(keys, await_only(driver(connection).fetch(_ITEMS, list(keys), owner)))
