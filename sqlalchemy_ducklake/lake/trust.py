"""Whether the history of a lake proves that a key is unique.

Each commit of this package says which key it proved or kept (``marks.py``).  If the last
snapshot that changed the rows of a table says so of its key, nobody needs to look at the
rows.  A snapshot without that mark was written by somebody who checks no keys.

Not every change is one of rows: compaction, flushing inlined rows and ALTER TABLE are
none.  But a mark from before a key column, or the table's name, became what it is counts
for nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import duckdb

from sqlalchemy_ducklake.lake.attach import identifier, metadata_table
from sqlalchemy_ducklake.lake.changes import (
    Snapshot,
    TableName,
    changes_between,
    kinds_of_change,
)
from sqlalchemy_ducklake.lake.config import LakeConfig
from sqlalchemy_ducklake.lake.marks import table_label

# The newest snapshot decides most often, so the first page is small.
_PAGES = (16, 128, 128, 128, 112)

_FACTS = """FROM query_table($1) AS t JOIN query_table($2) AS s USING (schema_id)
    JOIN query_table($3) AS c USING (table_id)
    SELECT t.table_id, greatest(max(t.begin_snapshot), max(c.begin_snapshot))
    WHERE lower(s.schema_name) = lower($5) AND lower(t.table_name) = lower($6)
    AND c.parent_column IS NULL AND list_contains($7::VARCHAR[], c.column_name)
    AND t.begin_snapshot <= $4 AND (t.end_snapshot IS NULL OR t.end_snapshot > $4)
    AND s.begin_snapshot <= $4 AND (s.end_snapshot IS NULL OR s.end_snapshot > $4)
    AND c.begin_snapshot <= $4 AND (c.end_snapshot IS NULL OR c.end_snapshot > $4)
    GROUP BY t.table_id HAVING count(*) = len($7::VARCHAR[])"""


@dataclass(frozen=True, slots=True)
class KeyOf:
    """A key whose proof is asked for: table and columns by name."""

    table: TableName
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Proof:
    """A key was unique at ``snapshot`` in the table of this id, which held so many rows.

    ``rows`` is None where the last writer did not count them.
    """

    table_id: int
    snapshot: int
    rows: int | None = None


@dataclass(frozen=True, slots=True)
class _Vouched:
    """What the last snapshot that changed rows says of a key, and how many rows it left."""

    holds: bool
    rows: int | None = None


def prove(
    duck: duckdb.DuckDBPyConnection,
    config: LakeConfig,
    key: KeyOf,
    head: int,
    known: Proof | None = None,
) -> Proof | None:
    """Give the proof that a key is unique at ``head``; None if the history has none.

    ``known`` is an earlier proof, from which on less has to be read.  Ask in the
    transaction that pinned ``head``, before it writes to the table.
    """
    if known is not None and known.snapshot == head:
        return known
    walk = _Walk(duck, config, key, head)
    if known is not None and head - known.snapshot <= _PAGES[0]:
        snapshots = walk.page(known.snapshot, head)
        if snapshots is not None and not any(map(_redefines, snapshots)):
            found = walk.vouched(snapshots, known.table_id) or _Vouched(
                holds=True, rows=known.rows
            )
            return Proof(known.table_id, head, found.rows) if found.holds else None
    return walk.whole()


@dataclass(frozen=True, slots=True)
class _Walk:
    """A walk through the history, from the newest snapshot back."""

    duck: duckdb.DuckDBPyConnection
    config: LakeConfig
    key: KeyOf
    head: int

    def whole(self) -> Proof | None:
        """Look for the last change of the table's rows."""
        facts = self.duck.execute(
            _FACTS,
            [
                *(metadata_table(self.config, f"ducklake_{each}") for each in _CATALOG),
                self.head,
                *self.key.table,
                list(self.key.columns),
            ],
        ).fetchone()
        if facts is None:
            return None
        number, oldest = facts
        for low, high in _pages(self.head, oldest):
            snapshots = self.page(low, high)
            if snapshots is None:
                return None
            found = self.vouched(snapshots, number)
            if found is not None:
                return Proof(number, self.head, found.rows) if found.holds else None
        return None

    def page(self, low: int, high: int) -> tuple[Snapshot, ...] | None:
        """Read the snapshots after ``low`` up to ``high``, None if some were expired."""
        history = changes_between(self.duck, self.config, low, high)
        return history.snapshots if history.complete else None

    def vouched(self, snapshots: tuple[Snapshot, ...], number: int) -> _Vouched | None:
        """Tell what the last that changed rows says of the key; None if none did."""
        for snapshot in reversed(snapshots):
            if snapshot.changes is None:
                return _Vouched(holds=False)
            kinds = kinds_of_change(self.duck, self.config, snapshot, number)
            if kinds - {"altered_table"}:
                return self._of(snapshot)
        return None

    def _of(self, snapshot: Snapshot) -> _Vouched:
        tables = {} if snapshot.record is None else snapshot.record.tables
        mark = tables.get(table_label(*self.key.table))
        if mark is None or mark.validated_key != self.key.columns:
            return _Vouched(holds=False)
        return _Vouched(holds=True, rows=mark.row_count)


def count_rows(
    duck: duckdb.DuckDBPyConnection, config: LakeConfig, table: TableName
) -> int | None:
    """Count the rows of a table, which the engine knows without reading one.

    Ask before the transaction changes the table; None for a table that is not there.
    """
    name = ".".join(map(identifier, (config.alias, *table)))
    try:
        found = duck.execute(_COUNT, [name]).fetchone()
    except duckdb.CatalogException:
        return None
    return None if found is None else int(found[0])


_COUNT = "SELECT count(*) FROM query_table($1)"
_CATALOG = ("table", "schema", "column")


def _pages(head: int, oldest: int) -> Iterator[tuple[int, int]]:
    """Give ranges of snapshots, each after its first number up to its second."""
    high = head
    for size in _PAGES:
        if high < oldest:
            return
        low = max(high - size, oldest - 1)
        yield low, high
        high = low


def _redefines(snapshot: Snapshot) -> bool:
    """Tell whether a snapshot may have given a table another name, or other columns."""
    changes = snapshot.changes
    return changes is None or any(
        each.names or each.kind == "altered_table" for each in changes
    )
