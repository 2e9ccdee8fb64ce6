"""The plan of an INSERT into a table that has keys, or that returns rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from sqlalchemy import Column, Identity, and_, func, select
from sqlalchemy.sql.selectable import FromClause, TableClause

from sqlalchemy_ducklake.driver.script import Role, Step
from sqlalchemy_ducklake.errors import GeneratedAlways
from sqlalchemy_ducklake.merge.checks import Key, audit, check, no_null, unique
from sqlalchemy_ducklake.merge.constraints import UNCONSTRAINED, Constraints
from sqlalchemy_ducklake.merge.images import Images, born_in
from sqlalchemy_ducklake.merge.staging import SEQUENCE
from sqlalchemy_ducklake.merge.steps import AppendRows, ChangeRows, PlannedStep, constant


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
    staged, stored = stage.c[column.name], target.c[column.key]
    identity = column.identity or Identity()
    if identity.always:
        said = select(staged).where(staged.is_not(None))
        yield check(said, partial(_generated_always, str(target), column.name))
    by = identity.increment or 1
    start = identity.start if identity.start is not None else _first(identity, by)
    last, outermost = (func.max, func.greatest) if by > 0 else (func.min, func.least)
    highest = select(last(stored)).scalar_subquery() + constant(by)
    given = select(last(staged)).scalar_subquery() + constant(by)
    place = func.row_number().over(order_by=stage.c[SEQUENCE]) - constant(1)
    number = outermost(highest, given, constant(start)) + place * constant(by)
    free = (
        select(stage.c[SEQUENCE], number.label("number"))
        .where(staged.is_(None))
        .subquery("free")
    )
    same_row = and_(stage.c[SEQUENCE] == free.c[SEQUENCE])
    yield PlannedStep(ChangeRows(stage, {column.name: free.c.number}, free, same_row), Step())


def _first(identity: Identity, by: int) -> int:
    edge = identity.minvalue if by > 0 else identity.maxvalue
    return edge if edge is not None else (1 if by > 0 else -1)


def _generated_always(table: str, column: str, rows: Sequence[tuple[Any, ...]]) -> Exception:
    return GeneratedAlways(table, column, rows[0][0])
