"""How a table is laid out, and the options that hold for it, as the catalog tells."""

from __future__ import annotations

import duckdb

from sqlalchemy_ducklake.lake.attach import metadata_table
from sqlalchemy_ducklake.lake.changes import pinned_snapshot
from sqlalchemy_ducklake.lake.config import LakeConfig

_PARTITION = """FROM query_table($1) AS i JOIN query_table($2) AS c USING (partition_id)
    SELECT 1 WHERE i.table_id = $3 AND i.begin_snapshot <= $4
    AND (i.end_snapshot IS NULL OR i.end_snapshot > $4)"""
# The narrowest scope comes last, and so wins.
_OPTIONS = """FROM query_table($1) AS m SELECT m.key, m.value
    WHERE m.scope IS NULL OR (m.scope = 'table' AND m.scope_id = $2)
    OR (m.scope = 'schema' AND m.scope_id IN
        (SELECT t.schema_id FROM query_table($3) AS t WHERE t.table_id = $2))
    ORDER BY CASE m.scope WHEN 'table' THEN 2 WHEN 'schema' THEN 1 ELSE 0 END"""

# Files without a value of the partition that holds now, if that has a bucket.
_HIDDEN = """FROM query_table($1) AS f JOIN query_table($2) AS i ON i.table_id = f.table_id
    JOIN query_table($3) AS k ON k.partition_id = i.partition_id
    JOIN query_table($4) AS c ON c.table_id = f.table_id AND c.column_id = k.column_id
    SELECT c.column_name, count(DISTINCT f.data_file_id)
    WHERE f.table_id = $5 AND k.transform LIKE 'bucket%' AND c.end_snapshot IS NULL
    AND f.begin_snapshot <= $6 AND (f.end_snapshot IS NULL OR f.end_snapshot > $6)
    AND i.begin_snapshot <= $6 AND (i.end_snapshot IS NULL OR i.end_snapshot > $6)
    AND f.partition_id IS DISTINCT FROM i.partition_id GROUP BY ALL ORDER BY ALL"""


def hidden_files(
    duck: duckdb.DuckDBPyConnection, config: LakeConfig, identity: int
) -> dict[str, int]:
    """Count, by column, the files whose rows a search by a bucket of it misses.

    DuckLake 1.5.5 prunes by buckets also files from before there were any (measured).
    """
    names = ("data_file", "partition_info", "partition_column", "column")
    tables = [metadata_table(config, f"ducklake_{name}") for name in names]
    head = pinned_snapshot(duck, config)
    return dict(duck.execute(_HIDDEN, [*tables, identity, head]).fetchall())


def is_partitioned(duck: duckdb.DuckDBPyConnection, config: LakeConfig, identity: int) -> bool:
    """Tell whether the rows that a table of this id gets now are partitioned."""
    tables = [
        metadata_table(config, name)
        for name in ("ducklake_partition_info", "ducklake_partition_column")
    ]
    head = pinned_snapshot(duck, config)
    return duck.execute(_PARTITION, [*tables, identity, head]).fetchone() is not None


def options_around(
    duck: duckdb.DuckDBPyConnection, config: LakeConfig, identity: int
) -> dict[str, str]:
    """Give the options that hold for a table of this id, set for it or around it."""
    options = metadata_table(config, "ducklake_metadata")
    tables = metadata_table(config, "ducklake_table")
    return dict(duck.execute(_OPTIONS, [options, identity, tables]).fetchall())
