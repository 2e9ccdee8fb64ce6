"""The plan of INSERT … ON CONFLICT DO NOTHING without a target: any key may be in the way.

Rows are taken in order, as SQLite does: a row is skipped if the table, or a row that was
taken before it, has its value of any key.  Which rows are taken can depend on rows that
were skipped themselves, so a batch is worked through in waves: each takes the rows that
are the first of all their keys, and skips those that these are in the way of.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

from sqlalchemy import and_, exists, func, or_, select, true, union_all
from sqlalchemy.sql.elements import ColumnElement
from sqlalchemy.sql.selectable import Select, TableClause

from sqlalchemy_ducklake.driver.script import Role, Step
from sqlalchemy_ducklake.merge.checks import Key, audit, no_null
from sqlalchemy_ducklake.merge.insert import InsertPlan, allocate, append
from sqlalchemy_ducklake.merge.reduction import REPEATED
from sqlalchemy_ducklake.merge.staging import (
    PENDING,
    SEQUENCE,
    STATE,
    WAVE,
    copy_of,
    drop_stage,
)
from sqlalchemy_ducklake.merge.steps import (
    AppendRows,
    MakeStage,
    PlannedStep,
    RemoveRows,
    constant,
)
from sqlalchemy_ducklake.merge.waves import REMAINING

_SKIPPED = Step(Role.COUNT, "skipped")


@dataclass(frozen=True, slots=True)
class IgnorePlan(InsertPlan):
    """An INSERT as steps, whose stage loses the rows that some key is in the way of."""

    def steps(self) -> Iterator[PlannedStep]:
        """Give the steps between filling the stage and returning rows."""
        if self.allocated is not None:
            yield from allocate(self.allocated, self.target, self.stage)
        yield from self.computed
        for key in self.keys:
            if key.primary:
                yield from no_null(key, self.stage)
        yield from audit(self.keys, self.target)
        yield from self._skip_stored()
        if not self.single:
            yield self._count_repeats()
            yield from self._waves()
        yield from self.constraints.steps(self.images)
        yield append(self.target, self.stage, self.columns)

    def drops(self) -> Iterator[PlannedStep]:
        """Give the steps that remove what this plan made besides its stage."""
        for name in (STATE, PENDING, WAVE):
            yield drop_stage(copy_of(name, self.stage))

    def _skip_stored(self) -> Iterator[PlannedStep]:
        """Skip the rows that the table has a key of."""
        taken, place = copy_of(STATE, self.stage), self.stage.c[SEQUENCE]
        # The target is the probe side: the engine prunes its files by what is staged.
        target, stage = self.target, self.stage
        joins = (target.join(stage, key.matches(target, stage)) for key in self.keys)
        found = [select(place).select_from(each) for each in joins]
        yield PlannedStep(MakeStage(taken, union_all(*found)), Step())
        there = exists(constant(1)).where(taken.c[SEQUENCE] == place)
        yield PlannedStep(RemoveRows(self.stage, there), _SKIPPED)

    def _count_repeats(self) -> PlannedStep:
        """Count the rows beyond the first of any of their keys."""
        repeats = reduce(add, (_repeats(key, self.stage) for key in self.keys))
        return PlannedStep(select(constant(REPEATED), repeats), Step(Role.COUNTS))

    def _waves(self) -> Iterator[PlannedStep]:
        stage, when = self.stage, (REPEATED,)
        pending, now = copy_of(PENDING, stage), copy_of(WAVE, stage)
        yield PlannedStep(MakeStage(pending, select(stage)), Step(when=when))
        yield PlannedStep(RemoveRows(stage, true()), Step(when=when))
        repeat = Step(when=when, repeat=REMAINING)
        yield PlannedStep(MakeStage(now, _first_of_all(self.keys, pending)), repeat)
        names = [each.name for each in stage.c]
        yield PlannedStep(AppendRows(stage, names, select(now)), repeat)
        taken = exists(constant(1)).where(now.c[SEQUENCE] == pending.c[SEQUENCE])
        yield PlannedStep(RemoveRows(pending, taken), repeat)
        clashes = (exists(constant(1)).where(key.matches(now, pending)) for key in self.keys)
        skipped = Step(Role.COUNT, "skipped", when, repeat=REMAINING)
        yield PlannedStep(RemoveRows(pending, or_(*clashes)), skipped)
        left: Select[Any] = select(constant(REMAINING), func.count()).select_from(pending)
        yield PlannedStep(left, Step(Role.COUNTS, when=when, repeat=REMAINING))


def _repeats(key: Key, stage: TableClause) -> ColumnElement[Any]:
    columns = key.within(stage)
    known = and_(*(each.is_not(None) for each in columns))
    all_rows = select(func.count()).select_from(stage).where(known).scalar_subquery()
    keys = select(*columns).where(known).distinct().subquery()
    return all_rows - select(func.count()).select_from(keys).scalar_subquery()


def _first_of_all(keys: Sequence[Key], pending: TableClause) -> Select[Any]:
    """Select the rows that no earlier one shares a key with; NULL is no key."""
    places = [
        func.row_number()
        .over(partition_by=key.within(pending), order_by=pending.c[SEQUENCE])
        .label(f"place{number}")
        for number, key in enumerate(keys)
    ]
    ranked = select(pending, *places).subquery("ranked")
    first = (
        or_(
            ranked.c[place.name] == constant(1),
            *(each.is_(None) for each in key.within(ranked)),
        )
        for place, key in zip(places, keys, strict=True)
    )
    return select(*(ranked.c[each.name] for each in pending.c)).where(*first)
