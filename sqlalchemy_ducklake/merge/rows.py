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
    exc,
    exists,
    func,
    select,
    table,
)
from sqlalchemy.sql.elements import ColumnElement
from sqlalchemy.sql.selectable import FromClause, Select, TableClause

from sqlalchemy_ducklake.driver.script import Role, Step
from sqlalchemy_ducklake.merge.checks import Key, audit, column_of, unique
from sqlalchemy_ducklake.merge.constraints import UNCONSTRAINED, Constraints
from sqlalchemy_ducklake.merge.images import (
    Images,
    changed_by,
    is_in,
    typed,
    with_computed,
)
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
    """Name the engine's row id of a table.

    Raises CompileError for a table in which a column of that name hides it.
    """
    if any(each.name.lower() == "rowid" for each in target.c):
        raise exc.CompileError(
            f"{target} has a column called 'rowid', which hides the engine's row ids; such a "
            "table can be inserted into, upserted by key and updated by one parameter set, "
            "but not merged by MERGE arms, nor changed by many sets or with RETURNING"
        )
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
    get new values; ``keys`` are the keys with a column among them.  With ``deletes`` the
    rows go.  ``name`` is that of the stage, ``read`` are columns that it holds besides.
    """

    target: FromClause
    located: Sequence[Column[Any]]
    assigned: Sequence[Any] = ()
    keys: Sequence[Key] = ()
    constraints: Constraints = UNCONSTRAINED
    deletes: bool = False
    name: str = rows_name()
    read: Sequence[Column[Any]] = ()

    @cached_property
    def stage(self) -> TableClause:
        """Name the stage: row ids, places, the key, the new values."""
        own = (column(ROW_ID, BigInteger), column(SEQUENCE, BigInteger))
        kept = (column(each.name, each.type) for each in self.staged)
        new = (column(new_name(each.name), each.type) for each in self.assigned)
        return table(self.name, *own, *kept, *new)

    @cached_property
    def staged(self) -> list[Column[Any]]:
        """Give the columns of the target that the stage holds as they are."""
        kept = (*self.located, *self._key_columns, *self.read)
        return list({each.name: each for each in kept}.values())

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

    def copied(self, pairs: RowsPlan) -> PlannedStep:
        """Stage the rows that another plan has found, with the values that they have."""
        new = (
            column_of(self.target, each.name).label(new_name(each.name))
            for each in self.assigned
        )
        own = (row_id(self.target).label(ROW_ID), constant(0).label(SEQUENCE))
        found = is_in(pairs.stage, pairs.matches())
        rows = select(*own, *self.staged, *new).select_from(self.target).where(found)
        return PlannedStep(MakeStage(self.stage, rows), Step())

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

    def keep_last(self, *when: str) -> PlannedStep:
        """Let the last of several parameter sets, or of several rows joined, win."""
        stage = self.stage
        later = stage.alias("later")
        newer = and_(later.c[ROW_ID] == stage.c[ROW_ID], later.c[SEQUENCE] > stage.c[SEQUENCE])
        return PlannedStep(RemoveRows(stage, exists(constant(1)).where(newer)), Step(when=when))

    def checks(self) -> Iterator[PlannedStep]:
        """Refuse what the keys and the other constraints do not allow."""
        yield from audit(self.keys, self.target)
        for key in self.keys:
            yield from unique(key, self.images)
        yield from self.constraints.steps(self.images)

    @cached_property
    def images(self) -> Images:
        """Tell what the rows will be, or that they will not."""
        here = is_in(self.stage, self.matches())
        if self.deletes:
            return Images(self.target, deleted=here)
        stage, matches = self.stage, self.matches()
        new = {
            each.name: typed(stage.c[new_name(each.name)], each.type) for each in self.assigned
        }
        return Images(
            self.target,
            changed=changed_by(self.target, stage, matches, new),
            assigned=with_computed(self.target, new),
            replaced=here,
        )

    def update(self) -> PlannedStep:
        """Give the rows their new values."""
        stage = self.stage
        values = {each.name: stage.c[new_name(each.name)] for each in self.assigned}
        return PlannedStep(
            ChangeRows(self.target, values, stage, self.matches()), Step(when=(MATCHED,))
        )

    def delete(self) -> PlannedStep:
        """Delete the rows."""
        step = Step(Role.COUNT, "deleted", when=(MATCHED,))
        return PlannedStep(RemoveRows(self.target, self.matches(), self.stage), step)
