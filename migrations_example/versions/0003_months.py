"""A partition for each month, for old rows too."""

from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Partition and sort what comes, and write anew what is there."""
    op.set_ducklake_partitioning("flights", ["month(time_hour)"])
    op.set_ducklake_sorting("flights", ["time_hour"])
    op.rewrite_ducklake_data("flights")


def downgrade() -> None:
    """Leave the files as they are; they are read all the same."""
    op.reset_ducklake_sorting("flights")
    op.reset_ducklake_partitioning("flights")
