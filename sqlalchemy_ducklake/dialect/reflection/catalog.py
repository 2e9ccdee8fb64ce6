"""Read the catalog into plain values, whichever place the rows come from."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sqlalchemy.engine import Connection

from sqlalchemy_ducklake import keys
from sqlalchemy_ducklake.dialect.reflection import queries
from sqlalchemy_ducklake.dialect.reflection.typenames import (
    CatalogType,
    TypeName,
    of_catalog,
    of_plain,
    parse,
)

TEMPORARY = "temp"

_text_literal = re.compile(r"'((?:[^']|'')*)'")
_PLAIN_LITERALS = {
    "BIGINT", "DECIMAL", "DOUBLE", "FLOAT", "HUGEINT", "INTEGER", "SMALLINT", "TINYINT",
    "UBIGINT", "UHUGEINT", "UINTEGER", "USMALLINT", "UTINYINT",
}  # fmt: skip
# How the engine writes the two literals of BOOLEAN, and this dialect the time.
_SPELLED = {
    "CAST('t' AS BOOLEAN)": "true",
    "CAST('f' AS BOOLEAN)": "false",
    "CAST(now() AS TIMESTAMP)": "now()",
}


@dataclass(frozen=True, slots=True)
class Place:
    """Where to look: the lake's name, the schema, where its metadata is, and what to trust.

    ``live`` says that the open transaction changed the catalog, which the metadata tables
    do not show before the commit; then the engine is asked, which is slower.
    """

    lake: str
    schema: str
    metadata: queries.MetadataPlace
    # What an Inspector has read is the same whichever place it came from.
    live: bool = field(compare=False)


@dataclass(frozen=True, slots=True)
class FoundColumn:
    """A column, its type as the catalog names it, and its comment with the tag.

    ``nested_tags`` are comments that somebody put on fields inside of it.
    """

    name: str
    type: TypeName
    nullable: bool = True
    default: str | None = None
    comment: str | None = None
    nested_tags: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Found:
    """A table or a view (which has a ``definition``).

    Temporary tables have constraints from the engine itself, ``native``, and those that
    this package made have tags too, which know the names that the engine forgets.
    """

    name: str
    columns: tuple[FoundColumn, ...] = ()
    comment: str | None = None
    definition: str | None = None
    temporary: bool = False
    native: tuple[keys.PrimaryKey | None, keys.Constraints] | None = None

    @property
    def is_view(self) -> bool:
        """Tell whether this is a view."""
        return self.definition is not None

    def primary_key(self) -> keys.PrimaryKey | None:
        """Return the key; raises MalformedTag for a tag that cannot be read."""
        if self.is_view:
            return None
        found = keys.primary_key(self.name, self._commented())
        return self.native[0] if found is None and self.native is not None else found

    def constraints(self) -> keys.Constraints:
        """Return the constraints; raises MalformedTag or StaleConstraint."""
        if self.is_view:
            return keys.Constraints()
        found = keys.constraints(self.name, self.comment)
        if self.native is not None:
            native = self.native[1]
            empty = found == keys.Constraints()
            return native if empty else replace(found, indexes=native.indexes)
        keys.check_columns(self.name, found, (column.name for column in self.columns))
        return found

    def _commented(self) -> Iterable[keys.ColumnComment]:
        for column in self.columns:
            yield keys.ColumnComment(column.name, column.comment, column.nullable)
            for inner, comment in column.nested_tags:
                yield keys.ColumnComment(inner, comment, nullable=True, nested=True)


def schema_names(connection: Connection, place: Place) -> list[str]:
    """Return the names of the schemas of a lake."""
    rows = connection.execute(queries.engine_schemas(), {"database": place.lake})
    return [row.schema_name for row in rows]


def table_names(
    connection: Connection, place: Place, names: Sequence[str] | None = None
) -> list[str]:
    """Return the names of the tables of a schema, all or those named."""
    if place.live:
        return _engine_table_names(connection, place.lake, place.schema, names)
    bound = {"schema": place.schema, "head": _head(connection, place), **_names(names)}
    query = queries.table_names(place.metadata, named=names is not None)
    return list(connection.execute(query, bound).scalars())


def temporary_table_names(connection: Connection) -> list[str]:
    """Return the names of the temporary tables of the session."""
    return _engine_table_names(connection, TEMPORARY, "main", None)


def relation_names(
    connection: Connection, database: str, schema: str, names: Sequence[str]
) -> list[str]:
    """Return which of some names are tables or views that the engine sees."""
    bound = {"database": database, "schema": schema, **_names(names)}
    return list(connection.execute(queries.engine_relations(named=True), bound).scalars())


def view_names(connection: Connection, database: str, schema: str) -> list[str]:
    """Return the names of the views of a schema."""
    bound = {"database": database, "schema": schema}
    rows = connection.execute(queries.engine_views(named=False), bound)
    return [row.view_name for row in rows]


def tables(connection: Connection, place: Place, names: Sequence[str] | None) -> list[Found]:
    """Return the tables of a schema, all or those named."""
    if place.live:
        return _engine_tables(connection, place.lake, place.schema, names)
    bound = {"schema": place.schema, "head": _head(connection, place), **_names(names)}
    listed = queries.tables(place.metadata, named=names is not None)
    rows = connection.execute(listed, bound).all()
    if not rows:
        return []
    ids = [row.table_id for row in rows]
    query = queries.columns(place.metadata, of_tables=names is not None)
    inside = connection.execute(query, {**bound, "tables": ids} if names else bound).all()
    columns = _by_table(inside)
    return [Found(row.table_name, tuple(columns[row.table_id]), row.comment) for row in rows]


def temporary(connection: Connection, names: Sequence[str] | None) -> list[Found]:
    """Return the temporary tables and views of the session, all or those named."""
    columns = _engine_columns(connection, TEMPORARY, "main", names)
    if not columns:
        return []
    found = views(connection, TEMPORARY, "main", names)
    tables = columns.keys() - {view.name for view in found}
    if tables:
        natives = _natives(connection, [name.lower() for name in tables])
        found += [
            replace(one, temporary=True, native=natives[one.name])
            for one in _engine_tables(connection, TEMPORARY, "main", sorted(tables))
        ]
    return found


def views(
    connection: Connection, database: str, schema: str, names: Sequence[str] | None
) -> list[Found]:
    """Return the views of a schema, all or those named."""
    bound = {"database": database, "schema": schema, **_names(names)}
    rows = connection.execute(queries.engine_views(named=names is not None), bound).all()
    if not rows:
        return []
    columns = _engine_columns(connection, database, schema, names)
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


def _engine_table_names(
    connection: Connection, database: str, schema: str, names: Sequence[str] | None
) -> list[str]:
    bound = {"database": database, "schema": schema, **_names(names)}
    relations = connection.execute(queries.engine_relations(named=names is not None), bound)
    found = list(relations.scalars())
    views = set(view_names(connection, database, schema))
    return [name for name in found if name not in views]


def _head(connection: Connection, place: Place) -> int:
    return int(connection.execute(queries.head(), {"lake": place.lake}).scalar_one())


def _names(names: Sequence[str] | None) -> dict[str, Any]:
    # str.lower, because a quoted_name keeps its case.
    return {} if names is None else {"names": [str.lower(name) for name in names]}


def _by_table(rows: Iterable[Any]) -> Mapping[int, list[FoundColumn]]:
    """Group the rows of ``ducklake_column`` by table, nested ones under their parents."""
    tops: dict[int, list[Any]] = defaultdict(list)
    inside: dict[int, dict[int, list[Any]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        if row.parent_column is None:
            tops[row.table_id].append(row)
        else:
            inside[row.table_id][row.parent_column].append(row)
    found: dict[int, list[FoundColumn]] = defaultdict(list)
    for table, columns in tops.items():
        nested = inside.get(table, {})
        types = {parent: list(map(_catalog_type, rows)) for parent, rows in nested.items()}
        found[table] = [_catalog_column(row, nested, types) for row in columns]
    return found


def _catalog_column(
    row: Any,
    inside: Mapping[int, Sequence[Any]],
    types: Mapping[int, Sequence[CatalogType]],
) -> FoundColumn:
    kind = of_catalog(_catalog_type(row), types) if inside else of_plain(row.column_type)
    return FoundColumn(
        row.column_name,
        kind,
        # A catalog in SQLite has a number for it.
        bool(row.nulls_allowed),
        _catalog_default(row, kind),
        row.comment,
        tuple(_nested_tags(row, inside)) if inside else (),
    )


def _catalog_type(row: Any) -> CatalogType:
    return CatalogType(row.column_id, row.column_name, row.column_type)


def _nested_tags(row: Any, inside: Mapping[int, Sequence[Any]]) -> Iterable[tuple[str, str]]:
    for child in inside.get(row.column_id, ()):
        name = f"{row.column_name}.{child.column_name}"
        if child.comment is not None:
            yield name, child.comment
        for inner, comment in _nested_tags(child, inside):
            yield f"{row.column_name}.{inner}", comment


def _catalog_default(row: Any, kind: TypeName) -> str | None:
    if row.default_value is None or row.default_value == "NULL":
        return None
    if row.default_value_type == "literal":
        return _literal(row.default_value, kind)
    text = str(row.default_value)
    return _SPELLED.get(text, text)


def _literal(value: str, kind: TypeName) -> str:
    if kind.name in _PLAIN_LITERALS and not value[-1:].isalpha():
        return value
    return "'" + value.replace("'", "''") + "'"


def _engine_default(text: str | None, kind: TypeName) -> str | None:
    if text is None or text == "NULL":
        return None
    literal = _text_literal.fullmatch(text)
    if literal is not None:
        return _literal(literal[1].replace("''", "'"), kind)
    return _SPELLED.get(text, text)


def _engine_columns(
    connection: Connection, database: str, schema: str, names: Sequence[str] | None
) -> Mapping[str, list[FoundColumn]]:
    bound = {"database": database, "schema": schema, **_names(names)}
    found: dict[str, list[FoundColumn]] = defaultdict(list)
    query = queries.engine_columns(named=names is not None)
    for row in connection.execute(query, bound):
        kind = parse(row.data_type)
        default = _engine_default(row.column_default, kind)
        found[row.table_name].append(
            FoundColumn(row.column_name, kind, row.is_nullable, default, row.comment)
        )
    return found


def _engine_tables(
    connection: Connection, database: str, schema: str, names: Sequence[str] | None
) -> list[Found]:
    bound = {"database": database, "schema": schema, **_names(names)}
    columns = _engine_columns(connection, database, schema, names)
    rows = connection.execute(queries.engine_tables(named=names is not None), bound)
    return [Found(row.table_name, tuple(columns[row.table_name]), row.comment) for row in rows]


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


def macros(connection: Connection, place: Place) -> Iterable[Any]:
    """Return the macros of a schema: name, kind, parameters and definition."""
    bound = {"database": place.lake, "schema": place.schema}
    return connection.execute(queries.engine_macros(), bound)
