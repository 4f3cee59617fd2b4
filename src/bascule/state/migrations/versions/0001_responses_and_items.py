"""Responses, items, and who borrows whose items."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Creates the tables. There is no way back: older code refuses a newer database."""
    _create_responses()
    _create_items()
    _create_borrowed_items()


def _create_responses() -> None:
    op.create_table(
        "responses",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("model", sa.Text, nullable=False),
        sa.Column("previous_response_id", sa.Text),
        sa.Column("parent_id", sa.Text, sa.ForeignKey("responses.id")),
        sa.Column("history", sa.LargeBinary, nullable=False),
        sa.Column("input", sa.LargeBinary, nullable=False),
        sa.Column("output", sa.LargeBinary, nullable=False),
        sa.Column("snapshot", sa.LargeBinary, nullable=False),
        sa.Column("state", sa.LargeBinary, nullable=False),
        sa.Column("deleted", sa.Boolean, nullable=False),
    )
    op.create_index("ix_responses_parent_id", "responses", ["parent_id"])


def _create_items() -> None:
    op.create_table(
        "items",
        sa.Column("number", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), primary_key=True),
        sa.Column("key", sa.Text, nullable=False, unique=True),
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("type", sa.Text, nullable=False),
        sa.Column("data", sa.LargeBinary, nullable=False),
        sa.Column("origin", sa.LargeBinary),
        sa.Column("response_id", sa.Text, sa.ForeignKey("responses.id", ondelete="SET NULL")),
        sa.Column("created_at", sa.BigInteger, nullable=False),
    )
    op.create_index("ix_items_response_id", "items", ["response_id"])
    op.create_index("ix_items_owner_id", "items", ["owner", "id"])


def _create_borrowed_items() -> None:
    op.create_table(
        "borrowed_items",
        sa.Column(
            "response_id",
            sa.Text,
            sa.ForeignKey("responses.id", ondelete="CASCADE"),
            primary_key=True,
        ),
        sa.Column("item_key", sa.Text, sa.ForeignKey("items.key"), primary_key=True),
    )
    op.create_index("ix_borrowed_items_item_key", "borrowed_items", ["item_key"])
