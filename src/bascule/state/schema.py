"""The tables, as the newest migration leaves them."""

from typing import Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    text,
)

METADATA: Final = MetaData()

# SQLite counts by itself only in a column that is exactly INTEGER PRIMARY KEY.
_NUMBER: Final = BigInteger().with_variant(Integer(), "sqlite")

RESPONSES: Final = Table(
    "responses",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("owner", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("status", Text, nullable=False),
    Column("model", Text, nullable=False),
    Column("previous_response_id", Text),
    # The same where that response was stored at the time of the commit: what keeps it alive.
    Column("parent_id", Text, ForeignKey("responses.id"), index=True),
    Column("history", LargeBinary, nullable=False),
    Column("input", LargeBinary, nullable=False),
    Column("output", LargeBinary, nullable=False),
    Column("snapshot", LargeBinary, nullable=False),
    Column("state", LargeBinary, nullable=False),
    # A tombstone: deleted by its owner, kept for the items that its children need.
    Column("deleted", Boolean, nullable=False),
    Index(
        "ix_responses_created_at",
        "created_at",
        sqlite_where=text("NOT deleted"),
        postgresql_where=text("NOT deleted"),
    ),
)

ITEMS: Final = Table(
    "items",
    METADATA,
    Column("number", _NUMBER, primary_key=True),  # in order of storing: the newest is the highest
    Column("key", Text, nullable=False, unique=True),
    Column("id", Text, nullable=False),
    Column("owner", Text, nullable=False),
    Column("type", Text, nullable=False),
    Column("data", LargeBinary, nullable=False),
    Column("origin", LargeBinary),
    # Who created it; null once that one is gone and only borrowers are left.
    Column("response_id", Text, ForeignKey("responses.id", ondelete="SET NULL"), index=True),
    Column("created_at", BigInteger, nullable=False),
    Index("ix_items_owner_id", "owner", "id"),
)

# Items that a response lists though neither it nor one that it continues created them (an item
# reference, for example): they stay while one that borrows them does.
BORROWED: Final = Table(
    "borrowed_items",
    METADATA,
    Column("response_id", Text, ForeignKey("responses.id", ondelete="CASCADE"), primary_key=True),
    Column("item_key", Text, ForeignKey("items.key"), primary_key=True, index=True),
)

CONVERSATIONS: Final = Table(
    "conversations",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("owner", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("metadata", LargeBinary, nullable=False),
    Column("state", LargeBinary, nullable=False),
    # Rises with every change of the items: a writer that saw another one has lost.
    Column("version", BigInteger, nullable=False),
    # The place of the next item. Places are given in order and never again.
    Column("tail", BigInteger, nullable=False),
    # The last stored turn's response; no foreign key, since it may go before the conversation. It
    # keeps the items at places below `kept` for the next turn's response.
    Column("response_id", Text),
    Column("kept", BigInteger, nullable=False),
)

CONVERSATION_ITEMS: Final = Table(
    "conversation_items",
    METADATA,
    Column(
        "conversation_id",
        Text,
        ForeignKey("conversations.id", ondelete="CASCADE"),
        primary_key=True,
    ),
    Column("place", BigInteger, primary_key=True),
    Column("item_key", Text, ForeignKey("items.key"), nullable=False, index=True),
)
