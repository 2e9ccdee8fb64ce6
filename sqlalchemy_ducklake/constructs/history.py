"""Tables as they were: elements of FROM that read another snapshot.

    at_snapshot(t, 7)                  the rows of snapshot 7
    at_timestamp(t, when)              the rows of the last snapshot up to then
    table_changes(t, 3, 7)             what snapshots 3 to 7 did to the rows

They stand wherever a table does, in Core and, made of a mapped class, in the ORM.  Numbers
and times are parameters of the statement, so one compiled statement serves them all.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, cast, overload

from sqlalchemy import (
    BigInteger,
    String,
    bindparam,
    column,
    exc,
    inspect,
)
from sqlalchemy.orm import DeclarativeBase, aliased
from sqlalchemy.sql.elements import BindParameter
from sqlalchemy.sql.schema import Table
from sqlalchemy.sql.selectable import AliasedReturnsRows, FromClauseAlias, TableClause
from sqlalchemy.sql.visitors import InternalTraversal

#: The columns that a change feed has before those of the table.
FEED_COLUMNS = ("snapshot_id", "rowid", "change_type")


class AtSnapshot(FromClauseAlias):
    """A table at a snapshot; ``version`` is the parameter that says which."""

    __visit_name__ = "ducklake_at"
    inherit_cache = False

    _traverse_internals = [  # noqa: RUF012 - SQLAlchemy's own form
        *AliasedReturnsRows._traverse_internals,  # noqa: SLF001
        ("version", InternalTraversal.dp_clauseelement),
    ]

    version: BindParameter[Any]

    def _init(  # type: ignore[override]
        self, selectable: Any, *, name: str | None = None, version: BindParameter[Any]
    ) -> None:
        self.version = version
        super()._init(selectable, name=name)


class TableChanges(TableClause):
    """What snapshots did to the rows of a table, from one to another, both included."""

    __visit_name__ = "ducklake_table_changes"
    inherit_cache = False

    _traverse_internals = [  # noqa: RUF012 - SQLAlchemy's own form
        *TableClause._traverse_internals,  # noqa: SLF001
        ("target", InternalTraversal.dp_clauseelement),
        ("first", InternalTraversal.dp_clauseelement),
        ("last", InternalTraversal.dp_clauseelement),
    ]

    def __init__(self, target: Table, first: Any, last: Any, name: str) -> None:
        own = (
            column("snapshot_id", BigInteger),
            column("rowid", BigInteger),
            column("change_type", String),
        )
        # So the engine names what is there already.
        others = (
            column(f"{each.name}_1" if each.name in FEED_COLUMNS else each.name, each.type)
            for each in target.c
        )
        super().__init__(name, *own, *others)
        self.target = target
        self.first, self.last = _version(first), _version(last)


@overload
def at_snapshot(table: Table, snapshot: int, *, name: str | None = None) -> AtSnapshot: ...
@overload
def at_snapshot(table: type[Any], snapshot: int, *, name: str | None = None) -> Any: ...
def at_snapshot(table: Any, snapshot: int, *, name: str | None = None) -> Any:
    """Give a table or mapped class as it was at a snapshot, to select from.

    The table is looked for under the name that it had then.  When the statement runs it
    raises UnknownSnapshot or TableNotThen, and the transaction stays usable.
    """
    if isinstance(snapshot, bool) or not isinstance(snapshot, int) or snapshot < 0:
        raise exc.ArgumentError(f"a snapshot is a number, 0 or more, not {snapshot!r}")
    return _at(table, snapshot, name)


def at_timestamp(table: Any, when: datetime, *, name: str | None = None) -> Any:
    """Give a table or mapped class as the last snapshot at or before a time had it.

    A time without a zone is UTC.
    """
    if not isinstance(when, datetime):
        raise exc.ArgumentError(f"a time is a datetime, not {when!r}")
    return _at(table, when, name)


def table_changes(table: Any, first: int | datetime, last: int | datetime) -> TableChanges:
    """Give what the snapshots ``first`` to ``last`` did to rows, both included.

    Its columns are ``snapshot_id``, ``rowid`` and ``change_type``, then those of the table:
    ``insert``, ``delete``, and an update as a pair of ``update_preimage`` and
    ``update_postimage`` with one ``rowid``.  What compaction rewrote is no change.  Rows
    come in no order.  ``merge(t).changes(…)`` applies them to another table.
    """
    target, _ = _target(table)
    return TableChanges(target, first, last, f"{target.name}_changes")


def _at(table: Any, version: int | datetime, name: str | None) -> Any:
    target, mapped = _target(table)
    found = cast("Any", AtSnapshot)._construct(  # noqa: SLF001 - as SQLAlchemy's own do
        target, name=name, version=_version(version)
    )
    if mapped is None:
        return found
    return aliased(cast("type[DeclarativeBase]", mapped), found, name=name)


def _target(table: Any) -> tuple[Table, Any]:
    """Give the table, and the class if it was one that is mapped to it."""
    if isinstance(table, Table):
        return table, None
    mapper: Any = inspect(table, raiseerr=False)
    local = getattr(mapper, "local_table", None)
    if not isinstance(local, Table) or mapper.persist_selectable is not local:
        raise exc.ArgumentError(
            f"{table!r} is neither a Table nor a class that is mapped to one table"
        )
    return local, table


def _version(version: int | datetime) -> BindParameter[Any]:
    if isinstance(version, datetime):
        # The number is found when the statement runs.
        when = version.replace(tzinfo=version.tzinfo or UTC).astimezone(UTC)
        return bindparam("snapshot", when, type_=BigInteger(), unique=True)
    if isinstance(version, bool) or not isinstance(version, int) or version < 0:
        raise exc.ArgumentError(f"a snapshot is a number or a time, not {version!r}")
    return bindparam("snapshot", version, type_=BigInteger(), unique=True)
