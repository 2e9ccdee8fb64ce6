"""A column for the speed, filled by a merge."""

import sqlalchemy as sa
from alembic import op

from sqlalchemy_ducklake import merge

revision = "0002"
down_revision = "0001"

FLIGHTS = sa.Table(
    "flights",
    sa.MetaData(),
    sa.Column("time_hour", sa.DateTime(timezone=True), primary_key=True),
    sa.Column("carrier", sa.String, primary_key=True),
    sa.Column("flight", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("origin", sa.String, primary_key=True),
    sa.Column("dest", sa.String, primary_key=True),
    sa.Column("air_time", sa.Integer),
    sa.Column("distance", sa.Integer),
    sa.Column("speed", sa.Double),
)


def upgrade() -> None:
    """Work out the speed of every flight that flew."""
    op.add_column("flights", sa.Column("speed", sa.Double, comment="miles per hour"))
    speed = FLIGHTS.c.distance * 60.0 / FLIGHTS.c.air_time
    speeds = sa.select(*FLIGHTS.primary_key.columns, speed.label("speed"))
    flown = speeds.where(FLIGHTS.c.air_time > 0).subquery()
    op.execute(merge(FLIGHTS).using(flown).when_matched_update())


def downgrade() -> None:
    """Forget it; the next upgrade works it out again."""
    op.drop_column("flights", "speed")
