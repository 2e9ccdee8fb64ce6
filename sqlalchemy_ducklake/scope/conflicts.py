"""What others did meanwhile to the tables that a scope wrote and looked at."""

from __future__ import annotations

from collections.abc import Sequence

import duckdb

from sqlalchemy_ducklake.errors import SchemaChanged, SerializationFailure
from sqlalchemy_ducklake.lake.changes import (
    History,
    TableName,
    changed_tables,
    changes_between,
    kinds_of_change,
    table_id,
)
from sqlalchemy_ducklake.lake.config import LakeConfig
from sqlalchemy_ducklake.lake.marks import table_label

_ALTERED = "altered_table"


def refuse_changed(
    duck: duckdb.DuckDBPyConnection,
    config: LakeConfig,
    tables: Sequence[TableName],
    between: tuple[int, int],
    *,
    anything: bool = False,
) -> None:
    """Raise if one of the tables changed between two snapshots, or ``anything`` did.

    Raises SchemaChanged where its definition did, SerializationFailure where its rows did.
    """
    base, head = between
    history = changes_between(duck, config, base, head)
    for table in tables:
        _refuse(duck, config, history, table)
    if anything:
        names = changed_tables(duck, config, history)
        raise SerializationFailure(base, head, "the transaction is SERIALIZABLE", names)


def _refuse(
    duck: duckdb.DuckDBPyConnection, config: LakeConfig, history: History, table: TableName
) -> None:
    label, (base, head) = table_label(*table), (history.base, history.head)
    before = table_id(duck, config, table, base)
    after = table_id(duck, config, table, head)
    if before != after:
        raise SchemaChanged(label, base, head, "it was created, dropped, renamed or replaced")
    if after is None:
        return
    if not history.complete:
        raise SerializationFailure(base, head, "snapshots in between were expired", (label,))
    kinds: set[str] = set()
    for snapshot in history.snapshots:
        if snapshot.changes is None:
            raise SerializationFailure(base, head, "changes cannot be read", (label,))
        kinds |= kinds_of_change(duck, config, snapshot, after)
    if _ALTERED in kinds:
        raise SchemaChanged(label, base, head, _ALTERED)
    if kinds:
        raise SerializationFailure(base, head, ", ".join(sorted(kinds)), (label,))
