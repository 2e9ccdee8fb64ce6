"""Where a flight goes is no part of its key.

Rows that would then share a key are found before anything is changed, and named.
"""

from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Take the destination out of the key; it stays NOT NULL."""
    op.drop_constraint(None, "flights", type_="primary")
    op.create_primary_key(None, "flights", ["time_hour", "carrier", "flight", "origin"])


def downgrade() -> None:
    """Put it in again."""
    op.drop_constraint(None, "flights", type_="primary")
    op.create_primary_key(None, "flights", ["time_hour", "carrier", "flight", "origin", "dest"])
