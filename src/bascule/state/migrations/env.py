"""Alembic's entry: runs on the connection, and in the transaction, that the caller has open."""

from alembic import context

context.configure(connection=context.config.attributes["connection"])
context.run_migrations()
