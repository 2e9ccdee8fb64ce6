"""What the catalog knows of the past: snapshots, and tables by the names they had.

Ask in the transaction that reads, or with none open.  Nothing here touches data.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime

import duckdb

from sqlalchemy_ducklake.errors import TableNotThen, UnknownSnapshot
from sqlalchemy_ducklake.lake.attach import metadata_table
from sqlalchemy_ducklake.lake.changes import (
    Change,
    TableName,
    born,
    parse_changes,
    pinned_snapshot,
    table_id,
)
from sqlalchemy_ducklake.lake.config import LakeConfig
from sqlalchemy_ducklake.lake.marks import table_label

#: Snapshots that one question to the catalog asks for.
PAGE = 128

_EXISTS = "FROM query_table($1) SELECT max(snapshot_id) WHERE snapshot_id = $2"
# SQLite keeps times as text.
_AT_TIME = """FROM query_table($1) SELECT max(snapshot_id)
    WHERE snapshot_time::TIMESTAMPTZ <= $2"""
_FROM_TIME = """FROM query_table($1) SELECT min(snapshot_id)
    WHERE snapshot_time::TIMESTAMPTZ >= $2"""
_RANGE = "FROM query_table($1) SELECT min(snapshot_id), max(snapshot_id)"
_VIEW = """FROM query_table($1) AS v JOIN query_table($2) AS s USING (schema_id)
    SELECT 1 WHERE lower(s.schema_name) = lower($4) AND lower(v.view_name) = lower($5)
    AND v.begin_snapshot <= $3 AND (v.end_snapshot IS NULL OR v.end_snapshot > $3)"""
_NAME_THEN = """FROM query_table($1) AS t JOIN query_table($2) AS s USING (schema_id)
    SELECT s.schema_name, t.table_name WHERE t.table_id = $4
    AND t.begin_snapshot <= $3 AND (t.end_snapshot IS NULL OR t.end_snapshot > $3)"""
_COLUMNS = """FROM query_table($1) SELECT column_name WHERE table_id = $2
    AND parent_column IS NULL AND begin_snapshot <= $3
    AND (end_snapshot IS NULL OR end_snapshot > $3) ORDER BY column_order"""
_COLUMN_CHANGES = """FROM query_table($1) SELECT begin_snapshot WHERE table_id = $2
    UNION FROM query_table($1) SELECT end_snapshot WHERE table_id = $2
    AND end_snapshot IS NOT NULL"""
_SNAPSHOTS = """FROM query_table($1) AS s JOIN query_table($2) AS c USING (snapshot_id)
    SELECT s.snapshot_id, s.snapshot_time::TIMESTAMPTZ, s.schema_version, c.changes_made,
    c.author, c.commit_message, c.commit_extra_info
    WHERE s.snapshot_id > $3 AND s.snapshot_id <= $4 ORDER BY s.snapshot_id DESC"""


@dataclass(frozen=True, slots=True)
class Told:
    """A snapshot as the catalog tells it; ``extra`` is the text that came with it.

    ``changes`` is None if their text cannot be read.
    """

    id: int
    time: datetime
    schema_version: int
    changes: tuple[Change, ...] | None
    author: str | None = None
    message: str | None = None
    extra: str | None = field(default=None, repr=False)


def snapshot_at(
    duck: duckdb.DuckDBPyConnection, config: LakeConfig, version: int | datetime
) -> int:
    """Give the snapshot of this number, or the last one at or before a time.

    Raises UnknownSnapshot.
    """
    table = metadata_table(config, "ducklake_snapshot")
    query = _AT_TIME if isinstance(version, datetime) else _EXISTS
    found = duck.execute(query, [table, version]).fetchone()
    if found is None or found[0] is None:
        oldest, newest = duck.execute(_RANGE, [table]).fetchone() or (None, None)
        raise UnknownSnapshot(version, oldest, newest)
    return int(found[0])


def require_table_at(
    duck: duckdb.DuckDBPyConnection,
    config: LakeConfig,
    table: TableName,
    version: int | datetime,
) -> int:
    """Give the snapshot, which must have had a table or view of this name.

    Raises UnknownSnapshot, or TableNotThen with the name that the table had.
    """
    number = snapshot_at(duck, config, version)
    if table_id(duck, config, table, number) is not None:
        return number
    views = [metadata_table(config, name) for name in ("ducklake_view", "ducklake_schema")]
    if duck.execute(_VIEW, [*views, number, *table]).fetchone() is not None:
        return number
    head = pinned_snapshot(duck, config)
    raise TableNotThen(
        table_label(*table),
        number,
        _name_then(duck, config, table, number),
        born(duck, config, table, head),
    )


def first_from(
    duck: duckdb.DuckDBPyConnection,
    config: LakeConfig,
    table: TableName,
    version: int | datetime,
) -> int:
    """Give the number, or the first snapshot at or after a time; else one behind all."""
    del table
    if not isinstance(version, datetime):
        return version
    snapshots = metadata_table(config, "ducklake_snapshot")
    found = duck.execute(_FROM_TIME, [snapshots, version]).fetchone()
    if found is None or found[0] is None:
        return pinned_snapshot(duck, config) + 1
    return int(found[0])


def _name_then(
    duck: duckdb.DuckDBPyConnection, config: LakeConfig, table: TableName, number: int
) -> str | None:
    """Give the name that the table of today had at a snapshot, None if there was none."""
    identity = table_id(duck, config, table, pinned_snapshot(duck, config))
    if identity is None:
        return None
    catalog = [metadata_table(config, name) for name in ("ducklake_table", "ducklake_schema")]
    row = duck.execute(_NAME_THEN, [*catalog, number, identity]).fetchone()
    return None if row is None else table_label(*row)


def columns_at(
    duck: duckdb.DuckDBPyConnection, config: LakeConfig, table: TableName, number: int
) -> tuple[str, ...]:
    """Name the columns that a table had at a snapshot."""
    identity = table_id(duck, config, table, number)
    columns = metadata_table(config, "ducklake_column")
    rows = duck.execute(_COLUMNS, [columns, identity, number]).fetchall()
    return tuple(name for (name,) in rows)


def column_changes(
    duck: duckdb.DuckDBPyConnection, config: LakeConfig, identity: int
) -> frozenset[int]:
    """Give the snapshots that changed the columns of a table of this id."""
    columns = metadata_table(config, "ducklake_column")
    return frozenset(
        n for (n,) in duck.execute(_COLUMN_CHANGES, [columns, identity]).fetchall()
    )


def told_snapshots(
    duck: duckdb.DuckDBPyConnection, config: LakeConfig, head: int, oldest: int = 0
) -> Iterator[list[Told]]:
    """Give the snapshots from ``head`` back to ``oldest``, a page at a time."""
    tables = [
        metadata_table(config, name)
        for name in ("ducklake_snapshot", "ducklake_snapshot_changes")
    ]
    high = head
    while high >= oldest:
        low = max(high - PAGE, oldest - 1)
        rows = duck.execute(_SNAPSHOTS, [*tables, low, high]).fetchall()
        yield [_told(*row) for row in rows]
        high = low


def _told(
    number: int, time: datetime, schema_version: int, text: str | None, *about: str | None
) -> Told:
    return Told(number, time, schema_version, _changes(text), *about)


def _changes(text: str | None) -> tuple[Change, ...] | None:
    try:
        return parse_changes(text or "")
    except ValueError:
        return None
