"""The catalog as SELECTs: what a lake holds, from two places that know it.

The lake's own metadata tables answer in milliseconds, however many tables there are, but
know only what is committed; each query says as of which snapshot.  The engine's
``duckdb_…()`` functions know also what the open transaction has changed, and all that is
temporary; of these ``duckdb_tables()`` takes seconds for some hundred tables (it counts
their rows), ``duckdb_columns()`` milliseconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from sqlalchemy import (
    ARRAY,
    BigInteger,
    Boolean,
    ColumnClause,
    ColumnElement,
    FromClause,
    Select,
    String,
    TableClause,
    and_,
    bindparam,
    column,
    func,
    or_,
    select,
    table,
)
from sqlalchemy.sql import quoted_name


class MetadataPlace(NamedTuple):
    """Where the metadata tables are, as the quoted prefix of their names."""

    prefix: str

    def table(self, name: str, *columns: ColumnClause[Any]) -> TableClause:
        """Return one of the metadata tables."""
        return table(name, *columns, schema=quoted_name(self.prefix, quote=False))


def _numbers(*names: str) -> tuple[ColumnClause[Any], ...]:
    return tuple(column(name, BigInteger) for name in names)


def _texts(*names: str) -> tuple[ColumnClause[Any], ...]:
    return tuple(column(name, String) for name in names)


def _booleans(*names: str) -> tuple[ColumnClause[Any], ...]:
    return tuple(column(name, Boolean) for name in names)


def _live(versioned: FromClause) -> ColumnElement[bool]:
    """Keep the rows that the snapshot ``head`` sees."""
    return and_(
        versioned.c.begin_snapshot <= bindparam("head", type_=BigInteger),
        or_(
            versioned.c.end_snapshot.is_(None),
            versioned.c.end_snapshot > bindparam("head", type_=BigInteger),
        ),
    )


def _same_name(name: ColumnElement[Any], parameter: str) -> ColumnElement[bool]:
    """Compare names as the engine does, without regard to case."""
    return func.lower(name) == func.lower(bindparam(parameter, type_=String))


def _among_names(name: ColumnElement[Any]) -> ColumnElement[bool]:
    return func.lower(name).in_(bindparam("names", expanding=True, type_=String))


def _among_tables(table_id: ColumnElement[Any]) -> ColumnElement[bool]:
    return table_id.in_(bindparam("tables", expanding=True, type_=BigInteger))


def bound_names(names: Sequence[str] | None) -> dict[str, Any]:
    """Give what a question about some names binds, or about all."""
    # str.lower, because a quoted_name keeps its case.
    return {} if names is None else {"names": [str.lower(name) for name in names]}


_VERSIONED = ("begin_snapshot", "end_snapshot")


def _schemas(place: MetadataPlace) -> TableClause:
    return place.table(
        "ducklake_schema", *_numbers("schema_id", *_VERSIONED), *_texts("schema_name")
    )


def _tables(place: MetadataPlace) -> TableClause:
    return place.table(
        "ducklake_table",
        *_numbers("table_id", "schema_id", *_VERSIONED),
        *_texts("table_name"),
    )


def _tags(place: MetadataPlace) -> TableClause:
    return place.table(
        "ducklake_tag", *_numbers("object_id", *_VERSIONED), *_texts("key", "value")
    )


def _columns(place: MetadataPlace) -> TableClause:
    return place.table(
        "ducklake_column",
        *_numbers("column_id", "table_id", "column_order", "parent_column", *_VERSIONED),
        *_texts("column_name", "column_type", "default_value", "default_value_type"),
        *_booleans("nulls_allowed"),
    )


def _column_tags(place: MetadataPlace) -> TableClause:
    return place.table(
        "ducklake_column_tag",
        *_numbers("table_id", "column_id", *_VERSIONED),
        *_texts("key", "value"),
    )


@lru_cache
def head() -> Select[Any]:
    """Ask which snapshot the transaction reads; bind ``lake``."""
    current = func.ducklake_current_snapshot(bindparam("lake", type_=String))
    return select(current.table_valued(column("id", BigInteger)).c.id)


@lru_cache
def tables(place: MetadataPlace, *, named: bool) -> Select[Any]:
    """Ask for the tables of a schema: their id, the id of the schema, and their name.

    Bind ``head`` and ``schema``, and ``names`` in lower case if ``named`` is true.
    """
    schemas, found = _schemas(place), _tables(place)
    query = (
        select(found.c.table_id, found.c.schema_id, found.c.table_name)
        .join_from(found, schemas, found.c.schema_id == schemas.c.schema_id)
        .where(_live(found), _live(schemas), _same_name(schemas.c.schema_name, "schema"))
        .order_by(found.c.table_name)
    )
    return query.where(_among_names(found.c.table_name)) if named else query


@lru_cache
def comments(place: MetadataPlace, *, of_tables: bool) -> Select[Any]:
    """Ask for the comments of a lake's tables; bind ``head``, and ``tables`` as in columns."""
    tags = _tags(place)
    query = select(tags.c.object_id, tags.c.value).where(tags.c.key == "comment", _live(tags))
    return query.where(_among_tables(tags.c.object_id)) if of_tables else query


@lru_cache
def columns(place: MetadataPlace, *, of_tables: bool) -> Select[Any]:
    """Ask for the columns of a schema's tables, with a row for all that is inside of one.

    Bind ``head``, and ``tables`` (ids) if ``of_tables`` is true, else ``schema``.
    """
    found, tags = _columns(place), _column_tags(place)
    comment = and_(
        tags.c.table_id == found.c.table_id,
        tags.c.column_id == found.c.column_id,
        tags.c.key == "comment",
        _live(tags),
    )
    query = (
        select(
            found.c.table_id,
            found.c.column_id,
            found.c.parent_column,
            found.c.column_name,
            found.c.column_type,
            found.c.default_value,
            found.c.default_value_type,
            found.c.nulls_allowed,
            tags.c.value.label("comment"),
        )
        .select_from(found.outerjoin(tags, comment))
        .where(_live(found))
        .order_by(found.c.table_id, found.c.column_order)
    )
    if of_tables:
        return query.where(_among_tables(found.c.table_id))
    schemas, owners = _schemas(place), _tables(place)
    inside = (
        select(owners.c.table_id)
        .join_from(owners, schemas, owners.c.schema_id == schemas.c.schema_id)
        .where(_live(owners), _live(schemas), _same_name(schemas.c.schema_name, "schema"))
    )
    return query.where(found.c.table_id.in_(inside))


def _engine(function: str, *listed: ColumnClause[Any]) -> Any:
    return getattr(func, function)().table_valued(
        *_texts("database_name", "schema_name"), *listed, name="found"
    )


def _inside(found: Any) -> ColumnElement[bool]:
    return and_(
        found.c.database_name == bindparam("database", type_=String),
        _same_name(found.c.schema_name, "schema"),
    )


@lru_cache
def engine_schemas() -> Select[Any]:
    """Ask the engine for the names of all schemas; bind ``database``."""
    found = _engine("duckdb_schemas")
    inside = found.c.database_name == bindparam("database", type_=String)
    return select(found.c.schema_name).where(inside).order_by(found.c.schema_name)


@lru_cache
def engine_relations(*, named: bool) -> Select[Any]:
    """Ask the engine for the names of the tables and views of a schema.

    Bind ``database`` and ``schema``, and ``names`` in lower case if ``named`` is true.
    """
    found = _engine("duckdb_columns", *_texts("table_name"))
    query = (
        select(found.c.table_name).distinct().where(_inside(found)).order_by(found.c.table_name)
    )
    return query.where(_among_names(found.c.table_name)) if named else query


@lru_cache
def engine_places() -> Select[Any]:
    """Ask the engine in which databases and schemas a name is a table or view's; bind it."""
    found = _engine("duckdb_columns", *_texts("table_name"))
    return (
        select(found.c.database_name, found.c.schema_name)
        .distinct()
        .where(_same_name(found.c.table_name, "name"))
    )


@lru_cache
def engine_tables(*, named: bool) -> Select[Any]:
    """Ask the engine, slowly, for tables and comments.

    Bind ``database`` and ``schema``, and ``names`` in lower case if ``named`` is true.
    """
    found = _engine("duckdb_tables", *_texts("table_name", "comment"))
    query = (
        select(found.c.table_name, found.c.comment)
        .where(_inside(found))
        .order_by(found.c.table_name)
    )
    return query.where(_among_names(found.c.table_name)) if named else query


@lru_cache
def engine_views(*, named: bool) -> Select[Any]:
    """Ask the engine for views: name, comment and the statement that makes them.

    Bind ``database`` and ``schema``, and ``names`` in lower case if ``named`` is true.
    """
    found = _engine(
        "duckdb_views", *_texts("view_name", "comment", "sql"), *_booleans("internal")
    )
    query = (
        select(found.c.view_name, found.c.comment, found.c.sql)
        .where(_inside(found), ~found.c.internal)
        .order_by(found.c.view_name)
    )
    return query.where(_among_names(found.c.view_name)) if named else query


@lru_cache
def engine_columns(*, named: bool) -> Select[Any]:
    """Ask the engine for the columns of the tables and views of a schema.

    Bind ``database`` and ``schema``, and ``names`` in lower case if ``named`` is true.
    """
    found = _engine(
        "duckdb_columns",
        *_texts("table_name", "column_name", "comment", "column_default", "data_type"),
        *_numbers("column_index"),
        *_booleans("is_nullable"),
    )
    query = (
        select(
            found.c.table_name,
            found.c.column_name,
            found.c.data_type,
            found.c.column_default,
            found.c.is_nullable,
            found.c.comment,
        )
        .where(_inside(found))
        .order_by(found.c.table_name, found.c.column_index)
    )
    return query.where(_among_names(found.c.table_name)) if named else query


@lru_cache
def engine_constraints() -> Select[Any]:
    """Ask the engine for the constraints of temporary tables; bind ``names``, in lower case."""
    found = _engine(
        "duckdb_constraints",
        *_texts(
            "table_name",
            "constraint_type",
            "constraint_name",
            "expression",
            "referenced_table",
        ),
        *_numbers("constraint_index"),
        column("constraint_column_names"),
        column("referenced_column_names"),
    )
    return (
        select(
            found.c.table_name,
            found.c.constraint_type,
            found.c.constraint_name,
            found.c.constraint_column_names,
            found.c.expression,
            found.c.referenced_table,
            found.c.referenced_column_names,
        )
        .where(found.c.database_name == "temp", _among_names(found.c.table_name))
        .order_by(found.c.table_name, found.c.constraint_index)
    )


@lru_cache
def engine_indexes() -> Select[Any]:
    """Ask the engine for the indexes of temporary tables; bind ``names``, in lower case."""
    found = _engine(
        "duckdb_indexes",
        *_texts("table_name", "index_name", "expressions"),
        *_booleans("is_unique"),
    )
    return (
        select(found.c.table_name, found.c.index_name, found.c.is_unique, found.c.expressions)
        .where(found.c.database_name == "temp", _among_names(found.c.table_name))
        .order_by(found.c.index_name)
    )


@lru_cache
def engine_macros() -> Select[Any]:
    """Ask the engine for the macros of a schema; bind ``database`` and ``schema``."""
    found = _engine(
        "duckdb_functions",
        *_texts("function_name", "function_type", "macro_definition"),
        column("parameters", ARRAY(String)),
    )
    return (
        select(
            found.c.function_name,
            found.c.function_type,
            found.c.parameters,
            found.c.macro_definition,
        )
        .where(_inside(found), found.c.function_type.in_(("macro", "table_macro")))
        .order_by(found.c.function_name, found.c.function_type)
    )
