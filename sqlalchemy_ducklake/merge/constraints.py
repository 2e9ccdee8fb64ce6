"""FOREIGN KEY and CHECK, looked after by SELECT before anything is written.

They speak of the state that a statement leaves: rows of one statement may refer to each
other, and what it deletes or moves away is no parent any more.  That is so for deferrable
constraints as well: a lake does not look again at the end of a transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from sqlalchemy import (
    Boolean,
    CheckConstraint,
    ForeignKeyConstraint,
    MetaData,
    and_,
    exc,
    exists,
    func,
    select,
    true,
    union_all,
)
from sqlalchemy.sql.elements import ColumnClause, ColumnElement, TextClause
from sqlalchemy.sql.schema import Column, Table
from sqlalchemy.sql.selectable import FromClause, Select
from sqlalchemy.sql.visitors import iterate

from sqlalchemy_ducklake.driver.intervals import MILLISECONDS
from sqlalchemy_ducklake.driver.script import ENFORCE_ALL, ENFORCE_KEYS
from sqlalchemy_ducklake.errors import (
    CheckViolation,
    ForeignKeyViolation,
    RowReferenced,
    ValueRefused,
)
from sqlalchemy_ducklake.merge.checks import check, column_of, constraint_name
from sqlalchemy_ducklake.merge.images import Images
from sqlalchemy_ducklake.merge.steps import Bare, PlannedStep, constant

_Rows = Sequence[tuple[Any, ...]]


@dataclass(frozen=True, eq=False)
class ForeignKey:
    """Columns of ``child`` that refer to columns of ``parent``, by name."""

    name: str | None
    child: FromClause
    columns: tuple[str, ...]
    parent: FromClause
    parent_columns: tuple[str, ...]

    def error(self, kind: type[ForeignKeyViolation], rows: _Rows) -> Exception:
        """Make the error from the values that refer to nothing, or are still referred to."""
        parent = (str(self.parent), self.parent_columns)
        return kind(str(self.child), self.name, self.columns, parent, tuple(rows))


@dataclass(frozen=True, eq=False)
class Check:
    """A condition on the rows of ``target``.

    ``reads`` are the columns that it is about: of a text nobody knows, so all of them.
    """

    name: str | None
    target: Table
    condition: Any
    reads: tuple[str, ...]

    @property
    def shown(self) -> tuple[str, ...]:
        """Give the columns that tell of a row: its key, and what the condition is about."""
        key = [each.name for each in self.target.primary_key.columns]
        return tuple(dict.fromkeys((*key, *self.reads)))

    #: What has to be enforced for it to be looked at.
    when: ClassVar[str] = ENFORCE_ALL

    def error(self, rows: _Rows) -> Exception:
        """Make the error from the rows that do not satisfy it."""
        return CheckViolation(
            str(self.target), self.name, _told(self.condition), self.shown, tuple(rows)
        )


class StorableInterval(Check):
    """That files can hold what an expression computes for an INTERVAL column.

    Parquet has no negative intervals, milliseconds, and 32 bits for those of a day.
    """

    when: ClassVar[str] = ENFORCE_KEYS

    def error(self, rows: _Rows) -> Exception:
        """Make the error from the rows that have others."""
        reason = (
            "Parquet files hold no negative intervals, milliseconds but nothing below, and of "
            "these 49 days; count days apart, or store a number"
        )
        return ValueRefused(self.reads[0], "INTERVAL", rows[0][-1], None, reason)


def storable_intervals(target: Table, columns: Iterable[Column[Any]]) -> list[Check]:
    """Give what these columns, which are INTERVAL, must satisfy."""
    return [StorableInterval(None, target, _storable(each), (each.name,)) for each in columns]


def _storable(column: Column[Any]) -> ColumnElement[bool]:
    def part(name: str) -> Any:
        return func.datepart(constant(name), column)

    parts = ("year", "month", "day", "hour", "minute", "microseconds")
    minutes, micros = part("hour") * 60 + part("minute"), part("microseconds")
    return and_(
        *(part(name) >= 0 for name in parts),
        micros % 1000 == 0,
        minutes * 60_000_000 + micros < MILLISECONDS * 1000,
    )


@dataclass(frozen=True, eq=False)
class Constraints:
    """What a table must satisfy besides its keys, and who refers to it."""

    foreign_keys: Sequence[ForeignKey] = ()
    references: Sequence[ForeignKey] = ()
    checks: Sequence[Check] = ()

    def __bool__(self) -> bool:
        return bool(self.foreign_keys or self.references or self.checks)

    def steps(self, images: Images) -> Iterator[PlannedStep]:
        """Give the checks of what a statement leaves, as far as it can matter."""
        for condition in self.checks:
            yield from _satisfied(condition, images)
        for key in self.foreign_keys:
            yield from _referring(key, images)
        for key in self.references:
            yield from _referred(key, images)

    def concerns_files(self, assigned: frozenset[str]) -> bool:
        """Tell whether these columns may get values that files cannot hold."""
        return any(
            isinstance(each, StorableInterval) and not assigned.isdisjoint(each.reads)
            for each in self.checks
        )

    def concerns(self, assigned: frozenset[str]) -> bool:
        """Tell whether an UPDATE of these columns may violate something."""
        return (
            bool(self.checks)
            or any(assigned.intersection(each.columns) for each in self.foreign_keys)
            or any(assigned.intersection(each.parent_columns) for each in self.references)
        )


#: A table that must satisfy nothing but its keys.
UNCONSTRAINED = Constraints()


def foreign_keys_of(target: Table) -> list[ForeignKey]:
    """Give the foreign keys of a table in a stable order."""
    return _sorted(target.foreign_key_constraints)


def references_to(target: Table) -> list[ForeignKey]:
    """Give the foreign keys that refer to a table, as far as its MetaData knows."""
    tables = target.metadata.tables.values()
    found = (each for table in tables for each in table.foreign_key_constraints)
    return _sorted(each for each in found if _parent(each) == target)


def checks_of(target: Table, constraints: Sequence[CheckConstraint]) -> list[Check]:
    """Give the CHECK constraints of a table, of those that are to be there."""
    found = [
        Check(constraint_name(each.name), target, each.sqltext, _reads(each.sqltext, target))
        for each in constraints
    ]
    return sorted(found, key=lambda each: (each.name or "", str(each.condition)))


def _sorted(constraints: Any) -> list[ForeignKey]:
    found = map(_foreign_key, constraints)
    return sorted(found, key=lambda each: (str(each.child), each.name or "", each.columns))


def _foreign_key(constraint: ForeignKeyConstraint) -> ForeignKey:
    parent = _parent(constraint)
    targets = [element.target_fullname.rsplit(".", 1)[-1] for element in constraint.elements]
    if parent is None:
        # Nobody gave this MetaData the parent; its name is all that a check needs.
        *schema, name = constraint.elements[0].target_fullname.split(".")[:-1]
        columns: list[Column[Any]] = [Column(each) for each in targets]
        parent = Table(name, MetaData(), *columns, schema=".".join(schema) or None)
    else:
        targets = [element.column.name for element in constraint.elements]
    return ForeignKey(
        constraint_name(constraint.name),
        constraint.table,
        tuple(element.parent.name for element in constraint.elements),
        parent,
        tuple(targets),
    )


def _parent(constraint: ForeignKeyConstraint) -> FromClause | None:
    try:
        return constraint.referred_table
    except exc.NoReferenceError:
        return None


def _reads(condition: Any, target: Table) -> tuple[str, ...]:
    elements = list(iterate(condition))
    if any(map(_is_text, elements)):
        return tuple(each.name for each in target.c)
    names = (each.name for each in elements if isinstance(each, Column))
    return tuple(dict.fromkeys(names))


def _is_text(element: Any) -> bool:
    return isinstance(element, TextClause) or (
        isinstance(element, ColumnClause) and element.table is None
    )


def _told(condition: Any) -> str:
    try:
        return str(condition.compile(compile_kwargs={"literal_binds": True}))
    except exc.CompileError:
        return str(condition)


def _satisfied(each: Check, images: Images) -> Iterator[PlannedStep]:
    # The rows go by the bare name of the table, which the text of a condition may use.
    rows = images.rows(each.shown, each.target.name, because=each.reads)
    if rows is not None:
        satisfied = func.coalesce(Bare(each.condition, Boolean()), true())
        columns = [column_of(rows, name) for name in each.shown]
        wrong = select(*columns).select_from(rows).where(~satisfied)
        yield check(wrong, each.error, when=each.when)


def _referring(key: ForeignKey, images: Images) -> Iterator[PlannedStep]:
    """Refuse rows whose parent is neither there nor among them."""
    rows = images.rows(key.columns)
    if rows is None:
        return
    columns = [rows.c[name] for name in key.columns]
    whole = (each.is_not(None) for each in columns)
    wanted = select(*columns).where(*whole).distinct().subquery("wanted")
    found = _parents(key, images, wanted).subquery("found")
    yield _check(_without(wanted, found), partial(key.error, ForeignKeyViolation))


def _referred(key: ForeignKey, images: Images) -> Iterator[PlannedStep]:
    """Refuse to take away what rows elsewhere, or those that stay, refer to."""
    gone = images.gone(key.parent_columns)
    if gone is None:
        return
    old = select(*_labelled(key, images.target)).where(gone).distinct().subquery("old")
    kept = _parents(key, images, old).subquery("kept")
    lost = _without(old, kept).subquery("lost")
    children = _matching(key, key.child, key.columns, lost)
    selects = [children]
    if key.child == images.target:
        rows = images.rows(key.columns, "own")
        own = [] if rows is None else [_matching(key, rows, key.columns, lost)]
        selects = [images.stay(children, key.columns), *own]
    found = union_all(*selects).subquery("referring")
    yield _check(select(found).distinct(), partial(key.error, RowReferenced))


def _parents(key: ForeignKey, images: Images, wanted: FromClause) -> Any:
    """Select which of the wanted values a parent has when the statement is through."""
    found = _matching(key, key.parent, key.parent_columns, wanted)
    if key.parent != images.target:
        return found
    found = images.stay(found, key.parent_columns)
    rows = images.rows(key.parent_columns, "own")
    if rows is None:
        return found
    return union_all(found, _matching(key, rows, key.parent_columns, wanted))


def _matching(
    key: ForeignKey, rows: FromClause, columns: Sequence[str], wanted: FromClause
) -> Select[Any]:
    """Select the wanted values that are in these columns of some rows."""
    pairs = zip(columns, key.columns, strict=True)
    on = and_(*(column_of(rows, name) == wanted.c[own] for name, own in pairs))
    return select(*(wanted.c[name] for name in key.columns)).select_from(rows.join(wanted, on))


def _without(wanted: FromClause, found: FromClause) -> Select[Any]:
    pairs = zip(wanted.c, found.c, strict=True)
    there = exists(constant(1)).where(*(one == other for one, other in pairs))
    return select(wanted).where(~there.correlate(wanted))


def _labelled(key: ForeignKey, target: FromClause) -> Iterator[ColumnElement[Any]]:
    for own, name in zip(key.columns, key.parent_columns, strict=True):
        yield column_of(target, name).label(own)


def _check(rows: Select[Any], error: Callable[[_Rows], Exception]) -> PlannedStep:
    return check(rows, error, when=ENFORCE_ALL)
