"""The plan of an INSERT into a table that has keys, or that returns rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from sqlalchemy import (
    Column,
    Identity,
    Numeric,
    and_,
    case,
    cast,
    exists,
    func,
    select,
    try_cast,
)
from sqlalchemy.sql.elements import ColumnElement
from sqlalchemy.sql.selectable import FromClause, TableClause

from sqlalchemy_ducklake.driver.script import Role, Step
from sqlalchemy_ducklake.errors import GeneratedAlways, NumbersExhausted
from sqlalchemy_ducklake.merge.checks import Key, audit, check, no_null, unique
from sqlalchemy_ducklake.merge.constraints import UNCONSTRAINED, Constraints
from sqlalchemy_ducklake.merge.images import Images, born_in
from sqlalchemy_ducklake.merge.staging import SEQUENCE
from sqlalchemy_ducklake.merge.steps import AppendRows, ChangeRows, PlannedStep, constant

# The count of the rows that no number was left for.
_UNNUMBERED = "unnumbered"
# Wider than any integer by more than one.
_EXACT = Numeric(38, 0)


@dataclass(frozen=True, slots=True)
class InsertPlan:
    """An INSERT as steps; the first of them, filling the stage, is the compiler's.

    ``columns`` are the ones that get values, ``allocated`` is the integer key that is
    counted up where a row has none, ``single`` says that there is one row only, and
    ``computed`` are steps that fill columns from others.
    """

    target: FromClause
    stage: TableClause
    keys: Sequence[Key]
    columns: Sequence[Column[Any]]
    allocated: Column[Any] | None
    single: bool
    computed: Sequence[PlannedStep] = ()
    constraints: Constraints = UNCONSTRAINED

    def steps(self) -> Iterator[PlannedStep]:
        """Give the steps between filling the stage and returning rows."""
        if self.allocated is not None:
            yield from allocate(self.allocated, self.target, self.stage)
        yield from self.computed
        yield from audit(self.keys, self.target)
        for key in self.keys:
            yield from self._check(key)
        yield from self.constraints.steps(self.images)
        yield append(self.target, self.stage, self.columns)

    def drops(self) -> Iterator[PlannedStep]:
        """Give the steps that remove what this plan made besides its stage: none."""
        yield from ()

    def _check(self, key: Key) -> Iterator[PlannedStep]:
        if key.primary and not (len(key.columns) == 1 and key.columns[0] is self.allocated):
            yield from no_null(key, self.stage)
        given = {column.name for column in self.columns}
        # A unique key that gets no value at all is NULL or a default everywhere.
        if any(column.name in given for column in key.columns):
            yield from unique(key, self.images)

    @property
    def images(self) -> Images:
        """Tell what the rows will be."""
        rows = born_in(self.target, self.stage)
        return Images(self.target, born=rows, distinct=self.single)


def append(
    target: FromClause, stage: TableClause, columns: Sequence[Column[Any]]
) -> PlannedStep:
    """Insert the staged rows in their order."""
    names = [column.name for column in columns]
    rows = select(*(stage.c[name] for name in names)).order_by(stage.c[SEQUENCE])
    return PlannedStep(AppendRows(target, names, rows), Step(Role.COUNT, "inserted"))


def allocate(
    column: Column[Any], target: FromClause, stage: TableClause
) -> Iterator[PlannedStep]:
    """Give numbers to the staged rows without a key, on from the last that is taken.

    Two writers that allocate the same number cannot both commit: the script is guarded.
    """
    staged = stage.c[column.name]
    identity = column.identity or Identity()
    if identity.always:
        said = select(staged).where(staged.is_not(None))
        yield check(said, partial(_generated_always, str(target), column.name))
    by = identity.increment or 1
    following = _following(column, target, stage)
    place = func.row_number().over(order_by=stage.c[SEQUENCE]) - constant(1)
    free = (
        select(stage.c[SEQUENCE], (following + place * constant(by)).label("number"))
        .where(staged.is_(None))
        .subquery("free")
    )
    # What does not fit stays NULL: an overflow would end the transaction.
    number: ColumnElement[Any] = try_cast(free.c.number, column.type)
    edge = identity.maxvalue if by > 0 else identity.minvalue
    if edge is not None:
        within = number <= constant(edge) if by > 0 else number >= constant(edge)
        number = case((within, number))
    same_row = and_(stage.c[SEQUENCE] == free.c[SEQUENCE])
    yield PlannedStep(ChangeRows(stage, {column.name: number}, free, same_row), Step())
    left = select(constant(_UNNUMBERED), func.count()).select_from(stage)
    yield PlannedStep(left.where(staged.is_(None)), Step(Role.COUNTS))
    allowed = str(column.type if edge is None else edge)
    error = partial(_numbers_exhausted, str(target), column.name, allowed)
    # Said once more in the query, for a shell that runs every step.
    missing = exists(constant(1)).where(staged.is_(None)).select_from(stage)
    yield check(select(following.label("number")).where(missing), error, when=_UNNUMBERED)


def _following(column: Column[Any], target: FromClause, stage: TableClause) -> Any:
    """Give the number after all that are taken, exactly, whether it fits the column or not."""
    identity = column.identity or Identity()
    by = identity.increment or 1
    start = identity.start if identity.start is not None else _first(identity, by)
    last, outermost = (func.max, func.greatest) if by > 0 else (func.min, func.least)
    taken = [
        cast(select(last(each)).scalar_subquery(), _EXACT) + constant(by)
        for each in (target.c[column.key], stage.c[column.name])
    ]
    return outermost(*taken, constant(start), type_=_EXACT)


def _first(identity: Identity, by: int) -> int:
    edge = identity.minvalue if by > 0 else identity.maxvalue
    return edge if edge is not None else (1 if by > 0 else -1)


def _generated_always(table: str, column: str, rows: Sequence[tuple[Any, ...]]) -> Exception:
    return GeneratedAlways(table, column, rows[0][0])


def _numbers_exhausted(
    table: str, column: str, expected: str, rows: Sequence[tuple[Any, ...]]
) -> Exception:
    return NumbersExhausted(table, column, expected, int(rows[0][0]))
