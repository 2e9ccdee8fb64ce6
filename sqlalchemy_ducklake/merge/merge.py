"""The plan of MERGE: any source, any condition, several arms.

The source is staged once, so nothing in it is evaluated twice.  One join against the
target finds every matching pair and, from the arms in their order, what becomes of it;
source rows without a pair go through the inserting arms, and only if there are arms for
them is the target searched for rows that no source row matches.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

from sqlalchemy import (
    BigInteger,
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
    or_,
    select,
    table,
    true,
    union_all,
)
from sqlalchemy.sql.elements import ColumnElement
from sqlalchemy.sql.selectable import FromClause, Select, SelectBase, TableClause
from sqlalchemy.sql.visitors import replacement_traverse

from sqlalchemy_ducklake.constructs.merge import BY_SOURCE, MATCHED, Arm
from sqlalchemy_ducklake.driver.script import Role, Step
from sqlalchemy_ducklake.errors import CardinalityViolation
from sqlalchemy_ducklake.merge.checks import Key, audit, check, no_null, unique
from sqlalchemy_ducklake.merge.constraints import UNCONSTRAINED, Constraints
from sqlalchemy_ducklake.merge.images import (
    Images,
    born_in,
    changed_by,
    is_in,
    with_computed,
)
from sqlalchemy_ducklake.merge.insert import allocate, append
from sqlalchemy_ducklake.merge.rows import row_id
from sqlalchemy_ducklake.merge.staging import (
    EFFECT,
    FIRST,
    ROW_ID,
    SEQUENCE,
    drop_stage,
    effects_name,
    new_name,
    rows_stage,
    source_stage,
)
from sqlalchemy_ducklake.merge.steps import (
    AppendRows,
    ChangeRows,
    MakeStage,
    PlannedStep,
    RemoveRows,
    constant,
)


@dataclass(frozen=True, eq=False)
class MergePlan:
    """A MERGE as steps.

    ``insert_defaults`` gives what an inserting arm stores in columns that it does not
    mention; ``located`` are key columns that no arm assigns, by which rows are found
    again fast.  With ``returns`` the effects hold whole rows.
    """

    target: FromClause
    source: FromClause
    on: ColumnElement[bool]
    arms: Sequence[Arm]
    keys: Sequence[Key]
    located: Sequence[Column[Any]]
    insert_defaults: Mapping[str, ColumnElement[Any]]
    allocated: Column[Any] | None
    compared: Sequence[str] | None
    unconditional: bool
    returns: bool
    preserves: bool = True
    constraints: Constraints = UNCONSTRAINED

    def steps(self) -> Iterator[PlannedStep]:
        """Give the steps before rows are returned."""
        yield PlannedStep(MakeStage(self.staged, self._source_rows()), Step())
        yield PlannedStep(MakeStage(self.effects, self._effects()), Step())
        yield self._check_cardinality()
        yield self.rows_and_birth[1]
        if self.inserted:
            yield PlannedStep(self._fill_rows(), Step())
        if self.allocated is not None:
            yield from allocate(self.allocated, self.target, self.rows)
        yield self._count()
        yield from self._check_keys()
        yield from self.constraints.steps(self.images)
        yield from self._change()

    def drops(self) -> Iterator[PlannedStep]:
        """Give the steps that remove what this plan made."""
        for made in (self.staged, self.effects, self.rows):
            yield drop_stage(made)

    def returned(self) -> SelectBase:
        """Select the rows to return: target columns, what happened to each, its place."""
        effects, rows = self.effects, self.rows
        stored = {each.name for each in self.inserted}
        action = case(
            (effects.c[EFFECT] == constant("deleted"), constant("DELETE")),
            else_=constant("UPDATE"),
        )
        changed = select(
            *(effects.c[new_name(each.name)].label(each.name) for each in self.target.c),
            action.label(EFFECT),
            effects.c[SEQUENCE],
        ).where(effects.c[EFFECT] != constant("skipped"))
        born = select(
            *(
                (rows.c[each.name] if each.name in stored else null()).label(each.name)
                for each in self.target.c
            ),
            constant("INSERT").label(EFFECT),
            rows.c[SEQUENCE],
        )
        return union_all(changed, born)

    @cached_property
    def staged(self) -> TableClause:
        """Name the stage of the source."""
        return source_stage(self.source)

    @cached_property
    def assigned(self) -> list[str]:
        """Give the names of the columns that any updating arm assigns."""
        return self._mentioned("update")

    @cached_property
    def inserted(self) -> list[Any]:
        """Give the columns that get values in new rows."""
        names = {*self._mentioned("insert"), *self.insert_defaults}
        if self.allocated is not None:
            names.add(self.allocated.name)
        return [each for each in self.target.c if each.name in names]

    @cached_property
    def effects(self) -> TableClause:
        """Name the effects: each matching pair, or row of the target by itself."""
        kinds = {each.name: each.type for each in self.target.c}
        return table(
            effects_name(),
            column(EFFECT, String),
            column(ROW_ID, BigInteger),
            column(SEQUENCE, BigInteger),
            *(column(each.name, each.type) for each in self._kept),
            *(column(new_name(name), kinds[name]) for name in self._images),
        )

    @cached_property
    def rows_and_birth(self) -> tuple[TableClause, PlannedStep]:
        """Name the stage of new rows, and the step that makes it."""
        key_columns = {each.name for key in self.keys for each in key.columns}
        names = key_columns | {each.name for each in self.inserted}
        return rows_stage([each for each in self.target.c if each.name in names], {})

    @property
    def rows(self) -> TableClause:
        """Name the stage of new rows."""
        return self.rows_and_birth[0]

    @cached_property
    def _images(self) -> list[str]:
        """Give the names of the columns whose new values the effects hold."""
        whole = self.returns or not self.preserves
        return [each.name for each in self.target.c] if whole else self.assigned

    @cached_property
    def _kept(self) -> list[Column[Any]]:
        key_columns = [each for key in self.keys for each in key.columns]
        by_name = {each.name: each for each in (*self.located, *key_columns)}
        return list(by_name.values())

    def _mentioned(self, action: str) -> list[str]:
        arms = [arm for arm in self.arms if arm.action == action]
        names = {name for arm in arms for name in self.values_of(arm)}
        return [each.name for each in self.target.c if each.name in names]

    def values_of(self, arm: Arm) -> Mapping[str, ColumnElement[Any]]:
        """Give what an arm assigns, by column name; without values all common columns."""
        if arm.values is not None:
            return {self.target.c[key].name: value for key, value in arm.values.items()}
        located = {each.name for each in self.located} if arm.action == "update" else set()
        return {
            each.name: self.source.c[each.name]
            for each in self.target.c
            if each.name in self.source.c and each.name not in located
        }

    def _adapted(self, expression: Any) -> Any:
        """Let an expression of the user's speak of the staged source."""

        def moved(element: Any, **_: Any) -> Any:
            # Of a mapped class the ORM gives an annotated table, which is equal to the table.
            if getattr(element, "table", None) == self.source:
                return self.staged.c[element.name]
            return None

        return replacement_traverse(expression, {}, moved)

    def _source_rows(self) -> Select[Any]:
        place = (func.row_number().over() - constant(1)).label(SEQUENCE)
        return select(place, *self.source.c).select_from(self.source)

    def _effects(self) -> SelectBase:
        on = self._adapted(self.on)
        pairs = self._outcomes(MATCHED, self.staged.c[SEQUENCE]).select_from(
            self.target.join(self.staged, on)
        )
        if not any(arm.when == BY_SOURCE for arm in self.arms):
            return pairs
        matched = exists(constant(1)).where(on).select_from(self.staged)
        alone = self._outcomes(BY_SOURCE, cast(null(), BigInteger))
        return union_all(pairs, alone.select_from(self.target).where(~matched))

    def _outcomes(self, when: str, place: ColumnElement[Any]) -> Select[Any]:
        arms = [arm for arm in self.arms if arm.when == when]
        new = {name: self._new_value(name, arms) for name in self._images}
        return select(
            self._effect(arms, new).label(EFFECT),
            row_id(self.target).label(ROW_ID),
            place.label(SEQUENCE),
            *self._kept,
            *(value.label(new_name(name)) for name, value in new.items()),
        )

    def _effect(
        self, arms: Sequence[Arm], new: Mapping[str, ColumnElement[Any]]
    ) -> ColumnElement[Any]:
        roads = [(self._applies(arm), self._effect_of(arm, new)) for arm in arms]
        return case(*roads, else_=constant("skipped")) if roads else constant("skipped")

    def _effect_of(self, arm: Arm, new: Mapping[str, ColumnElement[Any]]) -> ColumnElement[Any]:
        if arm.action != "update":
            return constant("deleted" if arm.action == "delete" else "skipped")
        if self.unconditional:
            return constant("updated")
        names = self.compared or list(self.values_of(arm))
        differs = or_(
            *(_stored(self.target, name).is_distinct_from(new[name]) for name in names)
        )
        return case((differs, constant("updated")), else_=constant("unchanged"))

    def _applies(self, arm: Arm) -> ColumnElement[bool]:
        if arm.where is None:
            return true()
        return func.coalesce(self._adapted(arm.where), false())

    def _new_value(self, name: str, arms: Sequence[Arm]) -> ColumnElement[Any]:
        """Give what a column becomes: the value of the arm that applies, or what it was."""
        old = _stored(self.target, name)
        roads = [(self._applies(arm), self._assigned_by(arm, name, old)) for arm in arms]
        return case(*roads, else_=old) if roads else old

    def _assigned_by(self, arm: Arm, name: str, old: ColumnElement[Any]) -> ColumnElement[Any]:
        if arm.action != "update" or name not in self.values_of(arm):
            return old
        return cast(self._adapted(self.values_of(arm)[name]), old.type)

    def _check_cardinality(self) -> PlannedStep:
        effects = self.effects
        names = tuple(each.name for each in self._kept) or (ROW_ID,)
        columns = [effects.c[name] for name in names]
        twice = (
            select(*columns)
            .where(effects.c[EFFECT] != constant("skipped"))
            .group_by(effects.c[ROW_ID], *columns)
            .having(func.count() > constant(1))
        )
        return check(twice, partial(_cardinality, str(self.target), names))

    def _fill_rows(self) -> AppendRows:
        """Insert into the stage of new rows the source rows that match nothing."""
        staged, effects = self.staged, self.effects
        arms = [arm for arm in self.arms if arm.when not in (MATCHED, BY_SOURCE)]
        inserting = or_(
            *(
                and_(self._applies(arm), *(~self._applies(each) for each in arms[:place]))
                for place, arm in enumerate(arms)
                if arm.action == "insert"
            ),
            false(),
        )
        matched = exists(constant(1)).where(effects.c[SEQUENCE] == staged.c[SEQUENCE])
        columns = [each for each in self.inserted if self._gives(each, arms)]
        values = [self._inserted_value(each.name, arms) for each in columns]
        place = staged.c[SEQUENCE]
        rows = select(*values, place, place).where(~matched, inserting)
        names = [each.name for each in columns]
        return AppendRows(self.rows, [*names, SEQUENCE, FIRST], rows)

    def _gives(self, each: Column[Any], arms: Sequence[Arm]) -> bool:
        given = any(arm.action == "insert" and each.name in self.values_of(arm) for arm in arms)
        return given or each.name in self.insert_defaults

    def _inserted_value(self, name: str, arms: Sequence[Arm]) -> ColumnElement[Any]:
        default = self.insert_defaults.get(name, null())
        roads = [
            (
                self._applies(arm),
                self._adapted(self.values_of(arm)[name])
                if arm.action == "insert" and name in self.values_of(arm)
                else default,
            )
            for arm in arms
        ]
        return case(*roads) if len(roads) > 1 else roads[0][1]

    def _count(self) -> PlannedStep:
        effects = self.effects
        by_effect = select(effects.c[EFFECT], func.count()).group_by(effects.c[EFFECT])
        new: Select[Any] = select(constant("inserted"), func.count()).select_from(self.rows)
        return PlannedStep(union_all(by_effect, new), Step(Role.COUNTS))

    def _check_keys(self) -> Iterator[PlannedStep]:
        yield from audit(self.keys, self.target)
        for key in self.keys:
            if key.primary and key.columns[0] is not self.allocated:
                yield from no_null(key, self.rows)
            yield from unique(key, self.images)

    @cached_property
    def images(self) -> Images:
        """Tell what the target will hold of the rows that are concerned."""
        target, effects, updated = self.target, self.effects, self._here("updated")
        actions = {arm.action for arm in self.arms}
        new = {name: effects.c[new_name(name)] for name in self.assigned}
        return Images(
            target,
            born=born_in(target, self.rows) if "insert" in actions else None,
            changed=changed_by(target, effects, updated, new) if new else None,
            assigned=with_computed(target, new),
            deleted=is_in(effects, self._here("deleted")) if "delete" in actions else None,
            replaced=is_in(effects, updated) if new else None,
        )

    def _here(self, *which: str) -> ColumnElement[bool]:
        effects = self.effects
        found = [
            _stored(self.target, each.name) == effects.c[each.name] for each in self.located
        ]
        return and_(
            *found,
            row_id(self.target) == effects.c[ROW_ID],
            effects.c[EFFECT].in_([constant(each) for each in which]),
        )

    def _change(self) -> Iterator[PlannedStep]:
        """Delete, update and insert; or with new row ids delete and insert."""
        removed = ("deleted",) if self.preserves else ("deleted", "updated")
        gone = self._here(*removed)
        yield PlannedStep(RemoveRows(self.target, gone, self.effects), Step(when=removed))
        if self.assigned and self.preserves:
            values = {name: self.effects.c[new_name(name)] for name in self.assigned}
            statement = ChangeRows(self.target, values, self.effects, self._here("updated"))
            yield PlannedStep(statement, Step(when=("updated",)))
        if self.assigned and not self.preserves:
            yield self._replace()
        if self.inserted:
            insertion = append(self.target, self.rows, self.inserted)
            yield PlannedStep(insertion.statement, Step(when=("inserted",)))

    def _replace(self) -> PlannedStep:
        """Insert the updated rows as they have become."""
        effects, names = self.effects, [each.name for each in self.target.c]
        rows = select(*(effects.c[new_name(name)] for name in names))
        rows = rows.where(effects.c[EFFECT] == constant("updated"))
        return PlannedStep(AppendRows(self.target, names, rows), Step(when=("updated",)))


def _stored(target: FromClause, name: str) -> ColumnElement[Any]:
    return next(each for each in target.c if each.name == name)


def _cardinality(
    target: str, names: tuple[str, ...], rows: Sequence[tuple[Any, ...]]
) -> Exception:
    return CardinalityViolation(target, names, tuple(rows))
