"""The plan of INSERT … ON CONFLICT: the staged merge."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from sqlalchemy import (
    Column,
    and_,
    case,
    cast,
    column,
    exists,
    false,
    func,
    select,
    union_all,
)
from sqlalchemy.sql.elements import ColumnElement
from sqlalchemy.sql.selectable import FromClause, Select, TableClause
from sqlalchemy.sql.visitors import replacement_traverse

from sqlalchemy_ducklake.driver.script import Role, Step
from sqlalchemy_ducklake.merge.checks import Key, no_null
from sqlalchemy_ducklake.merge.insert import allocate
from sqlalchemy_ducklake.merge.staging import EFFECT, FIRST, SEQUENCE, drop_stage, effects_stage
from sqlalchemy_ducklake.merge.steps import (
    AppendRows,
    ChangeRows,
    MakeStage,
    PlannedStep,
    RemoveRows,
    constant,
)

_REPEATED = "repeated"


@dataclass(frozen=True)
class UpsertPlan:
    """An INSERT … ON CONFLICT as steps; filling the stage is the compiler's.

    ``key`` is the conflict target, ``assignments`` what an existing row takes (by column
    name, in terms of the target and of ``excluded``; None: DO NOTHING), ``where`` the
    guard of that.  ``columns`` are the ones a new row gets.
    """

    target: FromClause
    stage: TableClause
    key: Key
    columns: Sequence[Column[Any]]
    assignments: Mapping[str, ColumnElement[Any]] | None
    where: ColumnElement[bool] | None
    excluded: FromClause
    allocated: Column[Any] | None
    single: bool

    def steps(self) -> Iterator[PlannedStep]:
        """Give the steps between filling the stage and returning rows."""
        if self.allocated is not None:
            yield allocate(self.allocated, self.target, self.stage)
        yield from no_null(self.key, self.stage)
        if not self.single:
            yield from self._reduce()
        yield self._find_effects()
        yield self._count_effects()
        if self.assignments is not None:
            yield self._update(self.assignments)
        yield self._insert()

    def drops(self) -> Iterator[PlannedStep]:
        """Give the steps that remove what this plan made besides its stage."""
        yield drop_stage(self.effects)

    def returned(self) -> ColumnElement[bool]:
        """Say which rows of the target the statement returns: those it did not skip."""
        skipped = exists(constant(1)).where(
            self.key.matches(self.effects, self.stage),
            self.effects.c[EFFECT] == constant("skipped"),
        )
        return and_(self.key.matches(self.target, self.stage), ~skipped)

    @cached_property
    def effects(self) -> TableClause:
        """Name the table of effects: one row for each staged key that exists."""
        new = () if self.assignments is None else self.assignments
        return effects_stage(
            [
                column(EFFECT),
                *self.key.within(self.stage),
                *(column(_new(name)) for name in new),
            ]
        )

    def _reduce(self) -> Iterator[PlannedStep]:
        """Keep one row of each key: the last, or with DO NOTHING the first.

        An inserted row keeps the place of its key's first mention.
        """
        keys = self.key.within(self.stage)
        sequence = self.stage.c[SEQUENCE]
        distinct = select(*keys).distinct().subquery("keys")
        number = select(func.count()).select_from(distinct).scalar_subquery()
        repeats: Select[Any] = select(constant(_REPEATED), func.count() - number).select_from(
            self.stage
        )
        yield PlannedStep(repeats.select_from(self.stage), Step(Role.COUNTS))
        first, last = func.min(sequence), func.max(sequence)
        kept = select(*keys, first.label("first"), last.label("last"))
        places = kept.group_by(*keys).subquery("places")
        row_kept = places.c.first if self.assignments is None else places.c.last
        when = Step(when=(_REPEATED,))
        yield PlannedStep(
            ChangeRows(self.stage, {FIRST: places.c.first}, places, row_kept == sequence), when
        )
        kept_rows = select(row_kept).scalar_subquery()
        yield PlannedStep(RemoveRows(self.stage, sequence.not_in(kept_rows)), when)

    def _find_effects(self) -> PlannedStep:
        """Join target and stage once: what each existing key's row would become."""
        excluded = self.stage.alias("excluded")
        new = {
            name: self._value(name, value, excluded)
            for name, value in (self.assignments or {}).items()
        }
        rows = select(
            self._effect(new, excluded).label(EFFECT),
            *self.key.within(excluded),
            *(value.label(_new(name)) for name, value in new.items()),
        ).select_from(self.target.join(excluded, self.key.matches(self.target, excluded)))
        return PlannedStep(MakeStage(self.effects, rows), Step())

    def _effect(
        self, new: Mapping[str, ColumnElement[Any]], excluded: FromClause
    ) -> ColumnElement[str]:
        if self.assignments is None:
            return constant("skipped")
        changes: list[tuple[Any, Any]] = [
            (self.target.c[name].is_distinct_from(value), constant("updated"))
            for name, value in new.items()
        ]
        effect = case(*changes, else_=constant("unchanged"))
        if self.where is None:
            return effect
        guard = func.coalesce(self._adapted(self.where, excluded), false())
        return case((guard, effect), else_=constant("skipped"))

    def _value(
        self, name: str, value: ColumnElement[Any], excluded: FromClause
    ) -> ColumnElement[Any]:
        adapted: ColumnElement[Any] = self._adapted(value, excluded)
        if adapted is excluded.c[name]:
            return adapted
        # Compared and stored as the column would hold it: 1.005 in DECIMAL(10, 2), say.
        return cast(adapted, self.target.c[name].type)

    def _adapted(self, expression: Any, excluded: FromClause) -> Any:
        """Let an expression speak of the staged row where it said ``excluded``."""

        def staged(element: Any, **_: Any) -> Any:
            if getattr(element, "table", None) is self.excluded:
                return excluded.c[element.name]
            return None

        return replacement_traverse(expression, {}, staged)

    def _count_effects(self) -> PlannedStep:
        effects = self.effects
        matched = select(func.count()).select_from(effects).scalar_subquery()
        inserted: Select[Any] = select(
            constant("inserted"), func.count() - matched
        ).select_from(self.stage)
        by_effect = select(effects.c[EFFECT], func.count()).group_by(effects.c[EFFECT])
        return PlannedStep(union_all(inserted, by_effect), Step(Role.COUNTS))

    def _update(self, assignments: Mapping[str, ColumnElement[Any]]) -> PlannedStep:
        effects = self.effects
        values = {name: effects.c[_new(name)] for name in assignments}
        where = and_(
            self.key.matches(self.target, effects),
            effects.c[EFFECT] == constant("updated"),
        )
        return PlannedStep(
            ChangeRows(self.target, values, effects, where), Step(when=("updated",))
        )

    def _insert(self) -> PlannedStep:
        names = [each.name for each in self.columns]
        effects = self.effects
        there = exists(constant(1)).where(self.key.matches(effects, self.stage))
        rows = select(*(self.stage.c[name] for name in names)).where(~there)
        rows = rows.order_by(self.stage.c[FIRST])
        return PlannedStep(AppendRows(self.target, names, rows), Step(when=("inserted",)))


def _new(name: str) -> str:
    """Name the column that holds what a column of the target becomes."""
    return f"{name}_{EFFECT}"
