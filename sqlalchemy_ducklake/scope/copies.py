"""Small tables, copied for as long as a transaction changes them row by row.

Each look at a table of the lake costs milliseconds, however small it is (measured), and a
statement that changes a row looks several times.  What the transaction reads does not
change, so a small table is read once.
"""

from __future__ import annotations

from typing import Any

import duckdb

from sqlalchemy_ducklake.lake.attach import metadata_table
from sqlalchemy_ducklake.lake.changes import TableName, pinned_snapshot, table_id
from sqlalchemy_ducklake.lake.config import LakeConfig

#: A table with more rows, more bytes in its files or more of them is read where it is.
MOST_ROWS, MOST_BYTES, MOST_FILES = 20_000, 4 * 1024 * 1024, 4

# What the catalog counts of a table never gets less.
_EVER = """FROM query_table($1) SELECT coalesce(sum(record_count), 0),
    coalesce(sum(file_size_bytes), 0) WHERE table_id = $2"""
_NOW = """FROM query_table($1) SELECT coalesce(sum(record_count), 0),
    coalesce(sum(file_size_bytes), 0), count(*), count(partition_id)
    WHERE table_id = $2 AND end_snapshot IS NULL"""
_INLINED = "FROM query_table($1) SELECT table_name WHERE table_id = $2"
_INLINED_ROWS = "FROM query_table($1) SELECT count(*) WHERE end_snapshot IS NULL"


def is_small(duck: duckdb.DuckDBPyConnection, config: LakeConfig, table: TableName) -> bool:
    """Tell whether a table is small enough to be copied; deleted rows of files count too.

    Of a table in partitions a statement may need one file alone, so that is not copied.
    """
    number = table_id(duck, config, table, pinned_snapshot(duck, config))
    if number is None:
        return False  # it was made by this transaction

    def ask(query: str, name: str, *values: object) -> list[tuple[Any, ...]]:
        return duck.execute(query, [metadata_table(config, name), *values]).fetchall()

    ((rows, size, files, parted),) = ask(_NOW, "ducklake_data_file", number)
    if files > (1 if parted else MOST_FILES):
        return False
    ((rows_ever, size_ever),) = ask(_EVER, "ducklake_table_stats", number)
    if rows_ever <= MOST_ROWS and size_ever <= MOST_BYTES:
        return True
    for (name,) in ask(_INLINED, "ducklake_inlined_data_tables", number):
        ((inlined,),) = ask(_INLINED_ROWS, name)
        rows += inlined
    return bool(rows <= MOST_ROWS and size <= MOST_BYTES)
