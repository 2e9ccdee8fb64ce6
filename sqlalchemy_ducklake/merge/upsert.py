"""The plan of INSERT … ON CONFLICT: the staged merge.

Rows are applied in order, as SQLite does, so a key may come twice.  Three roads lead to
the same end, and the statement and its batch decide which is taken:

- no key comes twice: the effects are what one join says;
- a key comes twice and the last row decides alone (every column that is inserted takes
  its ``excluded`` value, without a guard), or DO NOTHING lets the first decide: the batch
  is reduced to that row;
- a key comes twice and later rows see what earlier ones did: *waves* (``waves.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from sqlalchemy import (
    Column,
    String,
    and_,
    case,
    cast,
    column,
    exists,
    false,
    func,
    null,
    select,
    true,
    union_all,
)
from sqlalchemy.sql.elements import BindParameter, ColumnElement
from sqlalchemy.sql.selectable import Alias, FromClause, Select, SelectBase, TableClause
from sqlalchemy.sql.visitors import replacement_traverse

from sqlalchemy_ducklake.driver.script import Role, Step
from sqlalchemy_ducklake.merge import waves
from sqlalchemy_ducklake.merge.applying import (
    IN_RANGES,
    change,
    insert,
    new_rows,
    patch_counts,
    replace_blindly,
    replaces_blindly,
)
from sqlalchemy_ducklake.merge.checks import (
    Key,
    audit,
    column_of,
    no_null,
    unambiguous,
    unique,
)
from sqlalchemy_ducklake.merge.constraints import UNCONSTRAINED, Constraints
from sqlalchemy_ducklake.merge.images import (
    Condition,
    Images,
    born_in,
    changed_by,
    is_in,
    with_computed,
)
from sqlalchemy_ducklake.merge.insert import allocate
from sqlalchemy_ducklake.merge.ranges import RANGES, Ranges, ranges_of
from sqlalchemy_ducklake.merge.reduction import REPEATED, count_repeats, reduce
from sqlalchemy_ducklake.merge.staging import (
    EFFECT,
    FILE,
    KIND,
    drop_stage,
    effects_stage,
    new_name,
)
from sqlalchemy_ducklake.merge.steps import (
    MakeStage,
    PlannedStep,
    constant,
)

UNCHANGED = constant("unchanged")


@dataclass(frozen=True, eq=False)
class UpsertPlan:
    """An INSERT … ON CONFLICT as steps; filling the stage is the compiler's.

    ``key`` is the conflict target, ``other_keys`` the table's further ones.
    ``assignments`` is what an existing row takes (by column name, in terms of the target
    and of ``excluded``; None: DO NOTHING), ``where`` the guard of that.  ``columns`` are
    the ones a new row gets.  Where complete rows are staged a changed row need not keep its
    row id: unless the plan ``preserves`` them, it is deleted and inserted.  With ``whole``
    the target is never read in ranges.  Where ``patches`` are staged, ``fold`` makes one
    change of those of a key.  ``before`` gives steps that look at what will be changed, and
    ``returns`` says that somebody will ask for the rows afterwards.
    """

    target: FromClause
    stage: TableClause
    key: Key
    other_keys: Sequence[Key]
    columns: Sequence[Column[Any]]
    assignments: Mapping[str, ColumnElement[Any]] | None
    where: ColumnElement[bool] | None
    excluded: FromClause
    allocated: Column[Any] | None
    binds: Mapping[str, str]
    single: bool
    compared: Sequence[str] | None = None
    unconditional: bool = False
    preserves: bool = True
    whole: bool = False
    with_kind: bool = False
    patches: bool = False
    fold: Sequence[PlannedStep] = ()
    before: Sequence[Callable[[], PlannedStep]] = ()
    returns: bool = False
    computed: Sequence[PlannedStep] = ()
    constraints: Constraints = UNCONSTRAINED

    def steps(self) -> Iterator[PlannedStep]:
        """Give the steps between filling the stage and returning rows."""
        if self.allocated is not None:
            yield from allocate(self.allocated, self.target, self.stage)
        yield from self.computed
        yield from no_null(self.key, self.stage)
        yield from audit([self.key, *self.other_keys], self.target)
        if self.single:
            yield from self._join(self.target)
        elif self.last_row_decides:
            yield count_repeats(self.key, self.stage)
            yield from self.fold or reduce(self.key, self.stage, first=self.assignments is None)
            yield from self._join_in_ranges()
        else:
            yield count_repeats(self.key, self.stage)
            yield from (_step(each, unless=REPEATED) for each in self._join(self.target))
            yield from self._waves()
        if not self.key.primary:
            yield unambiguous(self.key, self.effects)
        for key in self.other_keys:
            yield from unique(key, self.images)
        yield from self.constraints.steps(self.images)
        yield from (step() for step in self.before)
        yield from change(self)
        yield insert(self)

    def drops(self) -> Iterator[PlannedStep]:
        """Give the steps that remove what this plan made besides its stage."""
        if not (self.single or self.last_row_decides):
            yield from waves.drops(self)
        yield drop_stage(self.effects)

    def returned(self) -> ColumnElement[bool]:
        """Say which rows of the target the statement returns: those it did not skip."""
        skipped = exists(constant(1)).where(
            self.key.matches(self.effects, self.stage),
            self.effects.c[EFFECT] == constant("skipped"),
        )
        return and_(self.key.matches(self.target, self.stage), ~skipped)

    @property
    def last_row_decides(self) -> bool:
        """Tell whether one row of each key says all, so that the others can be dropped."""
        if self.assignments is None or self.fold:
            return True
        in_key = {each.name for each in self.key.columns}
        inserted = {each.name for each in self.columns} - in_key
        return self.where is None and self._replaces and set(self.assignments) == inserted

    @property
    def _replaces(self) -> bool:
        """Tell whether every assigned column takes the value of the staged row."""
        return all(
            self._is_excluded(getattr(value, "table", None)) and value.name == name
            for name, value in (self.assignments or {}).items()
        )

    @cached_property
    def narrow(self) -> bool:
        """Tell whether the effects need no new values, because the staged rows have them."""
        return self._replaces and (self.single or self.last_row_decides)

    @cached_property
    def waves(self) -> waves.WaveStages:
        """Name the tables that the waves need."""
        return waves.stages(self)

    @cached_property
    def effects(self) -> TableClause:
        """Name the table of effects: one row for each staged key that exists."""
        new = () if self.narrow else self.assignments or ()
        return effects_stage(
            [
                column(EFFECT),
                *self.key.within(self.stage),
                *(column(new_name(name)) for name in new),
                *([column(FILE)] if self.ranges is not None else ()),
            ]
        )

    @cached_property
    def ranges(self) -> Ranges | None:
        """Give the ranges of keys that are read, None if it is always the whole target."""
        if self.single or self.whole or not self.last_row_decides:
            return None
        return ranges_of(self.target, self.key, self.stage)

    def _is_excluded(self, table: Any) -> bool:
        """Tell whether a table stands for the rows given, also that of another insert()."""
        if table is self.excluded:
            return True
        named = isinstance(table, Alias) and table.name == "excluded"
        return named and table.element == self.target

    def adapted(self, expression: Any, excluded: FromClause, stored: FromClause) -> Any:
        """Let an expression speak of other tables than ``excluded`` and the target."""

        def moved(element: Any, **_: Any) -> Any:
            if isinstance(element, BindParameter):
                return excluded.c[self.binds[element.key]]
            table = getattr(element, "table", None)
            if self._is_excluded(table):
                return excluded.c[element.name]
            if table is not None and table == self.target:
                return stored.c[element.key if stored is self.target else element.name]
            return None

        return replacement_traverse(expression, {}, moved)

    def new_values(
        self, excluded: FromClause, stored: FromClause
    ) -> dict[str, ColumnElement[Any]]:
        """Give what each assigned column becomes, as that column would hold it."""
        return {
            name: self._value(name, value, excluded, stored)
            for name, value in (self.assignments or {}).items()
        }

    def guard(self, excluded: FromClause, stored: FromClause) -> ColumnElement[bool] | None:
        """Give the guard of the update; what is unknown is not true."""
        if self.where is None:
            return None
        return func.coalesce(self.adapted(self.where, excluded, stored), false())

    def _value(
        self, name: str, value: ColumnElement[Any], excluded: FromClause, stored: FromClause
    ) -> ColumnElement[Any]:
        adapted: ColumnElement[Any] = self.adapted(value, excluded, stored)
        if adapted is excluded.c.get(name):
            return adapted
        # Compared and stored as the column would hold it: 1.005 in DECIMAL(10, 2), say.
        return cast(adapted, column_of(self.target, name).type)

    def _waves(self) -> Iterator[PlannedStep]:
        when = (REPEATED,)
        yield from (_step(each, when=when) for each in waves.steps(self))
        yield from reduce(self.key, self.stage, first=self.assignments is None)
        yield _step(waves.images(self), when=when)

    def _join_in_ranges(self) -> Iterator[PlannedStep]:
        """Join the whole target, or where keys lie far apart its ranges."""
        if self.ranges is None:
            blindly = replaces_blindly(self)
            yield from replace_blindly(self) if blindly else self._join(self.target)
            return
        yield from self.ranges.steps()
        if replaces_blindly(self):
            yield from replace_blindly(self)
        else:
            yield from (_step(each, unless=RANGES) for each in self._join(self.target))
        for each in self._join(self.ranges.scan):
            yield _step(each, when=(RANGES,))
        changing = self.effects.c[EFFECT].in_([constant("updated"), constant("deleted")])
        yield self.ranges.note_files(self.effects, changing)
        yield self._count_in_ranges()

    def _count_in_ranges(self) -> PlannedStep:
        effect = self.effects.c[EFFECT]
        name: ColumnElement[Any] = effect.concat(constant(IN_RANGES))
        counted = select(name, func.count()).group_by(effect)
        return PlannedStep(counted, Step(Role.COUNTS, when=(RANGES,)))

    def _join(self, stored: FromClause) -> Iterator[PlannedStep]:
        """Join target and stage once: what each existing key's row would become."""
        excluded = self.stage.alias("excluded")
        new = self.new_values(excluded, stored)
        rows = select(
            self._effect(new, excluded, stored).label(EFFECT),
            *self.key.within(excluded),
            *(value.label(new_name(name)) for name, value in new.items() if not self.narrow),
        ).select_from(stored.join(excluded, self.key.matches(stored, excluded)))
        if self.ranges is not None:
            rows = rows.add_columns(stored.c.get(FILE, cast(null(), String)).label(FILE))
        yield PlannedStep(MakeStage(self.effects, rows), Step())
        yield PlannedStep(self._counts(), Step(Role.COUNTS))

    def _counts(self) -> SelectBase:
        """Count the effects; what is staged to be stored and did not exist is new."""
        effects = self.effects
        by_effect = select(effects.c[EFFECT], func.count()).group_by(effects.c[EFFECT])
        if self.patches:
            return union_all(by_effect, *patch_counts(self))
        known: Select[Any] = select(func.count()).select_from(effects)
        staged: Select[Any] = select(func.count()).select_from(self.stage)
        if self.with_kind:
            known = known.where(effects.c[EFFECT] != constant("deleted"))
            staged = staged.where(self.stage.c[KIND] != constant("delete"))
        inserted = staged.scalar_subquery() - known.scalar_subquery()
        return union_all(select(constant("inserted"), inserted), by_effect)

    def _effect(
        self,
        new: Mapping[str, ColumnElement[Any]],
        excluded: FromClause,
        stored: FromClause,
    ) -> ColumnElement[str]:
        if self.assignments is None:
            return constant("skipped")
        names = [name for name in new if self.compared is None or name in self.compared]
        changes: list[tuple[Any, Any]] = [
            (column_of(stored, name).is_distinct_from(new[name]), constant("updated"))
            for name in names
        ]
        if self.unconditional:
            changes = [(true(), constant("updated"))]
        if self.with_kind:
            changes.insert(0, (excluded.c[KIND] == constant("delete"), constant("deleted")))
        effect = case(*changes, else_=constant("unchanged")) if changes else UNCHANGED
        guard = self.guard(excluded, stored)
        return effect if guard is None else case((guard, effect), else_=constant("skipped"))

    @cached_property
    def images(self) -> Images:
        """Tell what the target will hold of the staged rows."""
        effects, fresh = self.effects, new_rows(self).subquery("fresh")
        born = born_in(self.target, fresh)
        gone = is_in(effects, self.becomes("deleted")) if self.with_kind else None
        if not self.assignments:
            return Images(self.target, born, deleted=gone)
        updated = self.becomes("updated")
        new = {name: self.new_value(name) for name in self.assignments}
        return Images(
            self.target,
            born,
            changed=changed_by(self.target, self._changes, updated, new),
            assigned=with_computed(self.target, new),
            deleted=gone,
            replaced=is_in(effects, updated),
        )

    @cached_property
    def _changes(self) -> FromClause:
        """Give the effects with the new values."""
        if not self.narrow:
            return self.effects
        return self.effects.join(self.stage, self.key.matches(self.effects, self.stage))

    def new_value(self, name: str) -> ColumnElement[Any]:
        """Give what an assigned column becomes, in terms of the changes."""
        return self.stage.c[name] if self.narrow else self.effects.c[new_name(name)]

    def becomes(self, *effects: str) -> Condition:
        """Say of a row of the target that it has one of these effects."""
        here = self.key.matches(self.target, self.effects)
        return and_(here, self.effects.c[EFFECT].in_([constant(each) for each in effects]))


def _step(planned: PlannedStep, **conditions: Any) -> PlannedStep:
    """Let a step run only under conditions."""
    return replace(planned, step=replace(planned.step, **conditions))
