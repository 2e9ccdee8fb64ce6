"""Whether the files of a snapshot are there.

If the answer to a COMMIT is lost, DuckLake 1.5.5 takes the commit for failed and removes
the files it wrote, also where the server has published the snapshot (measured).  Nothing
on this side can hold it back, so after a failure the files are looked for.
"""

from __future__ import annotations

from collections.abc import Iterator

import duckdb

from sqlalchemy_ducklake.lake.attach import metadata_table
from sqlalchemy_ducklake.lake.changes import TableName
from sqlalchemy_ducklake.lake.config import LakeConfig

# The tables that got files in a snapshot.
_TABLES = """FROM query_table($1) AS f
    JOIN query_table($2) AS t USING (table_id) JOIN query_table($3) AS s USING (schema_id)
    SELECT DISTINCT s.schema_name, t.table_name
    WHERE f.begin_snapshot = $4
    AND t.begin_snapshot <= $4 AND (t.end_snapshot IS NULL OR t.end_snapshot > $4)
    AND s.begin_snapshot <= $4 AND (s.end_snapshot IS NULL OR s.end_snapshot > $4)"""
_FILES = """FROM ducklake_list_files($1, $2, schema => $3, snapshot_version => $4)
    SELECT unnest([data_file, delete_file])"""
# Asks for the size alone, so nothing is read.
_SIZE = "FROM read_blob($1) SELECT size"


def lost_files(
    duck: duckdb.DuckDBPyConnection, config: LakeConfig, snapshot: int
) -> tuple[str, ...]:
    """Name the files that a snapshot wrote and that are not there."""
    written: set[str] = set()
    for table in _tables_with_files(duck, config, snapshot):
        before = _files(duck, config, table, snapshot - 1)
        written |= _files(duck, config, table, snapshot) - before
    return tuple(sorted(path for path in written if not _exists(duck, path)))


def _tables_with_files(
    duck: duckdb.DuckDBPyConnection, config: LakeConfig, snapshot: int
) -> Iterator[TableName]:
    catalog = [metadata_table(config, name) for name in ("ducklake_table", "ducklake_schema")]
    found: set[TableName] = set()
    for name in ("ducklake_data_file", "ducklake_delete_file"):
        files = metadata_table(config, name)
        found.update(duck.execute(_TABLES, [files, *catalog, snapshot]).fetchall())
    return iter(sorted(found))


def _files(
    duck: duckdb.DuckDBPyConnection, config: LakeConfig, table: TableName, snapshot: int
) -> set[str]:
    schema, name = table
    try:
        rows = duck.execute(_FILES, [config.alias, name, schema, snapshot]).fetchall()
    except duckdb.CatalogException:
        return set()  # the table is younger
    return {path for (path,) in rows if path is not None}


def _exists(duck: duckdb.DuckDBPyConnection, path: str) -> bool:
    try:
        return duck.execute(_SIZE, [path]).fetchone() is not None
    except duckdb.IOException:
        return False
