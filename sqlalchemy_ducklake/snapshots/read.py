"""Snapshots of a lake, and the versions of one table.

Only the catalog is read, never data, and :data:`PAGE <sqlalchemy_ducklake.lake.history.PAGE>`
snapshots at a time, as far as the caller goes on asking.  A *version* of a table is a
snapshot that changed its rows or columns; comments, other tables and compaction are none.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import duckdb
from sqlalchemy import Connection
from sqlalchemy.orm import Session

from sqlalchemy_ducklake.errors import TableNotThen
from sqlalchemy_ducklake.lake.changes import (
    Change,
    TableName,
    born,
    kinds_of_change,
    pinned_snapshot,
    table_id,
)
from sqlalchemy_ducklake.lake.changes import Snapshot as Changed
from sqlalchemy_ducklake.lake.config import LakeConfig
from sqlalchemy_ducklake.lake.history import Told, column_changes, told_snapshots
from sqlalchemy_ducklake.lake.marks import NAMESPACE, CommitRecord, table_label
from sqlalchemy_ducklake.snapshots.asking import driver_connection, name_of, target_of

_INSERTS = frozenset({"inserted_into_table", "inlined_insert"})
_DELETES = frozenset({"deleted_from_table", "inlined_delete"})


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One commit of a lake.

    ``extra`` is what the user had it say besides (an empty mapping if that is no JSON
    object); ``changes`` is what the catalog says that it did, empty if unreadable.
    """

    id: int
    time: datetime
    schema_version: int
    author: str | None = None
    message: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)
    changes: tuple[Change, ...] = ()


@dataclass(frozen=True, slots=True)
class TableVersion:
    """A snapshot that changed the rows or columns of a table.

    ``mode`` is how it was written: what its writer noted (``insert``, ``merge``,
    ``replace``, …), or else what the changes tell (``insert``, ``delete``, ``update``,
    ``schema``, ``create``).  ``parent`` is the version before it, None for one that does not
    build on any: the first, and a replacement of all rows.
    """

    snapshot: Snapshot
    mode: str
    parent: int | None

    @property
    def id(self) -> int:
        """The number of the snapshot."""
        return self.snapshot.id


def snapshots(connection: Connection | Session) -> Iterator[Snapshot]:
    """Give the snapshots that the connection's transaction sees, newest first."""
    duck, config = driver_connection(connection).reading()
    for page in told_snapshots(duck, config, pinned_snapshot(duck, config)):
        yield from map(_snapshot, page)


def versions(connection: Connection | Session, table: Any) -> Iterator[TableVersion]:
    """Give the versions of a table or mapped class, newest first.

    Raises TableNotThen if the lake has no such table.
    """
    name = name_of(connection, target_of(table))
    newer: TableVersion | None = None
    for found in _versions(connection, name):
        if newer is not None:
            yield _with_parent(newer, found.id)
        newer = found
    if newer is not None:
        yield newer


def _versions(connection: Connection | Session, name: TableName) -> Iterator[TableVersion]:
    duck, config = driver_connection(connection).reading()
    head = pinned_snapshot(duck, config)
    identity, first = table_id(duck, config, name, head), born(duck, config, name, head)
    if identity is None or first is None:
        raise TableNotThen(table_label(*name), head, None, None)
    columns = column_changes(duck, config, identity)
    # A rename begins the table anew in the catalog; its columns remember when it was made.
    oldest = min(columns, default=first)
    for page in told_snapshots(duck, config, head, oldest):
        for told in page:
            mode = _mode(duck, config, told, name, identity, columns - {oldest})
            if told.id == oldest:
                mode = mode or "create"
            if mode:
                yield TableVersion(_snapshot(told), mode, None)


def _with_parent(version: TableVersion, parent: int) -> TableVersion:
    if version.mode in {"replace", "create"}:
        return version
    return TableVersion(version.snapshot, version.mode, parent)


def _mode(
    duck: duckdb.DuckDBPyConnection,
    config: LakeConfig,
    told: Told,
    name: TableName,
    identity: int,
    columns: frozenset[int],
) -> str:
    """Tell how a snapshot changed a table; empty if it did not."""
    record = CommitRecord.decode(told.extra)
    changed = Changed(told.id, told.changes, record)
    kinds = kinds_of_change(duck, config, changed, identity)
    inserts, deletes = bool(kinds & _INSERTS), bool(kinds & _DELETES)
    if inserts or deletes:
        mark = None if record is None else record.tables.get(table_label(*name))
        if mark is not None and mark.mode:
            return mark.mode
        return "update" if inserts and deletes else "insert" if inserts else "delete"
    return "schema" if told.id in columns else ""


def _snapshot(told: Told) -> Snapshot:
    return Snapshot(
        told.id,
        told.time,
        told.schema_version,
        told.author,
        told.message,
        _extra(told.extra),
        told.changes or (),
    )


def _extra(text: str | None) -> dict[str, Any]:
    try:
        found = json.loads(text or "{}")
    except ValueError:
        return {}  # somebody else's
    if not isinstance(found, dict):
        return {}
    return {name: value for name, value in found.items() if name != NAMESPACE}
