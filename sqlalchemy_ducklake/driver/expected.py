"""What a writer expects of a table before it writes on it."""

from __future__ import annotations

import duckdb

from sqlalchemy_ducklake.errors import OptionError, StaleBase
from sqlalchemy_ducklake.lake.changes import TableName, born, pinned_snapshot, touches
from sqlalchemy_ducklake.lake.config import LakeConfig
from sqlalchemy_ducklake.lake.instances import Session
from sqlalchemy_ducklake.lake.marks import table_label


def require_base(session: Session, table: TableName, base: int | None) -> None:
    """Raise StaleBase if the table changed after snapshot ``base`` (None: ever written).

    Compaction, flushed rows and other tables do not count.  Ask in the transaction that
    is to write, before it changed the table.
    """
    refuse_change(session.duck, session.config, table, base)


def refuse_change(
    duck: duckdb.DuckDBPyConnection, config: LakeConfig, table: TableName, base: int | None
) -> None:
    """Raise StaleBase if the table changed between ``base`` and what ``duck`` reads."""
    head = pinned_snapshot(duck, config)
    known = born(duck, config, table, head) if base is None else base
    if known is None:
        return  # no such table: the statement itself will say so
    if known > head:
        raise OptionError("expected_base", f"is snapshot {known}, but the newest is {head}")
    for touch in touches(duck, config, [table], known, head):
        raise StaleBase(table_label(*table), base, touch.snapshot)
