"""The hot statements on SQLite."""

from collections.abc import Sequence
from typing import Final

from sqlalchemy import Connection

from bascule.state.hot import ItemValues, ResponseValues
from bascule.state.sqlite import driver

_PUT_RESPONSE: Final = """
INSERT INTO responses (id, owner, created_at, status, model, previous_response_id, parent_id,
                       history, input, output, snapshot, state, deleted)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, (SELECT id FROM responses WHERE id = ?7 AND owner = ?2),
        ?8, ?9, ?10, ?11, ?12, FALSE)
ON CONFLICT (id) DO UPDATE SET
    status = excluded.status, model = excluded.model, history = excluded.history,
    input = excluded.input, output = excluded.output, snapshot = excluded.snapshot,
    state = excluded.state, deleted = FALSE
WHERE responses.owner = excluded.owner
  AND COALESCE(responses.previous_response_id, '') = COALESCE(excluded.previous_response_id, '')
"""

_PUT_ITEM: Final = """
INSERT INTO items (key, id, owner, type, data, origin, response_id, created_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (key) DO NOTHING
"""


class SqliteHot:
    """One executemany for all rows."""

    def put_responses(self, connection: Connection, rows: Sequence[ResponseValues]) -> int:
        """See HotStatements."""
        return driver(connection).executemany(_PUT_RESPONSE, rows).rowcount

    def put_items(self, connection: Connection, rows: Sequence[ItemValues]) -> int:
        """See HotStatements."""
        return driver(connection).executemany(_PUT_ITEM, rows).rowcount
