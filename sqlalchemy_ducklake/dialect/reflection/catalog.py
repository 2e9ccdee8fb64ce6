"""Read the lake's own metadata tables, which know what is committed, into plain values."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import starmap
from typing import Any, NamedTuple

from sqlalchemy.engine import Connection

from sqlalchemy_ducklake.dialect.reflection import queries
from sqlalchemy_ducklake.dialect.reflection.found import (
    Found,
    FoundColumn,
    Place,
    expression_text,
    literal_text,
)
from sqlalchemy_ducklake.dialect.reflection.typenames import (
    CatalogType,
    TypeName,
    of_catalog,
    of_plain,
)


class ListedTable(NamedTuple):
    """A table by the ids that the catalog knows it and its schema by."""

    table_id: int
    schema_id: int
    name: str


@dataclass(frozen=True, slots=True)
class Listing:
    """The tables of a schema at a snapshot, all or those ``named``, nothing in them."""

    place: Place
    head: int
    tables: Sequence[ListedTable]
    named: bool

    def bound(self) -> dict[str, Any]:
        """Give what questions about these tables bind."""
        bound = {"head": self.head, "schema": self.place.schema}
        ids = [table.table_id for table in self.tables]
        return {**bound, "tables": ids} if self.named else bound


def listing(connection: Connection, place: Place, names: Sequence[str] | None) -> Listing:
    """List the tables of a schema, all or those named."""
    head = connection.execute(queries.head(), {"lake": place.lake}).scalar_one()
    bound = {"schema": place.schema, "head": int(head), **queries.bound_names(names)}
    rows = connection.execute(queries.tables(place.metadata, named=names is not None), bound)
    return Listing(place, int(head), list(starmap(ListedTable, rows)), names is not None)


def tables(connection: Connection, listed: Listing) -> list[Found]:
    """Return what is known of the tables of a listing."""
    if not listed.tables:
        return []
    place, named, bound = listed.place.metadata, listed.named, listed.bound()
    inside = connection.execute(queries.columns(place, of_tables=named), bound).all()
    said = connection.execute(queries.comments(place, of_tables=named), bound).all()
    columns, comments = _by_table(inside), {row.object_id: row.value for row in said}
    return [
        Found(table.name, tuple(columns[table.table_id]), comments.get(table.table_id))
        for table in listed.tables
        # A listing is kept; what was dropped since has no columns.
        if table.table_id in columns
    ]


def _by_table(rows: Sequence[Any]) -> Mapping[int, list[FoundColumn]]:
    """Group the rows of :func:`queries.columns` by table, nested ones under their parents."""
    nested = _nested(row for row in rows if row.parent_column is not None)
    found: dict[int, list[FoundColumn]] = defaultdict(list)
    for row in rows:
        # Rows are many: unpacking one is five times as fast as asking it for its fields.
        table, _, parent, name, type_name, default, default_type, nullable, comment = row
        if parent is not None:
            continue
        inside = nested.get(table)
        kind = of_plain(type_name) if inside is None else inside.type_of(row)
        if default is not None:
            default = _default(default, default_type, kind)
        tags = () if inside is None else tuple(inside.tags_of(row))
        # A catalog in SQLite has a number for what is nullable.
        found[table].append(FoundColumn(name, kind, bool(nullable), default, comment, tags))
    return found


def _nested(rows: Iterable[Any]) -> Mapping[int, _Inside]:
    """Give what is inside of the columns of each table that has any such."""
    found: dict[int, dict[int, list[Any]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        found[row.table_id][row.parent_column].append(row)
    return {table: _Inside(parents) for table, parents in found.items()}


class _Inside:
    """What is inside of the columns of a table: rows of the catalog by their parents."""

    def __init__(self, rows: Mapping[int, Sequence[Any]]) -> None:
        self._rows = rows
        self._types = {parent: list(map(_catalog_type, each)) for parent, each in rows.items()}

    def type_of(self, row: Any) -> TypeName:
        """Put together the type of a column."""
        return of_catalog(_catalog_type(row), self._types)

    def tags_of(self, row: Any) -> Iterable[tuple[str, str]]:
        """Give the comments on what is inside of a column."""
        for child in self._rows.get(row.column_id, ()):
            name = f"{row.column_name}.{child.column_name}"
            if child.comment is not None:
                yield name, child.comment
            for inner, comment in self.tags_of(child):
                yield f"{row.column_name}.{inner}", comment


def _catalog_type(row: Any) -> CatalogType:
    return CatalogType(row.column_id, row.column_name, row.column_type)


def _default(value: str, said: str, kind: TypeName) -> str | None:
    if value == "NULL":
        return None
    return literal_text(value, kind) if said == "literal" else expression_text(value)
