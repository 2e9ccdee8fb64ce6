"""The tables of a lake and the files they are made of, as the catalog tells."""

from __future__ import annotations

from dataclasses import dataclass

import duckdb

from sqlalchemy_ducklake.lake.attach import metadata_table
from sqlalchemy_ducklake.lake.changes import pinned_snapshot
from sqlalchemy_ducklake.lake.config import LakeConfig

_TABLES = """FROM query_table($1) AS t JOIN query_table($2) AS s USING (schema_id)
    SELECT s.schema_name, t.table_name, t.table_id
    WHERE t.begin_snapshot <= $3 AND (t.end_snapshot IS NULL OR t.end_snapshot > $3)
    AND s.begin_snapshot <= $3 AND (s.end_snapshot IS NULL OR s.end_snapshot > $3)
    ORDER BY ALL"""
_FILES = """FROM query_table($1) AS f LEFT JOIN (
        FROM query_table($2) SELECT data_file_id, sum(delete_count) AS deleted
        WHERE begin_snapshot <= $5 AND (end_snapshot IS NULL OR end_snapshot > $5)
        GROUP BY data_file_id) AS d USING (data_file_id)
    LEFT JOIN (FROM query_table($3)
        SELECT data_file_id, list(partition_value ORDER BY partition_key_index) AS parts
        GROUP BY data_file_id) AS p USING (data_file_id)
    SELECT f.data_file_id, f.path, f.record_count, f.file_size_bytes,
        coalesce(d.deleted, 0)::BIGINT, coalesce(p.parts, []), f.encryption_key IS NOT NULL
    WHERE f.table_id = $4 AND f.begin_snapshot <= $5
    AND (f.end_snapshot IS NULL OR f.end_snapshot > $5) ORDER BY f.data_file_id"""
_RANGES = """FROM query_table($1) AS s JOIN query_table($2) AS c USING (table_id, column_id)
    SELECT s.data_file_id, s.min_value, s.max_value
    WHERE s.table_id = $3 AND lower(c.column_name) = lower($4)
    AND c.parent_column IS NULL AND c.end_snapshot IS NULL"""
_SORTED = """FROM query_table($1) AS i JOIN query_table($2) AS e USING (sort_id)
    SELECT e.expression WHERE i.table_id = $3 AND i.begin_snapshot <= $4
    AND (i.end_snapshot IS NULL OR i.end_snapshot > $4) ORDER BY e.sort_key_index"""
_SCHEDULED = "FROM query_table($1) SELECT count(*)"


@dataclass(frozen=True, slots=True)
class TableEntry:
    """A table of the lake."""

    schema: str
    name: str
    id: int


@dataclass(frozen=True, slots=True)
class DataFile:
    """A data file of a table: its rows, its bytes, and how many of its rows are deleted.

    ``path`` is relative to the directory of the table, or absolute; ``partition`` holds the
    values of the partition's keys.
    """

    id: int
    path: str
    rows: int
    size: int
    deleted: int
    partition: tuple[str | None, ...]
    encrypted: bool


def live_tables(duck: duckdb.DuckDBPyConnection, config: LakeConfig) -> tuple[TableEntry, ...]:
    """Give the tables that there are, by schema and name."""
    head = pinned_snapshot(duck, config)
    rows = duck.execute(_TABLES, [*_named(config, "table", "schema"), head]).fetchall()
    return tuple(TableEntry(*row) for row in rows)


def data_files(
    duck: duckdb.DuckDBPyConnection, config: LakeConfig, table_id: int
) -> tuple[DataFile, ...]:
    """Give the data files of a table, as they were written."""
    named = _named(config, "data_file", "delete_file", "file_partition_value")
    head = pinned_snapshot(duck, config)
    rows = duck.execute(_FILES, [*named, table_id, head]).fetchall()
    return tuple(
        DataFile(number, path, count, size, deleted, tuple(parts), encrypted)
        for number, path, count, size, deleted, parts, encrypted in rows
    )


def column_ranges(
    duck: duckdb.DuckDBPyConnection, config: LakeConfig, table_id: int, column: str
) -> dict[int, tuple[str | None, str | None]]:
    """Give smallest and largest value of a column, as text, by the id of the file."""
    named = _named(config, "file_column_stats", "column")
    rows = duck.execute(_RANGES, [*named, table_id, column]).fetchall()
    return {number: (low, high) for number, low, high in rows}


def sort_expressions(
    duck: duckdb.DuckDBPyConnection, config: LakeConfig, table_id: int
) -> tuple[str, ...]:
    """Give the expressions by which the rows of a table are sorted when written."""
    named = _named(config, "sort_info", "sort_expression")
    head = pinned_snapshot(duck, config)
    rows = duck.execute(_SORTED, [*named, table_id, head]).fetchall()
    return tuple(expression for (expression,) in rows)


def scheduled_files(duck: duckdb.DuckDBPyConnection, config: LakeConfig) -> int:
    """Count the files that no snapshot needs and that wait to be deleted."""
    named = _named(config, "files_scheduled_for_deletion")
    row = duck.execute(_SCHEDULED, named).fetchone()
    return 0 if row is None else int(row[0])


def _named(config: LakeConfig, *names: str) -> list[str]:
    return [metadata_table(config, f"ducklake_{name}") for name in names]
