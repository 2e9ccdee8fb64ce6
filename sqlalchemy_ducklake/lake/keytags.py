"""The columns of a table whose comments carry a tag, as the catalog tells."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import duckdb

from sqlalchemy_ducklake.lake.attach import metadata_table
from sqlalchemy_ducklake.lake.changes import TableName, pinned_snapshot
from sqlalchemy_ducklake.lake.config import LakeConfig

# Most tables that are asked for have no tags, so columns are only read for those that have.
_TAGGED = """FROM query_table($1) AS g
    SELECT g.table_id, g.column_id, g.value
    WHERE g.key = 'comment' AND regexp_matches(g.value, $6)
    AND g.begin_snapshot <= $7 AND (g.end_snapshot IS NULL OR g.end_snapshot > $7)
    AND g.table_id IN (FROM query_table($2) AS t JOIN query_table($3) AS s USING (schema_id)
        SELECT t.table_id
        WHERE lower(s.schema_name) = lower($4) AND lower(t.table_name) = lower($5)
        AND t.begin_snapshot <= $7 AND (t.end_snapshot IS NULL OR t.end_snapshot > $7)
        AND s.begin_snapshot <= $7 AND (s.end_snapshot IS NULL OR s.end_snapshot > $7))"""
_COLUMNS = """FROM query_table($1)
    SELECT column_id, column_name, nulls_allowed, parent_column IS NOT NULL
    WHERE table_id = $2 AND list_contains($3::BIGINT[], column_id)
    AND begin_snapshot <= $4 AND (end_snapshot IS NULL OR end_snapshot > $4)"""


class TaggedColumn(NamedTuple):
    """A column with its whole comment; ``nested`` marks a field inside another column."""

    column: str
    comment: str
    nullable: bool
    nested: bool


def tagged_columns(
    duck: duckdb.DuckDBPyConnection, config: LakeConfig, table: TableName, tags: Sequence[str]
) -> list[TaggedColumn]:
    """Give the columns of a table with one of these tags, as of the pinned snapshot.

    A table that the open transaction itself made has none here.
    """
    head = pinned_snapshot(duck, config)
    wanted = "|".join(map(re.escape, tags))
    named = [metadata_table(config, f"ducklake_{each}") for each in _CATALOG]
    tagged = duck.execute(_TAGGED, [*named, *table, wanted, head]).fetchall()
    if not tagged:
        return []
    comments = {column: comment for _, column, comment in tagged}
    values = [metadata_table(config, "ducklake_column"), tagged[0][0], list(comments), head]
    return [
        TaggedColumn(name, comments[number], nullable, nested)
        for number, name, nullable, nested in duck.execute(_COLUMNS, values).fetchall()
    ]


_CATALOG = ("column_tag", "table", "schema")
