"""Read the tables of a lake, or take them from what a script has made."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from sqlalchemy import schema
from sqlalchemy.engine import Connection
from sqlalchemy.sql.compiler import DDLCompiler

from sqlalchemy_ducklake.alembic.tables import LakeTable
from sqlalchemy_ducklake.dialect import tags
from sqlalchemy_ducklake.dialect.base import DuckLakeDialect
from sqlalchemy_ducklake.dialect.reflection import engine
from sqlalchemy_ducklake.dialect.reflection.found import Found, FoundColumn
from sqlalchemy_ducklake.dialect.reflection.typenames import TypeName, parse
from sqlalchemy_ducklake.keys import PrimaryKey, split_comment

# A lake keeps every text as VARCHAR; what more was said of it is in the tag.
_TEXTS = {"CHAR", "NCHAR", "NVARCHAR", "VARCHAR"}


def read(connection: Connection, schema_name: str, names: list[str] | None) -> list[LakeTable]:
    """Return the tables of a schema, all or those named, as the open transaction sees them.

    Raises MalformedTag or StaleConstraint for a table whose tags cannot be read.
    """
    dialect = cast("DuckLakeDialect", connection.dialect)
    tables = engine.tables(connection, dialect.alias, schema_name, names)
    return [_table(found, schema_name) for found in tables]


def _table(found: Found, schema_name: str) -> LakeTable:
    columns = (replace(one, comment=split_comment(one.comment)[0]) for one in found.columns)
    return LakeTable(
        found.name,
        schema_name,
        {one.name: one for one in columns},
        split_comment(found.comment)[0],
        found.primary_key() or PrimaryKey(()),
        found.constraints(),
    )


def of_model(table: schema.Table, compiler: DDLCompiler, schema_name: str) -> LakeTable:
    """Return a table that a script makes as it will be."""
    return LakeTable(
        table.name,
        schema_name,
        {column.name: column_of_model(column, compiler) for column in table.columns},
        table.comment,
        tags.primary_key_of(table, compiler),
        tags.constraints_of(table, compiler),
    )


def column_of_model(column: schema.Column[object], compiler: DDLCompiler) -> FoundColumn:
    """Return a column that a script makes as it will be."""
    kind = parse(compiler.dialect.type_compiler_instance.process(column.type))
    return FoundColumn(
        column.name,
        TypeName("VARCHAR") if kind.name in _TEXTS else kind,
        bool(column.nullable) and not column.primary_key,
        compiler.get_column_default_string(column),
        column.comment,
    )
