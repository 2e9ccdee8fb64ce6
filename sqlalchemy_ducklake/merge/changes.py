"""The plan of a batch of changes: upserts, patches and deletes, one of each key.

The source is staged in the order of its sequence; a change feed that says what happened
(images before and after, deletes) becomes rows to store and keys to delete.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

from sqlalchemy import (
    ARRAY,
    BigInteger,
    String,
    case,
    column,
    func,
    null,
    or_,
    select,
    table,
    union_all,
)
from sqlalchemy.sql.elements import ColumnElement
from sqlalchemy.sql.selectable import FromClause, SelectBase, TableClause
from sqlalchemy.sql.type_api import TypeEngine

from sqlalchemy_ducklake.driver.script import Step
from sqlalchemy_ducklake.errors import UnknownChange, UnknownColumns
from sqlalchemy_ducklake.merge import patches
from sqlalchemy_ducklake.merge.checks import Key, check
from sqlalchemy_ducklake.merge.constraints import UNCONSTRAINED, Constraints
from sqlalchemy_ducklake.merge.patches import patched_values, written
from sqlalchemy_ducklake.merge.staging import (
    ASSIGNED,
    EFFECT,
    FIRST,
    GONE,
    KIND,
    SEQUENCE,
    drop_stage,
    rows_stage,
    source_stage,
)
from sqlalchemy_ducklake.merge.steps import AppendRows, MakeStage, PlannedStep, constant
from sqlalchemy_ducklake.merge.upsert import UpsertPlan

#: The words for a row to store; the last is the change feed's own.
UPSERTS = ("upsert", "insert", "update", "update_postimage")
#: What a change feed says besides, and a merge has no use for.
PASSED_OVER = ("update_preimage",)


@dataclass(frozen=True, eq=False)
class ChangesPlan:
    """A batch of changes as steps.

    ``kind_column``, ``sequence_column`` and ``assigned_column`` (what a patch assigns) are
    names in the source, or None; ``only`` says that all changes are of one kind.  A plan that
    ``returns`` keeps the rows that it deletes.
    """

    target: FromClause
    source: FromClause
    key: Key
    other_keys: list[Key]
    kind_column: str | None
    sequence_column: str | None
    assigned_column: str | None
    only: str | None
    compared: tuple[str, ...] | None
    unconditional: bool
    preserves: bool = True
    whole: bool = False
    constraints: Constraints = UNCONSTRAINED
    returns: bool = False

    def steps(self) -> Iterator[PlannedStep]:
        """Give all steps but those that drop."""
        if self.kind_column is not None:
            yield PlannedStep(MakeStage(self.staged, self._source_rows()), Step())
            yield self._check_kinds()
        if self.assigned_column is not None:
            yield self._check_assigned(self.assigned_column)
        yield self._rows_and_birth[1]
        yield PlannedStep(self._fill(), Step())
        yield from self.upsert.steps()

    def drops(self) -> Iterator[PlannedStep]:
        """Give the steps that remove what this plan made."""
        yield from self.upsert.drops()
        if self._deletes and self.returns:
            yield drop_stage(self._gone)
        if self.assigned_column is not None:
            yield drop_stage(patches.folded_stage(self._rows_and_birth[0]))
        if self.kind_column is not None:
            yield drop_stage(self.staged)
        yield drop_stage(self._rows_and_birth[0])

    def returned(self) -> SelectBase:
        """Select the rows to return: target columns, what happened to each, its place.

        Their order is that of the first mention of their keys, in which rows are inserted.
        """
        stage, effects = self._rows_and_birth[0], self.upsert.effects
        here, found = self.key.matches(self.target, stage), self.key.matches(effects, stage)
        action = case(
            (effects.c[EFFECT].is_(None), constant("INSERT")), else_=constant("UPDATE")
        )
        own = (action.label(EFFECT), stage.c[FIRST].label(SEQUENCE))
        rows = self.target.join(stage, here).outerjoin(effects, found)
        # A key that was deleted, or that a patch did not find, has no row to join.
        stored = select(*(each.label(each.name) for each in self.target.c), *own)
        stored = stored.select_from(rows)
        return union_all(stored, select(*self._gone.c)) if self._deletes else stored

    @property
    def _deletes(self) -> bool:
        return self.only == "delete" or self.kind_column is not None

    @property
    def _gone(self) -> TableClause:
        """Name the stage of the rows that are deleted, as they were."""
        own = (column(EFFECT, String()), column(SEQUENCE, BigInteger()))
        return table(GONE, *(column(each.name, each.type) for each in self.target.c), *own)

    def _keep_gone(self) -> PlannedStep:
        stage, effects = self._rows_and_birth[0], self.upsert.effects
        rows = self.target.join(effects, self.key.matches(self.target, effects))
        rows = rows.join(stage, self.key.matches(effects, stage))
        own = (constant("DELETE").label(EFFECT), stage.c[FIRST].label(SEQUENCE))
        gone = select(*(each.label(each.name) for each in self.target.c), *own)
        deleted = effects.c[EFFECT] == constant("deleted")
        return PlannedStep(MakeStage(self._gone, gone.select_from(rows).where(deleted)), Step())

    @cached_property
    def staged(self) -> TableClause:
        """Name the stage of the source."""
        return source_stage(self.source)

    @cached_property
    def upsert(self) -> UpsertPlan:
        """Give the merge of what is staged."""
        excluded = self.target.alias("excluded")
        stage = self._rows_and_birth[0]
        rest = [each.name for each in self._columns if each.name not in self.key.names]
        values: dict[str, ColumnElement[Any]]
        values = {each.name: excluded.c[each.key] for each in self.target.c}
        fold: tuple[PlannedStep, ...] = ()
        if self.assigned_column is not None:
            values = patched_values(self.target, excluded, rest)
            fold = tuple(patches.fold(self.key, stage, rest))
        return UpsertPlan(
            target=self.target,
            stage=stage,
            key=self.key,
            other_keys=[] if self.only == "delete" else self.other_keys,
            columns=self._columns,
            assignments={name: values[name] for name in rest},
            where=None,
            excluded=excluded,
            allocated=None,
            binds={},
            single=False,
            compared=self.compared,
            unconditional=self.unconditional,
            preserves=self.preserves or self._patches,
            whole=self.whole,
            with_kind=self._with_kind,
            patches=self._patches,
            fold=fold,
            before=(self._keep_gone,) if self._deletes and self.returns else (),
            returns=self.returns,
            constraints=self.constraints,
        )

    @property
    def _columns(self) -> list[Any]:
        """Give the columns of a staged row: all of them, if it is complete."""
        if self.only is None:
            return list(self.target.c)
        given = (
            self.key.names if self.only == "delete" else [each.name for each in self.source.c]
        )
        return [each for each in self.target.c if each.name in given]

    @cached_property
    def _rows_and_birth(self) -> tuple[TableClause, PlannedStep]:
        own: dict[str, TypeEngine[Any]] = {KIND: String()} if self._with_kind else {}
        if self.assigned_column is not None:
            own[ASSIGNED] = ARRAY(String())
        return rows_stage(self._columns, own)

    @property
    def _with_kind(self) -> bool:
        """Tell whether anything but upserts may be staged."""
        return self.only is not None or self.kind_column is not None

    @property
    def _patches(self) -> bool:
        return self.only == "patch" or self.assigned_column is not None

    def _source_rows(self) -> Any:
        place = self._place().label(SEQUENCE)
        return select(place, *self.source.c).select_from(self.source)

    def _place(self) -> ColumnElement[Any]:
        order = None if self.sequence_column is None else self.source.c[self.sequence_column]
        return func.row_number().over(order_by=order) - constant(1)

    def _kind(self) -> ColumnElement[Any]:
        if self.only is not None:
            return constant(self.only)
        assert self.kind_column is not None
        kind = self.staged.c[self.kind_column]
        others = ["delete", *(["patch"] if self._patches else [])]
        kinds = [(kind == constant(each), constant(each)) for each in others]
        return case(*kinds, else_=constant("upsert"))

    def _assigned(self) -> ColumnElement[Any]:
        """Give the columns that a patch assigns: those it lists, or all of the source."""
        assert self.assigned_column is not None
        given = [each.name for each in self._columns if each.name in self.source.c]
        everything = func.list_value(*(written(name) for name in given))
        return func.coalesce(self.staged.c[self.assigned_column], everything)

    def _fill(self) -> AppendRows:
        """Stage the rows with the target's types; where kinds are checked, a second time."""
        source = self.source if self.kind_column is None else self.staged
        values = [
            source.c[each.name] if each.name in source.c else null() for each in self._columns
        ]
        place = self._place() if self.kind_column is None else source.c[SEQUENCE]
        own = {KIND: self._kind()} if self._with_kind else {}
        if self.assigned_column is not None:
            own[ASSIGNED] = self._assigned()
        rows = select(*values, *own.values(), place, place).select_from(source)
        if self.kind_column is not None:
            kind = source.c[self.kind_column]
            rows = rows.where(kind.not_in([constant(each) for each in PASSED_OVER]))
        names = [*(each.name for each in self._columns), *own]
        return AppendRows(self._rows_and_birth[0], [*names, SEQUENCE, FIRST], rows)

    def _check_kinds(self) -> PlannedStep:
        assert self.kind_column is not None
        kind = self.staged.c[self.kind_column]
        patch = ("patch",) if self._patches else ()
        known = [constant(each) for each in (*UPSERTS, *PASSED_OVER, "delete", *patch)]
        unknown = select(kind).where(or_(kind.is_(None), kind.not_in(known))).distinct()
        return check(unknown, partial(_unknown_change, str(self.target), self.kind_column))

    def _check_assigned(self, name: str) -> PlannedStep:
        """Refuse a patch of columns that nobody has, or that the source does not give."""
        given = [each.name for each in self._columns if each.name in self.source.c]
        listed = select(func.unnest(self.staged.c[name]).label("listed")).subquery("listed")
        unknown = listed.c.listed.not_in([written(each) for each in given])
        rows = select(listed.c.listed).where(unknown).distinct()
        return check(rows, partial(_unknown_columns, str(self.target), name))


def _name(column: Any) -> str:
    return str(column.name)


def _unknown_change(table_name: str, kind: str, rows: Any) -> Exception:
    return UnknownChange(table_name, kind, tuple(value for (value,) in rows))


def _unknown_columns(table_name: str, column: str, rows: Any) -> Exception:
    return UnknownColumns(table_name, column, tuple(value for (value,) in rows))
