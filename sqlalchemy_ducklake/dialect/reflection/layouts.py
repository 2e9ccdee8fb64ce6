"""How tables are laid out, from the metadata tables of a lake, for many tables at once.

What the open transaction has changed is not there before its commit, and the engine has no
other place that tells it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    FromClause,
    Select,
    String,
    TableClause,
    and_,
    bindparam,
    column,
    or_,
    select,
)
from sqlalchemy.engine import Connection

from sqlalchemy_ducklake.dialect.layout import BUCKET, Layout, PartitionKey, SortKey
from sqlalchemy_ducklake.dialect.options import NAMES, default_of
from sqlalchemy_ducklake.dialect.reflection.catalog import Listing
from sqlalchemy_ducklake.dialect.reflection.queries import MetadataPlace

_VERSIONS = ("begin_snapshot", "end_snapshot")


@dataclass(frozen=True, slots=True)
class FoundLayout:
    """The layout of a table, and the options that hold around it: of its schema, the lake."""

    layout: Layout = field(default_factory=Layout)
    outside: Mapping[str, str] = field(default_factory=dict)


def read(connection: Connection, listed: Listing) -> Mapping[str, FoundLayout]:
    """Return the layouts of the committed tables of a listing, by their names."""
    if not listed.tables:
        return {}
    place, named, bound = listed.place.metadata, listed.named, listed.bound()
    partitions = _grouped(connection.execute(_partitions(place, named=named), bound))
    sorting = _grouped(connection.execute(_sorting(place, named=named), bound))
    settings = _by_scope(connection.execute(_settings(place)))
    layouts: dict[str, FoundLayout] = {}
    for table in listed.tables:
        outside = {**settings[None, None], **settings["schema", table.schema_id]}
        layout = Layout(
            tuple(map(_partition_key, partitions[table.table_id])),
            tuple(map(_sort_key, sorting[table.table_id])),
            _options(settings["table", table.table_id], outside),
        )
        layouts[table.name] = FoundLayout(layout, outside)
    return layouts


def _grouped(rows: Iterable[Any]) -> Mapping[int, list[Any]]:
    found: dict[int, list[Any]] = defaultdict(list)
    for row in rows:
        found[row.table_id].append(row)
    return found


def _partition_key(row: Any) -> PartitionKey:
    """Read a transform: a word, or ``bucket(<number>)``."""
    word, _, number = str(row.transform).partition("(")
    buckets = int(number.rstrip(")")) if word == BUCKET else None
    return PartitionKey(row.column_name, word, buckets)


def _sort_key(row: Any) -> SortKey:
    first = str(row.null_order).endswith("FIRST")
    return SortKey(row.expression, str(row.sort_direction) == "DESC", first)


def _by_scope(rows: Iterable[Any]) -> Mapping[tuple[str | None, int | None], dict[str, str]]:
    found: dict[tuple[str | None, int | None], dict[str, str]] = defaultdict(dict)
    for row in rows:
        found[row.scope, row.scope_id][row.key] = row.value
    return found


def _options(said: Mapping[str, str], outside: Mapping[str, str]) -> dict[str, str]:
    """Return the options of a table that say other than what holds without them."""
    return {
        name: value
        for name, value in sorted(said.items())
        if name in NAMES and value != outside.get(name, default_of(name))
    }


def _live(versioned: FromClause) -> ColumnElement[bool]:
    head = bindparam("head", type_=BigInteger)
    ended = or_(versioned.c.end_snapshot.is_(None), versioned.c.end_snapshot > head)
    return and_(versioned.c.begin_snapshot <= head, ended)


def _metadata(
    place: MetadataPlace, name: str, numbers: Sequence[str], texts: Sequence[str]
) -> TableClause:
    columns = [column(one, BigInteger) for one in numbers]
    return place.table(name, *columns, *(column(one, String) for one in texts))


def _among(ids: ColumnElement[Any]) -> ColumnElement[bool]:
    return ids.in_(bindparam("tables", expanding=True, type_=BigInteger))


@lru_cache
def _partitions(place: MetadataPlace, *, named: bool) -> Select[Any]:
    """Ask for partition keys, in order; bind ``head`` and, if ``named``, ``tables``."""
    info = _metadata(
        place, "ducklake_partition_info", ("partition_id", "table_id", *_VERSIONS), ()
    )
    numbers = ("partition_id", "table_id", "partition_key_index", "column_id")
    keys = _metadata(place, "ducklake_partition_column", numbers, ["transform"])
    columns = _metadata(
        place, "ducklake_column", ("table_id", "column_id", *_VERSIONS), ["column_name"]
    )
    same_column = and_(
        columns.c.table_id == keys.c.table_id, columns.c.column_id == keys.c.column_id
    )
    query = (
        select(info.c.table_id, columns.c.column_name, keys.c.transform)
        .join_from(info, keys, info.c.partition_id == keys.c.partition_id)
        .join(columns, same_column)
        .where(_live(info), _live(columns))
        .order_by(info.c.table_id, keys.c.partition_key_index)
    )
    return query.where(_among(info.c.table_id)) if named else query


@lru_cache
def _sorting(place: MetadataPlace, *, named: bool) -> Select[Any]:
    """Ask for what rows are sorted by; bind as for :func:`_partitions`."""
    info = _metadata(place, "ducklake_sort_info", ("sort_id", "table_id", *_VERSIONS), ())
    keys = _metadata(
        place,
        "ducklake_sort_expression",
        ("sort_id", "table_id", "sort_key_index"),
        ("expression", "sort_direction", "null_order"),
    )
    query = (
        select(info.c.table_id, keys.c.expression, keys.c.sort_direction, keys.c.null_order)
        .join_from(info, keys, info.c.sort_id == keys.c.sort_id)
        .where(_live(info))
        .order_by(info.c.table_id, keys.c.sort_key_index)
    )
    return query.where(_among(info.c.table_id)) if named else query


@lru_cache
def _settings(place: MetadataPlace) -> Select[Any]:
    """Ask for all options of the lake, its schemas and its tables."""
    found = _metadata(place, "ducklake_metadata", ["scope_id"], ("key", "value", "scope"))
    return select(found.c.key, found.c.value, found.c.scope, found.c.scope_id)
