"""Read what the engine says of tables and views, uncommitted and temporary ones included."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy.engine import Connection

from sqlalchemy_ducklake import keys
from sqlalchemy_ducklake.dialect.reflection import queries
from sqlalchemy_ducklake.dialect.reflection.found import (
    Found,
    FoundColumn,
    Place,
    expression_text,
    literal_text,
)
from sqlalchemy_ducklake.dialect.reflection.typenames import TypeName, parse

TEMPORARY = "temp"

_text_literal = re.compile(r"'((?:[^']|'')*)'")


def schema_names(connection: Connection, place: Place) -> list[str]:
    """Return the names of the schemas of a lake."""
    rows = connection.execute(queries.engine_schemas(), {"database": place.lake})
    return [row.schema_name for row in rows]


def table_names(
    connection: Connection, database: str, schema: str, names: Sequence[str] | None
) -> list[str]:
    """Return the names of the tables of a schema, all or those named."""
    bound = {"database": database, "schema": schema, **queries.bound_names(names)}
    relations = connection.execute(queries.engine_relations(named=names is not None), bound)
    found = list(relations.scalars())
    views = set(view_names(connection, database, schema))
    return [name for name in found if name not in views]


def temporary_table_names(connection: Connection) -> list[str]:
    """Return the names of the temporary tables of the session."""
    return table_names(connection, TEMPORARY, "main", None)


def is_there(connection: Connection, place: Place, name: str, *, temporary: bool) -> bool:
    """Tell whether the engine sees a table or view of a name, maybe a temporary one."""
    places = [(place.lake, place.schema), *([(TEMPORARY, "main")] if temporary else [])]
    found = connection.execute(queries.engine_places(), {"name": name})
    return any(
        row.database_name == database and row.schema_name.lower() == schema.lower()
        for row in found
        for database, schema in places
    )


def view_names(connection: Connection, database: str, schema: str) -> list[str]:
    """Return the names of the views of a schema."""
    bound = {"database": database, "schema": schema}
    rows = connection.execute(queries.engine_views(named=False), bound)
    return [row.view_name for row in rows]


def tables(
    connection: Connection, database: str, schema: str, names: Sequence[str] | None
) -> list[Found]:
    """Return the tables of a schema, all or those named; this takes the engine long."""
    bound = {"database": database, "schema": schema, **queries.bound_names(names)}
    columns = _columns(connection, database, schema, names)
    rows = connection.execute(queries.engine_tables(named=names is not None), bound)
    return [Found(row.table_name, tuple(columns[row.table_name]), row.comment) for row in rows]


def temporary(connection: Connection, names: Sequence[str] | None) -> list[Found]:
    """Return the temporary tables and views of the session, all or those named."""
    columns = _columns(connection, TEMPORARY, "main", names)
    if not columns:
        return []
    found = views(connection, TEMPORARY, "main", names)
    others = columns.keys() - {view.name for view in found}
    if others:
        natives = _natives(connection, [name.lower() for name in others])
        found += [
            replace(one, temporary=True, native=natives[one.name])
            for one in tables(connection, TEMPORARY, "main", sorted(others))
        ]
    return found


def views(
    connection: Connection, database: str, schema: str, names: Sequence[str] | None
) -> list[Found]:
    """Return the views of a schema, all or those named."""
    bound = {"database": database, "schema": schema, **queries.bound_names(names)}
    rows = connection.execute(queries.engine_views(named=names is not None), bound).all()
    if not rows:
        return []
    columns = _columns(connection, database, schema, names)
    return [
        Found(
            row.view_name,
            tuple(columns[row.view_name]),
            row.comment,
            _definition(row.view_name, row.sql),
            temporary=database == TEMPORARY,
        )
        for row in rows
    ]


def macros(connection: Connection, place: Place) -> Iterable[Any]:
    """Return the macros of a schema: name, kind, parameters and definition."""
    bound = {"database": place.lake, "schema": place.schema}
    return connection.execute(queries.engine_macros(), bound)


def _columns(
    connection: Connection, database: str, schema: str, names: Sequence[str] | None
) -> Mapping[str, list[FoundColumn]]:
    bound = {"database": database, "schema": schema, **queries.bound_names(names)}
    found: dict[str, list[FoundColumn]] = defaultdict(list)
    query = queries.engine_columns(named=names is not None)
    for row in connection.execute(query, bound):
        kind = parse(row.data_type)
        default = _default(row.column_default, kind)
        found[row.table_name].append(
            FoundColumn(row.column_name, kind, row.is_nullable, default, row.comment)
        )
    return found


def _default(text: str | None, kind: TypeName) -> str | None:
    if text is None or text == "NULL":
        return None
    literal = _text_literal.fullmatch(text)
    if literal is not None:
        return literal_text(literal[1].replace("''", "'"), kind)
    return expression_text(text)


def _definition(name: str, statement: str) -> str:
    """Return the SELECT of the statement that the engine says makes a view."""
    after_name = statement.partition(name.replace('"', '""'))[2]
    return after_name.partition(" AS ")[2].strip().removesuffix(";")


def _natives(
    connection: Connection, names: Sequence[str]
) -> Mapping[str, tuple[keys.PrimaryKey | None, keys.Constraints]]:
    constraints: dict[str, list[Any]] = defaultdict(list)
    for row in connection.execute(queries.engine_constraints(), {"names": names}):
        constraints[row.table_name].append(row)
    indexes: dict[str, list[Any]] = defaultdict(list)
    for row in connection.execute(queries.engine_indexes(), {"names": names}):
        indexes[row.table_name].append(row)
    found: dict[str, Any] = defaultdict(lambda: (None, keys.Constraints()))
    for table in constraints.keys() | indexes.keys():
        found[table] = _native(constraints[table], indexes[table])
    return found


def _native(
    rows: Sequence[Any], indexes: Sequence[Any]
) -> tuple[keys.PrimaryKey | None, keys.Constraints]:
    def of(kind: str) -> list[Any]:
        return [row for row in rows if row.constraint_type == kind]

    primary = [
        keys.PrimaryKey(tuple(row.constraint_column_names), row.constraint_name)
        for row in of("PRIMARY KEY")
    ]
    return (primary[0] if primary else None), keys.Constraints(
        unique=tuple(
            keys.Unique(tuple(row.constraint_column_names), row.constraint_name)
            for row in of("UNIQUE")
        ),
        foreign_keys=tuple(
            keys.ForeignKey(
                tuple(row.constraint_column_names),
                row.referenced_table,
                tuple(row.referenced_column_names),
                name=row.constraint_name,
            )
            for row in of("FOREIGN KEY")
        ),
        checks=tuple(keys.Check(row.expression, row.constraint_name) for row in of("CHECK")),
        indexes=tuple(
            keys.Index(row.index_name, _index_columns(row.expressions), row.is_unique)
            for row in indexes
        ),
    )


def _index_columns(listed: str) -> tuple[str, ...]:
    names = listed.strip("[]").split(", ")
    return tuple(name.strip("\"'").replace('""', '"') for name in names)
