"""An index for the deletion of old responses."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Creates the index. Without tombstones: they may stay for long, and are not looked for."""
    living = sa.text("NOT deleted")
    op.create_index(
        "ix_responses_created_at",
        "responses",
        ["created_at"],
        sqlite_where=living,
        postgresql_where=living,
    )
