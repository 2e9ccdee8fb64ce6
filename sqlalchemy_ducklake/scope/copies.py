"""Small tables, copied for as long as a transaction changes them row by row.

Each look at a table of the lake costs milliseconds, however small it is (measured), and a
statement that changes a row looks several times.  What the transaction reads does not
change, so a small table is read once.
"""

from __future__ import annotations

import duckdb

from sqlalchemy_ducklake.lake.attach import metadata_table
from sqlalchemy_ducklake.lake.changes import TableName, pinned_snapshot, table_id
from sqlalchemy_ducklake.lake.config import LakeConfig

#: A table with more rows, more bytes in its files or more of them is read where it is.
MOST_ROWS, MOST_BYTES, MOST_FILES = 20_000, 4 * 1024 * 1024, 4

_STATISTICS = """FROM query_table($1) SELECT record_count, file_size_bytes
    WHERE table_id = $2"""
_FILES = """FROM query_table($1) SELECT count(*), count(partition_id)
    WHERE table_id = $2 AND end_snapshot IS NULL"""


def is_small(duck: duckdb.DuckDBPyConnection, config: LakeConfig, table: TableName) -> bool:
    """Tell whether a table is small enough to be copied; deleted rows count as rows.

    Of a table in partitions a statement may need one file alone, so that is not copied.
    """
    number = table_id(duck, config, table, pinned_snapshot(duck, config))
    if number is None:
        return False  # it was made by this transaction
    statistics = metadata_table(config, "ducklake_table_stats")
    row = duck.execute(_STATISTICS, [statistics, number]).fetchone()
    rows, size = row or (0, 0)
    if (rows or 0) > MOST_ROWS or (size or 0) > MOST_BYTES:
        return False
    found = duck.execute(_FILES, [metadata_table(config, "ducklake_data_file"), number])
    files, parted = found.fetchone() or (0, 0)
    return bool(files <= (1 if parted else MOST_FILES))
