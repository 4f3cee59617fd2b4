"""Conversations and their items."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Creates the tables. There is no way back: older code refuses a newer database."""
    op.create_table(
        "conversations",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("metadata", sa.LargeBinary, nullable=False),
        sa.Column("state", sa.LargeBinary, nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("tail", sa.BigInteger, nullable=False),
        sa.Column("response_id", sa.Text),
        sa.Column("kept", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "conversation_items",
        sa.Column(
            "conversation_id",
            sa.Text,
            sa.ForeignKey("conversations.id", ondelete="CASCADE"),
            primary_key=True,
        ),
        sa.Column("place", sa.BigInteger, primary_key=True),
        sa.Column("item_key", sa.Text, sa.ForeignKey("items.key"), nullable=False),
    )
    op.create_index("ix_conversation_items_item_key", "conversation_items", ["item_key"])
