"""What a script makes sure of before it writes, by SELECT.

A violation that the engine finds aborts the transaction; one that a SELECT finds leaves it
usable.  Each check gives up to three examples.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from sqlalchemy import (
    Column,
    UniqueConstraint,
    and_,
    func,
    or_,
    select,
    union_all,
)
from sqlalchemy.sql.elements import ColumnElement
from sqlalchemy.sql.schema import Table
from sqlalchemy.sql.selectable import FromClause, Select, SelectBase

from sqlalchemy_ducklake.driver.script import ENFORCE_KEYS, TRUSTED, Role, Step
from sqlalchemy_ducklake.errors import AmbiguousKeys, KeyViolation, NullKey
from sqlalchemy_ducklake.merge.images import Images
from sqlalchemy_ducklake.merge.steps import PlannedStep, constant

_EXAMPLES: ColumnElement[Any] = constant(3)


@dataclass(frozen=True, slots=True, eq=False)
class Key:
    """A primary or unique key of a table."""

    table: str
    name: str | None
    columns: tuple[Column[Any], ...]
    primary: bool = False

    def __eq__(self, other: object) -> bool:
        # Columns would compare to an expression.
        return isinstance(other, Key) and self.names == other.names

    def __hash__(self) -> int:
        return hash(self.names)

    @property
    def names(self) -> tuple[str, ...]:
        """Give the names of its columns."""
        return tuple(column.name for column in self.columns)

    def within(self, source: FromClause) -> list[ColumnElement[Any]]:
        """Give the columns of this key in another table that has them."""
        return [column_of(source, name) for name in self.names]

    def matches(self, left: FromClause, right: FromClause) -> ColumnElement[bool]:
        """Say that two rows have the same value of this key."""
        pairs = zip(self.within(left), self.within(right), strict=True)
        return and_(*(one == other for one, other in pairs))


def column_of(source: FromClause, name: str) -> ColumnElement[Any]:
    """Give a column by its name: a Table knows its columns by keys that may be others."""
    return next(each for each in source.c if each.name == name)


def keys_of(target: FromClause) -> list[Key]:
    """Give the keys of a table, the primary key first; a lightweight table has none."""
    if not isinstance(target, Table):
        return []
    return list(_keys(target))


def primary_key_of(target: FromClause) -> Key | None:
    """Give the primary key of a table, None without one."""
    return next((key for key in keys_of(target) if key.primary), None)


def _keys(target: Table) -> Iterator[Key]:
    columns = tuple(target.primary_key.columns)
    if columns:
        yield Key(target.name, constraint_name(target.primary_key.name), columns, primary=True)
    unique = [each for each in target.constraints if isinstance(each, UniqueConstraint)]
    for constraint in sorted(unique, key=lambda each: [c.name for c in each.columns]):
        yield Key(target.name, constraint_name(constraint.name), tuple(constraint.columns))
    for index in sorted(target.indexes, key=lambda each: str(each.name)):
        # Of an expression nobody keeps what is unique; the others are columns.
        if index.unique and all(isinstance(each, Column) for each in index.expressions):
            yield Key(target.name, constraint_name(index.name), tuple(index.columns))


def constraint_name(name: Any) -> str | None:
    """Give the name of a constraint, None if it has none."""
    return name if isinstance(name, str) else None


def no_null(key: Key, stage: FromClause) -> Iterator[PlannedStep]:
    """Refuse rows that have NULL in a column of the primary key."""
    columns = key.within(stage)
    rows = select(*columns).where(or_(*(column.is_(None) for column in columns)))
    yield check(rows, partial(_null_key, key.table, key.names))


def not_twice(key: Key, stage: FromClause) -> SelectBase:
    """Select the values of a key that the stage holds more than once."""
    columns = key.within(stage)
    return (
        select(*columns)
        .where(*(column.is_not(None) for column in columns))
        .group_by(*columns)
        .having(func.count() > constant(1))
    )


def not_there(key: Key, stage: FromClause, target: FromClause) -> Select[Any]:
    """Select the values of a key that the stage holds and the target has already."""
    # The target is the probe side: the engine prunes its files by what is staged.
    return select(*key.within(target)).select_from(
        target.join(stage, key.matches(target, stage))
    )


def unique(key: Key, images: Images) -> Iterator[PlannedStep]:
    """Refuse that a value of the key is there twice when the statement is through."""
    rows = images.rows(key.names)
    if rows is None:
        return
    taken = images.stay(not_there(key, rows, images.target), key.names)
    found = taken if images.distinct else union_all(not_twice(key, rows), taken)
    error = partial(_key_violation, key.table, key.name, key.names)
    yield check(found, error, when=ENFORCE_KEYS)


def audit(keys: Sequence[Key], target: FromClause) -> Iterator[PlannedStep]:
    """Refuse a target that holds a value of its primary key twice, unless that is known."""
    for key in keys:
        if key.primary:
            error = partial(_ambiguous_keys, key.table, key.names)
            yield check(not_twice(key, target), error, when=ENFORCE_KEYS, unless=TRUSTED)


def unambiguous(key: Key, found: FromClause) -> PlannedStep:
    """Refuse that rows which were found by a key share a value of it."""
    error = partial(_ambiguous_keys, key.table, key.names)
    return check(not_twice(key, found), error, when=ENFORCE_KEYS)


def check(
    rows: SelectBase,
    error: Callable[[Sequence[tuple[Any, ...]]], Exception],
    *,
    when: str = "",
    unless: str = "",
) -> PlannedStep:
    """Check that a select finds nothing; up to three rows of it make the error."""
    found = select(rows.subquery("violations")).limit(_EXAMPLES)
    conditions = (when,) if when else ()
    step = Step(Role.CHECK, when=conditions, unless=unless, violation=error)
    return PlannedStep(found, step)


def _ambiguous_keys(
    table: str, columns: tuple[str, ...], rows: Sequence[tuple[Any, ...]]
) -> Exception:
    return AmbiguousKeys(table, columns, tuple(rows))


def _null_key(
    table: str, columns: tuple[str, ...], rows: Sequence[tuple[Any, ...]]
) -> Exception:
    return NullKey(table, columns[rows[0].index(None)], columns)


def _key_violation(
    table: str, name: str | None, columns: tuple[str, ...], rows: Sequence[tuple[Any, ...]]
) -> Exception:
    return KeyViolation(table, name, columns, tuple(rows))
