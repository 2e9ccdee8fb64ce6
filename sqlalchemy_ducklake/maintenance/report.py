"""How a table is laid out in its files, and what upkeep would do about it."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

import duckdb
from sqlalchemy import Connection, column, func, select
from sqlalchemy.orm import Session

from sqlalchemy_ducklake.errors import OptionError, TableNotThen
from sqlalchemy_ducklake.lake.changes import pinned_snapshot, table_id
from sqlalchemy_ducklake.lake.inventory import (
    DataFile,
    column_ranges,
    data_files,
    sort_expressions,
)
from sqlalchemy_ducklake.lake.layouts import hidden_files, options_around
from sqlalchemy_ducklake.lake.marks import table_label
from sqlalchemy_ducklake.maintenance.picture import Bar, picture
from sqlalchemy_ducklake.snapshots.asking import (
    core_connection,
    driver_connection,
    name_of,
    target_of,
)

_TARGET = 512 << 20
_REWRITE = 0.95
_GROUPS = """FROM parquet_file_metadata($1) SELECT num_row_groups"""

Range = tuple[Any, Any]


@dataclass(frozen=True, slots=True)
class KeyReport:
    """How well files can be told apart by a column.

    ``ranges`` are smallest and largest value of each file that has some, by its id.
    ``depth`` is how many files hold the smallest value of a file in their range, on
    average: 1 means that a search for one value reads one file.
    """

    column: str
    ranges: dict[int, Range]
    depth: float


@dataclass(frozen=True, slots=True)
class TableReport:
    """The layout of a table.

    ``inlined`` rows are in the catalog.  ``row_groups`` counts those of each file by its
    id, where the file could be read.  ``small_files`` are less than half as large as files
    are meant to be (``target`` bytes), ``mergeable`` those that ``merge_small_files`` finds
    at least one partner for, ``rewritable`` those whose deleted rows ``rewrite_deleted``
    would drop.  ``hidden`` counts, by column, files that DuckLake 1.5.5 leaves out when it
    searches by that column: they are older than the partitions by its bucket.
    """

    table: str
    files: tuple[DataFile, ...]
    keys: tuple[KeyReport, ...]
    inlined: int
    row_groups: dict[int, int]
    target: int
    mergeable: int
    rewritable: int
    hidden: dict[str, int] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """Rows in files, without those that are deleted."""
        return sum(each.rows - each.deleted for each in self.files)

    @property
    def size(self) -> int:
        """Bytes of all data files."""
        return sum(each.size for each in self.files)

    @property
    def deleted(self) -> int:
        """Rows in files that are deleted."""
        return sum(each.deleted for each in self.files)

    @property
    def partitions(self) -> int:
        """Partitions that have files."""
        return len({each.partition for each in self.files})

    @property
    def small_files(self) -> int:
        """Files that are less than half as large as they are meant to be."""
        return sum(each.size < self.target / 2 for each in self.files)

    @property
    def small_ratio(self) -> float:
        """The share of small files among all."""
        return self.small_files / len(self.files) if self.files else 0.0

    def advice(self) -> list[str]:
        """Say what upkeep would do."""
        said = [
            f"a search by {column!r} misses the rows of {count} files that are older than its "
            "buckets (DuckLake 1.5.5): write all rows anew, or partition by something else"
            for column, count in self.hidden.items()
        ]
        if self.mergeable:
            said.append(f"merge_small_files would merge {self.mergeable} files")
        if self.rewritable:
            said.append(f"rewrite_deleted would write {self.rewritable} files anew")
        if self.inlined:
            said.append(f"flush_inlined would move {self.inlined} rows into files")
        said.extend(
            f"a search by {key.column!r} reads about {key.depth:.0f} of {len(self.files)} "
            "files: sort by it, then merge"
            for key in self.keys
            if key.depth >= 2
        )
        return said

    def plot(self, path: str | Path, column: str | None = None) -> Path:
        """Write an SVG of the files' ranges along a key, and give its path.

        Bars that lie side by side can be told apart by a search; bars on top of each
        other are read together.  Raises OptionError for a column that is no key here.
        """
        keys = {each.column: each for each in self.keys}
        wanted = column if column is not None else next(iter(keys), "")
        if wanted not in keys:
            raise OptionError("column", f"is one of {sorted(keys)}, not {wanted!r}")
        key = keys[wanted]
        bars = [
            Bar(each.path, *key.ranges[each.id], each.rows, each.deleted)
            for each in self.files
            if each.id in key.ranges
        ]
        title = f"{self.table} by {wanted}: {len(bars)} files, depth {key.depth:.1f}"
        file = Path(path)
        file.write_text(picture(title, bars), encoding="utf-8")
        return file


def describe(
    connection: Connection | Session,
    table: Any,
    *,
    keys: Sequence[str] | None = None,
    footers: bool = True,
) -> TableReport:
    """Tell how a table or mapped class is laid out.

    ``keys`` are the columns whose ranges are compared; by default those that the table is
    sorted by, else its primary key.  With ``footers`` the row groups are counted, which
    opens each file.  Raises TableNotThen if the lake has no such table, OptionError for a
    key that is no column.
    """
    target = target_of(table)
    name = name_of(connection, target)
    duck, config = driver_connection(connection).reading()
    head = pinned_snapshot(duck, config)
    identity = table_id(duck, config, name, head)
    if identity is None:
        raise TableNotThen(table_label(*name), head, None, None)
    files = data_files(duck, config, identity)
    columns = {each.name.lower() for each in target.c}
    chosen = list(keys) if keys is not None else _keys_of(duck, config, identity, target)
    for each in chosen:
        if each.lower() not in columns:
            raise OptionError("keys", f"names {each!r}, which is no column of {target}")
    options = options_around(duck, config, identity)
    goal = _bytes(options.get("target_file_size"))
    return TableReport(
        table_label(*name),
        files,
        tuple(_key(duck, config, identity, each, files) for each in chosen),
        _inlined(connection, target),
        _row_groups(duck, config, name, files) if footers else {},
        goal,
        _mergeable(files, goal),
        sum(each.deleted > each.rows * _REWRITE for each in files),
        hidden_files(duck, config, identity),
    )


def _keys_of(duck: Any, config: Any, identity: int, target: Any) -> list[str]:
    names = {each.name.lower(): each.name for each in target.c}
    expressions = sort_expressions(duck, config, identity)
    found = [names[each.strip('"').lower()] for each in expressions if _plain(each, names)]
    return found or [each.name for each in target.primary_key]


def _plain(expression: str, names: dict[str, str]) -> bool:
    return expression.strip('"').lower() in names


def _key(
    duck: Any, config: Any, identity: int, column: str, files: Sequence[DataFile]
) -> KeyReport:
    texts = column_ranges(duck, config, identity, column)
    live = {each.id for each in files}
    found = {
        number: (low, high)
        for number, (low, high) in texts.items()
        if number in live and low is not None and high is not None
    }
    return KeyReport(column, ranges := _typed(found), _depth(list(ranges.values())))


def _typed(texts: dict[int, tuple[str, str]]) -> dict[int, Range]:
    """Read texts as numbers if all of them are some; dates and times sort as texts."""
    try:
        return {number: (Decimal(low), Decimal(high)) for number, (low, high) in texts.items()}
    except InvalidOperation:
        return dict(texts)


def _depth(ranges: Sequence[Range]) -> float:
    if not ranges:
        return 0.0
    return statistics.fmean(
        sum(low <= point <= high for low, high in ranges) for point, _ in ranges
    )


def _mergeable(files: Sequence[DataFile], target: int) -> int:
    """Count the small files without deletions that have a partner in their partition."""
    small = [each for each in files if not each.deleted and each.size < target]
    partners = Counter(each.partition for each in small)
    return sum(partners[each.partition] > 1 for each in small)


def _inlined(connection: Connection | Session, target: Any) -> int:
    if any(each.name.lower() == "filename" for each in target.c):
        return 0  # the column hides the one of the engine
    place: Any = column("filename")
    query = select(func.count()).select_from(target)
    inside = query.where(place.like("ducklake_inlined_data%"))
    return core_connection(connection).scalar(inside) or 0


def _row_groups(
    duck: Any, config: Any, name: tuple[str, str], files: Sequence[DataFile]
) -> dict[int, int]:
    paths = duck.execute(
        "FROM ducklake_list_files($1, $2, schema => $3) SELECT data_file",
        [config.alias, name[1], name[0]],
    ).fetchall()
    places = {path.rpartition("/")[2]: path for (path,) in paths}
    found = {}
    for each in files:
        path = places.get(each.path.rpartition("/")[2])
        if path is not None and not each.encrypted:
            found[each.id] = _groups_of(duck, path)
    return found


def _groups_of(duck: duckdb.DuckDBPyConnection, path: str) -> int:
    with duck.cursor() as other:
        row = other.execute(_GROUPS, [path]).fetchone()
    return 0 if row is None else int(row[0])


def _bytes(text: str | None) -> int:
    return int(text) if text is not None and text.isdigit() else _TARGET
