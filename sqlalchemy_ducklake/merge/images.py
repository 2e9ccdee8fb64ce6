"""Rows as they would be after a statement, which is what every check looks at.

A plan knows the rows that are born, the rows that change, and which rows of the target
they replace.  A check asks for some columns of them: rows that change count only if one
of these columns is assigned, because what a constraint allowed before it still allows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import cast, exists, null, or_, select, union_all
from sqlalchemy.sql.elements import ColumnElement
from sqlalchemy.sql.selectable import FromClause, Select, SelectBase
from sqlalchemy.types import NullType, TypeEngine

from sqlalchemy_ducklake.merge.steps import Bare, constant

Condition = ColumnElement[bool]


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows with a value for each column of the target: a SELECT that names none yet."""

    query: Select[Any]
    values: Mapping[str, ColumnElement[Any]]

    def columns(self, names: Sequence[str]) -> Select[Any]:
        """Select some columns of these rows."""
        return self.query.with_only_columns(*(self.values[name].label(name) for name in names))


@dataclass(frozen=True, eq=False)
class Images:
    """What a statement leaves of the rows that it touches.

    ``born`` are new rows, ``changed`` those that get new values in the columns
    ``assigned``.  ``deleted`` and ``replaced`` say of a row of the target that it goes, or
    that ``changed`` has its image.  ``distinct`` promises that no key is in it twice.
    """

    target: FromClause
    born: Rows | None = None
    changed: Rows | None = None
    assigned: frozenset[str] = frozenset()
    deleted: Condition | None = None
    replaced: Condition | None = None
    distinct: bool = False

    def moves(self, names: Collection[str]) -> bool:
        """Tell whether rows that are there may get other values in one of these columns."""
        return self.changed is not None and not self.assigned.isdisjoint(names)

    def rows(
        self,
        names: Sequence[str],
        alias: str = "images",
        *,
        because: Collection[str] | None = None,
    ) -> FromClause | None:
        """Select these columns of all rows in which they may be new, None if there is none.

        ``because`` are the columns that matter, if not these.
        """
        parts = [self.born] if self.born is not None else []
        if self.changed is not None and self.moves(names if because is None else because):
            parts.append(self.changed)
        selects: list[SelectBase] = [each.columns(names) for each in parts]
        if not selects:
            return None
        return (selects[0] if len(selects) == 1 else union_all(*selects)).subquery(alias)

    def gone(self, names: Collection[str]) -> Condition | None:
        """Say of a row of the target that it no longer holds its values of these columns."""
        replaced = self.replaced if self.moves(names) else None
        conditions = [each for each in (self.deleted, replaced) if each is not None]
        return or_(*conditions) if conditions else None

    def stay(self, rows: Select[Any], names: Collection[str]) -> Select[Any]:
        """Restrict a select of the target to the rows that keep these columns."""
        gone = self.gone(names)
        return rows if gone is None else rows.where(~gone)


def is_in(stage: FromClause, where: Condition) -> Condition:
    """Say that a stage speaks of a row of the target, by a condition on both."""
    found = exists(constant(1)).where(where).select_from(stage)
    return found.correlate_except(stage)


def born_in(target: FromClause, stage: FromClause) -> Rows:
    """Give the rows of a stage as the target will hold them: NULL where they have no value."""
    staged = {each.name: each for each in stage.c}
    values = {
        each.name: staged[each.name] if each.name in staged else typed(null(), each.type)
        for each in target.c
    }
    return _computed(target, Rows(select().select_from(stage), values))


def changed_by(
    target: FromClause,
    stage: FromClause,
    here: Condition,
    new: Mapping[str, ColumnElement[Any]],
) -> Rows:
    """Give the rows of the target that a stage speaks of, with new values in some columns."""
    query: Select[Any] = select().select_from(target.join(stage, here))
    values = {each.name: new.get(each.name, each) for each in target.c}
    return _computed(target, Rows(query, values))


def with_computed(target: FromClause, names: Iterable[str]) -> frozenset[str]:
    """Add to the columns that a statement assigns those which are computed, if it does."""
    assigned = frozenset(names)
    return assigned.union(_computations(target)) if assigned else assigned


def _computations(target: FromClause) -> dict[str, ColumnElement[Any]]:
    return {
        each.name: typed(Bare(each.computed.sqltext, each.type), each.type)
        for each in target.c
        if getattr(each, "computed", None) is not None
    }


def _computed(target: FromClause, rows: Rows) -> Rows:
    """Let the computed columns of rows follow from the others, as they will."""
    computations = _computations(target)
    if not computations:
        return rows
    given = rows.columns([name for name in rows.values if name not in computations])
    inner = given.subquery("given")
    return Rows(select().select_from(inner), {**dict(inner.c.items()), **computations})


def typed(value: ColumnElement[Any], kind: TypeEngine[Any]) -> ColumnElement[Any]:
    """Give a value as the column that gets it will hold it."""
    return value if isinstance(kind, NullType) else cast(value, kind)
