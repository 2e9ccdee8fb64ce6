"""What a snapshot added to a table."""

from __future__ import annotations

from dataclasses import dataclass

import duckdb

from sqlalchemy_ducklake.lake.attach import metadata_table
from sqlalchemy_ducklake.lake.changes import TableName, table_id
from sqlalchemy_ducklake.lake.config import LakeConfig

_SCHEMA = "FROM query_table($1) SELECT max(schema_id) WHERE table_id = $2"
_FILES = """FROM query_table($1) SELECT path WHERE table_id = $2 AND begin_snapshot = $3
    ORDER BY data_file_id"""

_LISTED = "FROM ducklake_list_files($1, $2, schema => $3) SELECT data_file"
# SQLite has numbers for truth.
_OUTSIDE = "FROM query_table($1) SELECT path WHERE NOT path_is_relative::BOOLEAN"


@dataclass(frozen=True, slots=True)
class Written:
    """The ids of a table, and the paths of the data files that a snapshot added to it.

    A path is that of the catalog: relative to the directory of the table, or absolute.
    """

    snapshot: int
    table_id: int
    schema_id: int
    files: tuple[str, ...]


def written(
    duck: duckdb.DuckDBPyConnection, config: LakeConfig, table: TableName, snapshot: int
) -> Written | None:
    """Tell what a snapshot added to a table; None if it had no such table."""
    identity = table_id(duck, config, table, snapshot)
    if identity is None:
        return None
    schema = duck.execute(
        _SCHEMA, [metadata_table(config, "ducklake_table"), identity]
    ).fetchone()
    assert schema is not None
    files = duck.execute(
        _FILES, [metadata_table(config, "ducklake_data_file"), identity, snapshot]
    ).fetchall()
    return Written(snapshot, identity, schema[0], tuple(path for (path,) in files))


def files_of(
    duck: duckdb.DuckDBPyConnection, config: LakeConfig, table: TableName
) -> frozenset[str]:
    """Give the paths of the files of a table, and all that the lake has from elsewhere."""
    listed = duck.execute(_LISTED, [config.alias, table[1], table[0]]).fetchall()
    outside = duck.execute(_OUTSIDE, [metadata_table(config, "ducklake_data_file")]).fetchall()
    return frozenset(path for (path,) in [*listed, *outside])
