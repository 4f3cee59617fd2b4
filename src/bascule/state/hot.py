"""The statements that are too hot for SQLAlchemy: each adapter has its own."""

from collections.abc import Sequence
from typing import Any, Final, Protocol, TypeAlias

from sqlalchemy import Connection, Engine, event

_NAME: Final = "bascule.hot"

ResponseValues: TypeAlias = tuple[Any, ...]
"""id, owner, created_at, status, model, previous_response_id, parent_id, history, input, output,
snapshot, state."""

ItemValues: TypeAlias = tuple[Any, ...]
"""key, id, owner, type, data, origin, response_id, created_at."""


class HotStatements(Protocol):
    """What `writing` has the driver do. Each gives the number of rows that were written, and sees
    what those before it in the same call have written."""

    def put_responses(self, connection: Connection, rows: Sequence[ResponseValues]) -> int:
        """Inserts or replaces, and keeps `parent_id` where the owner has a response of that id. `created_at`, `parent_id` and `previous_response_id` of a row that is replaced
        stay. One of another owner, or that continues something else, is not replaced."""
        ...

    def put_items(self, connection: Connection, rows: Sequence[ItemValues]) -> int:
        """Inserts what has a new key."""
        ...


def use_hot(engine: Engine, statements: HotStatements) -> None:
    """From now on the engine's new connections have these statements."""

    def connected(_connection: Any, record: Any) -> None:
        record.info[_NAME] = statements

    event.listen(engine, "connect", connected)


def hot(connection: Connection) -> HotStatements:
    """The statements of the connection's engine."""
    return connection.info[_NAME]
