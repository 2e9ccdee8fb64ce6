"""Columns that the data has and the table has not."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import duckdb
import pyarrow as pa
from sqlalchemy import Column, Connection, MetaData, Table

from sqlalchemy_ducklake.dialect.arrowtypes import arrow_type
from sqlalchemy_ducklake.dialect.evolving import AddColumn
from sqlalchemy_ducklake.dialect.reflection.typenames import parse, sql_type
from sqlalchemy_ducklake.errors import BatchRefused
from sqlalchemy_ducklake.snapshots.asking import driver_connection
from sqlalchemy_ducklake.writer.spool import Segment


def add_columns(connection: Connection, target: Table, segments: Sequence[Segment]) -> Table:
    """Add the columns that are new, nullable and behind the others; give the table so.

    The caller's own Table is left as it is.  Raises BatchRefused for a type that a lake
    has no column for.
    """
    known = {each.name for each in target.c}
    new = {f.name: f.type for each in segments for f in each.schema if f.name not in known}
    if not new:
        return target
    wider = target.to_metadata(MetaData())
    for name, kind in new.items():
        column: Column[Any] = Column(name, _type(connection, target, name, kind))
        wider.append_column(column)
        connection.execute(AddColumn(wider, column))
    return wider


def _type(connection: Connection, target: Table, name: str, kind: pa.DataType) -> Any:
    """Give the type that the engine reads such data as."""
    duck, _ = driver_connection(connection).reading()
    empty = pa.schema([pa.field(name, kind)]).empty_table()
    try:
        with contextlib.closing(duck.cursor()) as cursor:
            found = str(cursor.from_arrow(empty).types[0])
    except duckdb.Error:
        found = ""
    if arrow_type(found) is None:
        wanted = "of a type that a lake stores"
        raise BatchRefused(target.name, name, None, wanted, str(kind))
    return sql_type(parse(found))
