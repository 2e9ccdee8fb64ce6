"""The distance is a field of the route."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Add the field, fill it, and drop the column."""
    op.add_ducklake_field("flights", ["route", "miles"], sa.Integer())
    op.execute("UPDATE flights SET route = {'origin': origin, 'dest': dest, 'miles': distance}")
    op.drop_column("flights", "distance")


def downgrade() -> None:
    """Make it a column again."""
    op.add_column("flights", sa.Column("distance", sa.Integer, comment="miles"))
    op.execute("UPDATE flights SET distance = route.miles")
    op.drop_ducklake_field("flights", ["route", "miles"])
