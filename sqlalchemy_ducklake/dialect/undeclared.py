"""INSERT through a table that declares no key, into a table of the lake that has one.

``to_sql`` of pandas makes a Table of its own, and so does whoever writes only the columns
that matter.  The lake knows the key, so the statement is compiled once more as if the table
had declared it, and keys are checked like everybody else's.
"""

# ruff: noqa: SLF001 - a statement is copied as its own methods copy it

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from sqlalchemy import Column, Insert, MetaData, PrimaryKeyConstraint, Table, exc
from sqlalchemy.sql.expression import TableClause

from sqlalchemy_ducklake.dialect.constraints import level_of, schema_in_lake
from sqlalchemy_ducklake.driver import Connection
from sqlalchemy_ducklake.errors import KeyNotDeclared
from sqlalchemy_ducklake.keys import (
    FOREIGN_KEY_TAG,
    KEY_TAG,
    ColumnComment,
    PrimaryKey,
    primary_key,
)
from sqlalchemy_ducklake.lake.changes import TableName
from sqlalchemy_ducklake.lake.keytags import tagged_columns
from sqlalchemy_ducklake.lake.marks import table_label


def keyed_form(dialect: Any, own: Connection, options: Mapping[str, Any], compiled: Any) -> Any:
    """Give the form of an INSERT that knows the key of its table.

    Raises KeyNotDeclared where the statement cannot be meant for a table with that key.
    """
    statement = compiled.statement
    if not (compiled.isinsert and isinstance(statement, Insert)) or own.config.read_only:
        return compiled
    table = statement.table
    if not isinstance(table, TableClause) or list(table.primary_key):
        return compiled
    if level_of(dialect, options) == "none":
        return compiled
    names = options.get("schema_translate_map") or {}
    schema = schema_in_lake(names, table.schema, dialect.default_schema_name)
    place = (schema, table.name)
    key = _key_in_lake(own, place)
    return compiled if key is None else _with_key(compiled, table_label(*place), key)


def _key_in_lake(own: Connection, table: TableName) -> PrimaryKey | None:
    """Look a key up, once in a transaction; one that defined the table knows better."""
    if own.work.may_have_defined(table):
        return None
    duck, config = own.reading()
    known = own.work.keys
    if own.autocommit or table not in known:
        columns = tagged_columns(duck, config, table, (KEY_TAG, FOREIGN_KEY_TAG))
        found = (ColumnComment(*each) for each in columns)
        known[table] = primary_key(table_label(*table), found)
    return cast("PrimaryKey | None", known[table])


def _with_key(compiled: Any, label: str, key: PrimaryKey) -> Any:
    """Compile a statement with a key; what is compiled stays with it in the cache."""
    found = compiled.keyed_forms.get(key.columns)
    if found is None:
        try:
            found = compiled.compiled_as(type(compiled), _into(compiled.statement, key))
        except (KeyError, exc.CompileError) as error:
            raise KeyNotDeclared(label, key.columns) from error
        compiled.keyed_forms = {**compiled.keyed_forms, key.columns: found}
    return found


def _into(statement: Any, key: PrimaryKey) -> Any:
    """Copy an INSERT, into a copy of its table that has a key."""
    if statement._returning:
        raise exc.CompileError("rows are told by columns of a table without the key")
    target = _keyed(statement.table, key)
    columns = {each: target.c[each.key] for each in statement.table.c}

    def moved(values: Any) -> Any:
        if not isinstance(values, Mapping):
            return values
        return {columns.get(each, each): value for each, value in values.items()}

    copy = statement._clone()
    copy.table = target
    copy._values = moved(statement._values)
    copy._multi_values = tuple([*map(moved, rows)] for rows in statement._multi_values)
    return copy


def _keyed(table: TableClause, key: PrimaryKey) -> Table:
    """Copy a table, with a key; raises KeyError if it has not all of the key's columns."""
    named = {each.name.lower(): each for each in _copied(table).c}
    columns = [named[name.lower()] for name in key.columns]
    target = columns[0].table
    target.append_constraint(PrimaryKeyConstraint(*columns, name=key.name))
    return target


def _copied(table: TableClause) -> Table:
    metadata = MetaData()
    if not isinstance(table, Table):
        columns = (Column(each.name, each.type) for each in table.c)
        return Table(table.name, metadata, *columns, schema=table.schema)
    # Foreign keys are found in their own metadata.
    together = table.metadata.tables.values() if table.foreign_keys else (table,)
    copies = {each: each.to_metadata(metadata) for each in together}
    return copies[table]
