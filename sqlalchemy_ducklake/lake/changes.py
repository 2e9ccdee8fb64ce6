"""What changed between two snapshots, and whether it concerns a table.

DuckLake keeps for each snapshot a text like ``inlined_insert:3,created_table:"s"."t"``.
It is read from the catalog's own table, because the function ``snapshots()`` reads all
of them each time.  Ask in the transaction that pinned ``head``, or with none open.

Some changes are none to a reader: compaction, and flushing inlined rows.  Some leave no
trace under the table's id: a rename is told as the creation of the new name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import duckdb

from sqlalchemy_ducklake.lake.attach import metadata_table
from sqlalchemy_ducklake.lake.config import LakeConfig
from sqlalchemy_ducklake.lake.marks import CommitRecord, table_label

TableName = tuple[str, str]

_CHANGES = """FROM query_table($1)
    SELECT snapshot_id, changes_made, commit_extra_info
    WHERE snapshot_id > $2 AND snapshot_id <= $3 ORDER BY snapshot_id"""
_TABLE = """FROM query_table($1) AS t JOIN query_table($2) AS s USING (schema_id)
    SELECT t.table_id, t.begin_snapshot
    WHERE lower(s.schema_name) = lower($4) AND lower(t.table_name) = lower($5)
    AND t.begin_snapshot <= $3 AND (t.end_snapshot IS NULL OR t.end_snapshot > $3)
    AND s.begin_snapshot <= $3 AND (s.end_snapshot IS NULL OR s.end_snapshot > $3)"""
_PINNED = "FROM ducklake_current_snapshot($1)"
_TABLE_NAMES = """FROM query_table($1) AS t JOIN query_table($2) AS s USING (schema_id)
    SELECT DISTINCT ON (t.table_id) s.schema_name, t.table_name
    WHERE list_contains($3::BIGINT[], t.table_id) ORDER BY t.table_id, t.begin_snapshot DESC"""
# A flush dates its files back to the snapshots of their rows; a merged file covers many.
_OWN_FILES = """FROM query_table($1) SELECT 1
    WHERE table_id = $3 AND begin_snapshot <= $4
    AND coalesce(partial_max, begin_snapshot) >= $4
    UNION ALL FROM query_table($1) SELECT 1 WHERE table_id = $3 AND end_snapshot = $4
    UNION ALL FROM query_table($2) SELECT 1
    WHERE table_id = $3 AND begin_snapshot <= $4
    AND coalesce(partial_max, begin_snapshot) >= $4
    LIMIT 1"""

_HARMLESS = frozenset({"merge_adjacent", "rewrite_delete", "compacted_table"})
_FLUSH = frozenset({"inline_flush", "flushed_inlined"})
# What a flush writes besides: files with the rows, and their deletions if there are any.
_OF_A_FLUSH = frozenset({"inserted_into_table", "deleted_from_table"})
# All that is told of a flush that had deletes only.
_FLUSHED_DELETES = frozenset({"deleted_from_table"})

_QUOTED = r'"(?:[^"]|"")*"'
_CHANGE = re.compile(
    rf'([^:,"]+):(?:(\d+)|({_QUOTED}(?:\.{_QUOTED})*))(?:,(?=.)|\Z)', re.DOTALL
)
_NAME = re.compile(_QUOTED)


@dataclass(frozen=True, slots=True)
class Change:
    """One change of a snapshot: of a table by id, or of something by its names."""

    kind: str
    id: int | None = None
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What one commit did; ``changes`` is None if its text cannot be read."""

    id: int
    changes: tuple[Change, ...] | None
    record: CommitRecord | None

    def kinds(self, table_id: int) -> frozenset[str]:
        """Give the kinds of changes that were made to a table."""
        return frozenset(each.kind for each in self.changes or () if each.id == table_id)


@dataclass(frozen=True, slots=True)
class History:
    """The snapshots after ``base`` up to ``head``, as far as they were not expired."""

    base: int
    head: int
    snapshots: tuple[Snapshot, ...]

    @property
    def complete(self) -> bool:
        """Tell whether every snapshot in between is still known."""
        return len(self.snapshots) == self.head - self.base

    def committed(self, commit_id: str) -> int | None:
        """Give the snapshot that carries this commit id."""
        for snapshot in self.snapshots:
            if snapshot.record is not None and snapshot.record.commit_id == commit_id:
                return snapshot.id
        return None


@dataclass(frozen=True, slots=True)
class Touch:
    """Why a table counts as changed: ``snapshot`` (None: no single one) and ``reason``."""

    table: str
    snapshot: int | None
    reason: str


def parse_changes(text: str) -> tuple[Change, ...]:
    """Split the changes of a snapshot; raises ValueError for a text of another form."""
    changes, position = [], 0
    while position < len(text):
        found = _CHANGE.match(text, position)
        if found is None:
            raise ValueError(f"not a list of changes at position {position}: {text!r}")
        kind, number, names = found.groups()
        identity = None if number is None else int(number)
        changes.append(Change(kind, identity, tuple(_unquoted(names or ""))))
        position = found.end()
    return tuple(changes)


def _unquoted(names: str) -> Iterator[str]:
    for quoted in _NAME.findall(names):
        yield quoted[1:-1].replace('""', '"')


def changes_between(
    duck: duckdb.DuckDBPyConnection, config: LakeConfig, base: int, head: int | None = None
) -> History:
    """Read what was committed after ``base`` up to ``head``, or up to now."""
    table = metadata_table(config, "ducklake_snapshot_changes")
    last = (1 << 62) if head is None else head
    rows = duck.execute(_CHANGES, [table, base, last]).fetchall()
    snapshots = tuple(
        Snapshot(number, _readable(text), CommitRecord.decode(extra))
        for number, text, extra in rows
    )
    newest = snapshots[-1].id if snapshots else base
    return History(base, newest if head is None else head, snapshots)


def _readable(text: str | None) -> tuple[Change, ...] | None:
    try:
        return parse_changes(text or "")
    except ValueError:
        return None


def touches(
    duck: duckdb.DuckDBPyConnection,
    config: LakeConfig,
    tables: Sequence[TableName],
    base: int,
    head: int,
) -> tuple[Touch, ...]:
    """Tell which tables changed after ``base`` up to ``head``, each once and why."""
    if base == head:
        return ()
    history = changes_between(duck, config, base, head)
    found = (_touch(duck, config, history, table) for table in tables)
    return tuple(touch for touch in found if touch is not None)


def _touch(
    duck: duckdb.DuckDBPyConnection, config: LakeConfig, history: History, table: TableName
) -> Touch | None:
    label = table_label(*table)
    before = table_id(duck, config, table, history.base)
    after = table_id(duck, config, table, history.head)
    if before != after:
        return Touch(label, None, "it was created, dropped, renamed or replaced")
    if after is None:
        return None
    if not history.complete:
        return Touch(label, None, "snapshots in between were expired")
    for snapshot in history.snapshots:
        reason = _reason(duck, config, snapshot, after)
        if reason:
            return Touch(label, snapshot.id, reason)
    return None


def _reason(
    duck: duckdb.DuckDBPyConnection,
    config: LakeConfig,
    snapshot: Snapshot,
    number: int,
) -> str:
    if snapshot.changes is None:
        return "its changes cannot be read"
    return ", ".join(sorted(kinds_of_change(duck, config, snapshot, number)))


def kinds_of_change(
    duck: duckdb.DuckDBPyConnection, config: LakeConfig, snapshot: Snapshot, number: int
) -> frozenset[str]:
    """Give the kinds of changes to a table of this id that a reader would notice.

    Flushing inlined deletes reads like deleting; the files of the snapshot tell.  (Not the
    change feed: DuckLake 1.5.5 may end the instance when another process flushes meanwhile.)
    A file that was merged of several snapshots counts as changed: that errs on the safe side.
    """
    kinds = snapshot.kinds(number) - _HARMLESS
    if kinds <= _FLUSH:
        return frozenset()
    flushed = kinds & _FLUSH and kinds <= _FLUSH | _OF_A_FLUSH
    if not flushed and kinds != _FLUSHED_DELETES:
        return kinds
    files = [metadata_table(config, f"ducklake_{kind}_file") for kind in ("data", "delete")]
    changed = duck.execute(_OWN_FILES, [*files, number, snapshot.id]).fetchone()
    return kinds if changed else frozenset()


def table_id(
    duck: duckdb.DuckDBPyConnection, config: LakeConfig, table: TableName, snapshot: int
) -> int | None:
    """Give the id that a table of this name had at a snapshot, None if there was none."""
    row = duck.execute(_TABLE, [*_catalog(config), snapshot, *table]).fetchone()
    return None if row is None else int(row[0])


def born(
    duck: duckdb.DuckDBPyConnection, config: LakeConfig, table: TableName, snapshot: int
) -> int | None:
    """Give the snapshot that made the table of this name, None if there is none."""
    row = duck.execute(_TABLE, [*_catalog(config), snapshot, *table]).fetchone()
    return None if row is None else int(row[1])


def pinned_snapshot(duck: duckdb.DuckDBPyConnection, config: LakeConfig) -> int:
    """Give the snapshot that the open transaction reads."""
    row = duck.execute(_PINNED, [config.alias]).fetchone()
    assert row is not None
    return int(row[0])


def changed_tables(
    duck: duckdb.DuckDBPyConnection, config: LakeConfig, history: History
) -> tuple[str, ...]:
    """Name the tables that a history changed, for people to read."""
    changes = [each for snapshot in history.snapshots for each in snapshot.changes or ()]
    numbers = sorted({each.id for each in changes if each.id is not None})
    rows = duck.execute(_TABLE_NAMES, [*_catalog(config), numbers]).fetchall()
    named = {(each.names[0], each.names[1]) for each in changes if len(each.names) == 2}
    return tuple(sorted(table_label(*table) for table in named.union(rows)))


def _catalog(config: LakeConfig) -> list[str]:
    return [metadata_table(config, name) for name in ("ducklake_table", "ducklake_schema")]
