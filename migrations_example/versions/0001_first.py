"""The first schema."""

import sqlalchemy as sa
from alembic import op

from sqlalchemy_ducklake.dialect.types import STRUCT

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Create airlines and flights."""
    op.create_table(
        "airlines",
        sa.Column("carrier", sa.String, primary_key=True),
        sa.Column("name", sa.String, nullable=False, comment="as it was in 2013"),
    )
    op.create_table(
        "flights",
        sa.Column(
            "time_hour",
            sa.DateTime(timezone=True),
            primary_key=True,
            comment="the hour it was to leave in",
        ),
        sa.Column("carrier", sa.String, sa.ForeignKey("airlines.carrier"), primary_key=True),
        sa.Column("flight", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("origin", sa.String, primary_key=True),
        sa.Column("dest", sa.String, primary_key=True),
        sa.Column("tailnum", sa.String),
        sa.Column("dep_delay", sa.Integer),
        sa.Column("arr_delay", sa.Integer),
        sa.Column("air_time", sa.Integer, comment="minutes"),
        sa.Column("distance", sa.Integer, comment="miles"),
        sa.Column("route", STRUCT({"origin": sa.String, "dest": sa.String})),
        comment="one row for each departure",
    )


def downgrade() -> None:
    """Drop them."""
    op.drop_table("flights")
    op.drop_table("airlines")
