"""Bringing the past of a table back, as a new snapshot."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnClause, Connection, Table, column, delete, exc, select
from sqlalchemy.orm import Session

from sqlalchemy_ducklake.constructs.history import at_snapshot
from sqlalchemy_ducklake.driver import Connection as DriverConnection
from sqlalchemy_ducklake.errors import NotOnlyAppends
from sqlalchemy_ducklake.lake.changes import (
    History,
    TableName,
    changes_between,
    kinds_of_change,
    pinned_snapshot,
    table_id,
)
from sqlalchemy_ducklake.lake.history import require_table_at
from sqlalchemy_ducklake.lake.marks import table_label
from sqlalchemy_ducklake.merge.result import MergeResult
from sqlalchemy_ducklake.snapshots.asking import (
    core_connection,
    driver_connection,
    name_of,
    target_of,
)
from sqlalchemy_ducklake.snapshots.compare import state_at
from sqlalchemy_ducklake.writer.tables import write_table

_APPENDS = frozenset({"inserted_into_table", "inlined_insert"})


def restore(connection: Connection | Session, table: Any, snapshot: int) -> MergeResult:
    """Give a table the rows that it had at a snapshot, in the connection's transaction.

    With a primary key this is one staged merge: rows that are the same stay untouched.
    Without one, all rows are replaced, unless both hold the same ones.  A column that there
    was not becomes NULL; columns and keys of today stay.  Nothing is written if nothing
    differs.  Raises UnknownSnapshot and TableNotThen.
    """
    target = target_of(table)
    return write_table(connection, target, state_at(connection, target, snapshot), "replace")


def undo_appends_since(connection: Connection | Session, table: Any, snapshot: int) -> int:
    """Delete the rows that were appended after a snapshot, and give their number.

    Raises NotOnlyAppends if anything but appends happened to the table since, also its
    columns; UnknownSnapshot and TableNotThen.  Without appends nothing is written.
    """
    target = target_of(table)
    name = name_of(connection, target)
    own = driver_connection(connection)
    duck, config = own.reading()
    require_table_at(duck, config, name, snapshot)
    head = pinned_snapshot(duck, config)
    identity = table_id(duck, config, name, snapshot)
    history = changes_between(duck, config, snapshot, head)
    label = table_label(*name)
    if identity is None or table_id(duck, config, name, head) != identity:
        raise NotOnlyAppends(label, snapshot, None, "it was dropped, renamed or replaced")
    if not history.complete:
        raise NotOnlyAppends(label, snapshot, None, "snapshots in between were expired")
    if not _appended(own, history, name, identity):
        return 0
    return core_connection(connection).execute(_newer_rows(target, snapshot)).rowcount


def _appended(own: DriverConnection, history: History, name: TableName, identity: int) -> bool:
    """Tell whether there were appends; raises NotOnlyAppends for anything else."""
    found = False
    duck, config = own.reading()
    for each in history.snapshots:
        kinds = kinds_of_change(duck, config, each, identity)
        if kinds - _APPENDS or each.changes is None:
            what = ", ".join(sorted(kinds - _APPENDS)) or "its changes cannot be read"
            raise NotOnlyAppends(table_label(*name), history.base, each.id, what)
        found = found or bool(kinds)
    return found


def _newer_rows(target: Table, snapshot: int) -> Any:
    """DELETE the rows whose lineage the snapshot does not know."""
    if any(each.name.lower() == "rowid" for each in target.c):
        raise exc.ArgumentError(
            f"{target} has a column named rowid, which hides the number by which a lake "
            "tells rows apart; use restore()"
        )
    past = at_snapshot(target, snapshot)
    rowid: ColumnClause[Any] = column("rowid", _selectable=past)
    own: ColumnClause[Any] = column("rowid")
    return delete(target).where(own.not_in(select(rowid)))
