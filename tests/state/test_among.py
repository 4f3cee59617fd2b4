"""Membership in a list: by the index, and composed once."""

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from bascule.state.among import among, listing
from bascule.state.migration import migrate
from bascule.state.schema import ITEMS

STATEMENT = sa.select(ITEMS.c.id).where(among(ITEMS.c.key, "keys"), ITEMS.c.type == "message")


def test_uses_the_index_of_the_column() -> None:
    engine = sa.create_engine("sqlite://")
    migrate(engine)
    text = STATEMENT.compile(dialect=sqlite.dialect(), compile_kwargs={"literal_binds": False})
    with engine.connect() as connection:
        plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {text}", ("[]", "message")).all()
    engine.dispose()
    assert "USING INDEX sqlite_autoindex_items_1 (key=?)" in plan[0][3]


def test_is_an_array_on_postgresql() -> None:
    text = str(STATEMENT.compile(dialect=postgresql.asyncpg.dialect()))
    assert "items.key = ANY ($1::TEXT[])" in text.replace('"', "")


def test_columns_are_told_apart_in_the_cache_of_statements() -> None:
    by_key = sa.select(ITEMS.c.id).where(among(ITEMS.c.key, "keys"))
    again = sa.select(ITEMS.c.id).where(among(ITEMS.c.key, "keys"))
    by_id = sa.select(ITEMS.c.id).where(among(ITEMS.c.id, "keys"))
    keys = [statement._generate_cache_key() for statement in (by_key, again, by_id)]
    assert keys[0] is not None
    assert keys[0] == keys[1] != keys[2]


def test_a_list_of_any_text() -> None:
    engine = sa.create_engine("sqlite://")
    statement = sa.select(sa.literal("x")).where(among(sa.literal("a'\"ü\n"), "values"))
    with engine.connect() as connection:
        assert connection.execute(statement, {"values": listing(["b", "a'\"ü\n"])}).all() == [
            ("x",)
        ]
        assert connection.execute(statement, {"values": listing([])}).all() == []
    engine.dispose()
