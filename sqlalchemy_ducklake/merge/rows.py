"""The plans of UPDATE and DELETE that need steps: RETURNING, keys, many parameter sets.

The rows that the statement speaks of are staged first, with the engine's own row ids and
the values they will take, so everything is evaluated once, before anything changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    and_,
    column,
    exists,
    func,
    select,
    table,
)
from sqlalchemy.sql.elements import ColumnElement
from sqlalchemy.sql.selectable import FromClause, Select, SelectBase, TableClause

from sqlalchemy_ducklake.driver.script import Role, Step
from sqlalchemy_ducklake.merge.checks import Key, not_twice, violation
from sqlalchemy_ducklake.merge.staging import ROW_ID, SEQUENCE, WAVE, rows_name
from sqlalchemy_ducklake.merge.steps import (
    ChangeRows,
    MakeStage,
    PlannedStep,
    RemoveRows,
    constant,
)

#: The counts of the rows found, and of those that no wave has changed yet.
MATCHED, REMAINING = "matched", "remaining"


def row_id(target: FromClause) -> ColumnElement[Any]:
    """Name the engine's row id of a table."""
    found = column("rowid", BigInteger)
    found.table = target
    return found


def new_name(name: str) -> str:
    """Name the staged column that holds what a column of the target becomes."""
    return f"{name}{ROW_ID}"


@dataclass(frozen=True, eq=False)
class RowsPlan:
    """The staged rows of an UPDATE or DELETE.

    ``located`` are columns of the target that the statement leaves alone and that find
    its rows again fast: the engine prunes files by a key, not by row ids.  ``assigned``
    get new values; ``keys`` are the keys with a column among them.
    """

    target: FromClause
    located: Sequence[Column[Any]]
    assigned: Sequence[Any] = ()
    keys: Sequence[Key] = ()

    @cached_property
    def stage(self) -> TableClause:
        """Name the stage: row ids, places, the key, the new values."""
        own = (column(ROW_ID, BigInteger), column(SEQUENCE, BigInteger))
        kept = {each.name: each for each in (*self.located, *self._key_columns)}
        new = (column(new_name(each.name), each.type) for each in self.assigned)
        return table(
            rows_name(), *own, *(column(name, each.type) for name, each in kept.items()), *new
        )

    @cached_property
    def staged(self) -> list[Column[Any]]:
        """Give the columns of the target that the stage holds as they are."""
        return list({each.name: each for each in (*self.located, *self._key_columns)}.values())

    @property
    def _key_columns(self) -> list[Column[Any]]:
        return [each for key in self.keys for each in key.columns]

    def matches(self) -> ColumnElement[bool]:
        """Say that a row of the target is the one that was staged."""
        stage = self.stage
        found = [self.target.c[each.key] == stage.c[each.name] for each in self.located]
        return and_(*found, row_id(self.target) == stage.c[ROW_ID])

    @cached_property
    def wave(self) -> TableClause:
        """Name the stage of the rows that one wave changes."""
        return table(WAVE, *(column(each.name, each.type) for each in self.stage.c))

    def matches_wave(self) -> ColumnElement[bool]:
        """Say that a row of the target is one that the wave changes."""
        found = [self.target.c[each.key] == self.wave.c[each.name] for each in self.located]
        return and_(*found, row_id(self.target) == self.wave.c[ROW_ID])

    def next_wave(self) -> Iterator[PlannedStep]:
        """Stage the first parameter set of every row; then, what is left without them."""
        repeat = Step(when=(MATCHED,), repeat=REMAINING)
        place = func.row_number().over(
            partition_by=self.stage.c[ROW_ID], order_by=self.stage.c[SEQUENCE]
        )
        ranked = select(self.stage, place.label("place")).subquery("ranked")
        first = select(*(ranked.c[each.name] for each in self.stage.c)).where(
            ranked.c.place == constant(1)
        )
        yield PlannedStep(MakeStage(self.wave, first), repeat)
        done = exists(constant(1)).where(
            self.wave.c[ROW_ID] == self.stage.c[ROW_ID],
            self.wave.c[SEQUENCE] == self.stage.c[SEQUENCE],
        )
        yield PlannedStep(RemoveRows(self.stage, done), repeat)
        left: Select[Any] = select(constant(REMAINING), func.count()).select_from(self.stage)
        yield PlannedStep(left, Step(Role.COUNTS, repeat=REMAINING))

    def count(self) -> PlannedStep:
        """Count the rows, once for each parameter set that speaks of them."""
        name: ColumnElement[Any] = constant(MATCHED)
        return PlannedStep(
            select(name, func.count()).select_from(self.stage), Step(Role.COUNTS)
        )

    def keep_last(self) -> PlannedStep:
        """Let the last of several parameter sets win."""
        stage = self.stage
        later = stage.alias("later")
        newer = and_(later.c[ROW_ID] == stage.c[ROW_ID], later.c[SEQUENCE] > stage.c[SEQUENCE])
        return PlannedStep(
            RemoveRows(stage, exists(constant(1)).where(newer)), Step(when=(MATCHED,))
        )

    def check_keys(self) -> Iterator[PlannedStep]:
        """Refuse new keys that are equal, or that a row outside the statement has."""
        for key in self.keys:
            images = self._images(key)
            outside = ~exists(constant(1)).where(self.stage.c[ROW_ID] == row_id(self.target))
            taken: SelectBase = select(*key.within(self.target)).where(
                key.matches(self.target, images), outside
            )
            twice = not_twice(key, images)
            yield violation(key, [twice, taken])

    def update(self) -> PlannedStep:
        """Give the rows their new values."""
        stage = self.stage
        values = {each.name: stage.c[new_name(each.name)] for each in self.assigned}
        return PlannedStep(
            ChangeRows(self.target, values, stage, self.matches()), Step(when=(MATCHED,))
        )

    def delete(self) -> PlannedStep:
        """Delete the rows."""
        there = exists(constant(1)).where(self.matches())
        return PlannedStep(
            RemoveRows(self.target, there.select_from(self.stage)), Step(when=(MATCHED,))
        )

    def _images(self, key: Key) -> FromClause:
        """Select what the key of each staged row becomes."""
        assigned = {each.name for each in self.assigned}
        stage = self.stage
        return select(
            *(
                stage.c[new_name(each.name) if each.name in assigned else each.name].label(
                    each.name
                )
                for each in key.columns
            )
        ).subquery("images")
