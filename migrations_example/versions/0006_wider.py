"""Numbers of flights may be longer."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Widen the number; files are read as they are."""
    op.promote_ducklake_type("flights", "flight", sa.BigInteger())


def downgrade() -> None:
    """Narrow it again, if every number fits."""
    op.narrow_ducklake_type("flights", "flight", sa.Integer())
