"""A column among a list of any length, in one variable, on every database.

SQLAlchemy's IN renders each value anew, and ends at the number of variables that a statement may
have.
"""

from collections.abc import Iterable
from typing import Any

import msgspec
from sqlalchemy import Boolean, ColumnElement, Dialect, Text, bindparam
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.expression import BindParameter
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.types import TypeDecorator, TypeEngine


def among(column: ColumnElement[str], name: str) -> ColumnElement[bool]:
    """Whether the column is in the list that parameter `name` holds, made by `listing`."""
    return _Among(column, bindparam(name, type_=_TextList()))


def listing(values: Iterable[str]) -> list[str]:
    """A list as the parameter of `among`."""
    return list(values)


class _TextList(TypeDecorator[list[str]]):
    """An array on PostgreSQL; elsewhere JSON."""

    impl = Text
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        return dialect.type_descriptor(ARRAY(Text) if dialect.name == "postgresql" else Text())

    def process_bind_param(self, value: list[str] | None, dialect: Dialect) -> Any:
        if value is None or dialect.name == "postgresql":
            return value
        return msgspec.json.encode(value).decode()


class _Among(FunctionElement[bool]):
    # A function, since those tell SQLAlchemy's cache of statements what they are made of.
    inherit_cache = True
    type = Boolean()

    def __init__(self, column: ColumnElement[str], values: BindParameter[Any]) -> None:
        super().__init__(column, values)

    def self_group(self, against: Any = None) -> "_Among":
        """As it is: SQLAlchemy would write `= 1` behind it on SQLite, which then uses no index."""
        return self


@compiles(_Among)
def _json(element: _Among, compiler: SQLCompiler, **options: Any) -> str:
    column, values = (compiler.process(part, **options) for part in element.clauses)
    return f"{column} IN (SELECT value FROM json_each({values}))"  # noqa: S608 -- rendered by the compiler


@compiles(_Among, "postgresql")
def _array(element: _Among, compiler: SQLCompiler, **options: Any) -> str:
    column, values = (compiler.process(part, **options) for part in element.clauses)
    return f"{column} = ANY ({values})"
