"""How the rows of a table differ between two snapshots."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Executable,
    Table,
    and_,
    cast,
    func,
    literal,
    not_,
    null,
    or_,
    select,
)
from sqlalchemy.orm import Session
from sqlalchemy.sql.selectable import FromClause

from sqlalchemy_ducklake.constructs.history import at_snapshot
from sqlalchemy_ducklake.lake.history import columns_at, require_table_at
from sqlalchemy_ducklake.snapshots.asking import (
    core_connection,
    driver_connection,
    name_of,
    target_of,
)


@dataclass(frozen=True, slots=True)
class TableDiff:
    """How many rows differ between two snapshots of a table.

    Without a primary key nothing says which rows belong together, so a changed row counts
    as deleted and inserted, and ``updated`` is 0.
    """

    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    unchanged: int = 0

    @property
    def same(self) -> bool:
        """Tell whether both snapshots hold the same rows."""
        return not (self.inserted or self.updated or self.deleted)


def diff(connection: Connection | Session, table: Any, a: int, b: int) -> TableDiff:
    """Count how the rows of a table changed from snapshot ``a`` to snapshot ``b``.

    Rows are told apart by the primary key.  A column that a snapshot did not have reads as
    NULL there.  Raises UnknownSnapshot and TableNotThen.
    """
    target = target_of(table)
    old, new = (state_at(connection, target, snapshot) for snapshot in (a, b))
    keyed = bool(list(target.primary_key))
    count = _by_key(target, old, new) if keyed else _by_rows(old, new)
    row = core_connection(connection).execute(count).one()
    return TableDiff(*(int(each or 0) for each in row))


def state_at(connection: Connection | Session, target: Table, snapshot: int) -> FromClause:
    """Give a table as it was at a snapshot, with the columns of today.

    A column that there was not reads as NULL.
    """
    name = name_of(connection, target)
    duck, config = driver_connection(connection).reading()
    require_table_at(duck, config, name, snapshot)
    known = {each.lower() for each in columns_at(duck, config, name, snapshot)}
    past = at_snapshot(target, snapshot)
    columns: list[ColumnElement[Any]] = [
        past.c[each.key].label(each.name)
        if each.name.lower() in known
        else cast(null(), each.type).label(each.name)
        for each in target.c
    ]
    return select(*columns).subquery()


def _by_key(target: Table, old: FromClause, new: FromClause) -> Executable:
    key = [each.name for each in target.primary_key]
    same = and_(*(old.c[name] == new.c[name] for name in key))
    first = key[0]  # never NULL in a row that is there
    both = and_(old.c[first].is_not(None), new.c[first].is_not(None))
    others = [each.name for each in target.c if each.name not in key]
    differs = or_(False, *(old.c[name].is_distinct_from(new.c[name]) for name in others))
    pairs = old.join(new, same, full=True)
    return select(
        func.count().filter(old.c[first].is_(None)),
        func.count().filter(and_(both, differs)),
        func.count().filter(new.c[first].is_(None)),
        func.count().filter(and_(both, not_(differs))),
    ).select_from(pairs)


def _by_rows(old: FromClause, new: FromClause) -> Executable:
    gone = select(old).except_all(select(new)).subquery()
    came = select(new).except_all(select(old)).subquery()
    inserted = select(func.count()).select_from(came).scalar_subquery()
    deleted = select(func.count()).select_from(gone).scalar_subquery()
    before = select(func.count()).select_from(old).scalar_subquery()
    return select(inserted, literal(0), deleted, before - deleted)
