"""The plan of a batch of changes: upserts and deletes, reduced to the last of each key.

The source is staged in the order of its sequence; a change feed that says what happened
(images before and after, deletes) becomes rows to store and keys to delete.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

from sqlalchemy import String, case, func, null, or_, select
from sqlalchemy.sql.elements import ColumnElement
from sqlalchemy.sql.selectable import FromClause, TableClause

from sqlalchemy_ducklake.driver.script import Step
from sqlalchemy_ducklake.errors import UnknownChange
from sqlalchemy_ducklake.merge.checks import Key, check
from sqlalchemy_ducklake.merge.constraints import UNCONSTRAINED, Constraints
from sqlalchemy_ducklake.merge.staging import (
    FIRST,
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

    ``kind_column`` and ``sequence_column`` are names in the source, or None;
    ``deletes_only`` says that the source holds keys alone.
    """

    target: FromClause
    source: FromClause
    key: Key
    other_keys: list[Key]
    kind_column: str | None
    sequence_column: str | None
    deletes_only: bool
    compared: tuple[str, ...] | None
    unconditional: bool
    preserves: bool = True
    whole: bool = False
    constraints: Constraints = UNCONSTRAINED

    def steps(self) -> Iterator[PlannedStep]:
        """Give all steps but those that drop."""
        if self.kind_column is not None:
            yield PlannedStep(MakeStage(self.staged, self._source_rows()), Step())
            yield self._check_kinds()
        yield self._rows_and_birth[1]
        yield PlannedStep(self._fill(), Step())
        yield from self.upsert.steps()

    def drops(self) -> Iterator[PlannedStep]:
        """Give the steps that remove what this plan made."""
        yield from self.upsert.drops()
        if self.kind_column is not None:
            yield drop_stage(self.staged)
        yield drop_stage(self._rows_and_birth[0])

    @cached_property
    def staged(self) -> TableClause:
        """Name the stage of the source."""
        return source_stage(self.source)

    @cached_property
    def upsert(self) -> UpsertPlan:
        """Give the merge of what is staged."""
        excluded = self.target.alias("excluded")
        rest = [] if self.deletes_only else self._columns
        in_key = set(self.key.names)
        return UpsertPlan(
            target=self.target,
            stage=self._rows_and_birth[0],
            key=self.key,
            other_keys=[] if self.deletes_only else self.other_keys,
            columns=self._columns,
            assignments={
                each.name: excluded.c[each.key] for each in rest if each.name not in in_key
            },
            where=None,
            excluded=excluded,
            allocated=None,
            binds={},
            single=False,
            compared=self.compared,
            unconditional=self.unconditional,
            preserves=self.preserves,
            whole=self.whole,
            with_kind=self._with_kind,
            constraints=self.constraints,
        )

    @property
    def _columns(self) -> list[Any]:
        """Give the columns of a stored row: all of them, since it is complete."""
        return list(self.key.columns) if self.deletes_only else list(self.target.c)

    @cached_property
    def _rows_and_birth(self) -> tuple[TableClause, PlannedStep]:
        return rows_stage(self._columns, {KIND: String()} if self._with_kind else {})

    @property
    def _with_kind(self) -> bool:
        """Tell whether anything but upserts may be staged."""
        return self.deletes_only or self.kind_column is not None

    def _source_rows(self) -> Any:
        place = self._place().label(SEQUENCE)
        return select(place, *self.source.c).select_from(self.source)

    def _place(self) -> ColumnElement[Any]:
        order = None if self.sequence_column is None else self.source.c[self.sequence_column]
        return func.row_number().over(order_by=order) - constant(1)

    def _kind(self) -> ColumnElement[Any]:
        if self.kind_column is None:
            return constant("delete")
        kind = self.staged.c[self.kind_column]
        deleted = (kind == constant("delete"), constant("delete"))
        return case(deleted, else_=constant("upsert"))

    def _fill(self) -> AppendRows:
        """Stage the rows with the target's types; where kinds are checked, a second time."""
        source = self.source if self.kind_column is None else self.staged
        values = [
            source.c[each.name] if each.name in source.c else null() for each in self._columns
        ]
        place = self._place() if self.kind_column is None else source.c[SEQUENCE]
        kinds = [self._kind()] if self._with_kind else []
        rows = select(*values, *kinds, place, place).select_from(source)
        if self.kind_column is not None:
            kind = source.c[self.kind_column]
            rows = rows.where(kind.not_in([constant(each) for each in PASSED_OVER]))
        names = [*(each.name for each in self._columns), *([KIND] if kinds else [])]
        return AppendRows(self._rows_and_birth[0], [*names, SEQUENCE, FIRST], rows)

    def _check_kinds(self) -> PlannedStep:
        assert self.kind_column is not None
        kind = self.staged.c[self.kind_column]
        known = [constant(each) for each in (*UPSERTS, *PASSED_OVER, "delete")]
        unknown = select(kind).where(or_(kind.is_(None), kind.not_in(known))).distinct()
        return check(unknown, partial(_unknown_change, str(self.target), self.kind_column))


def _unknown_change(table_name: str, kind: str, rows: Any) -> Exception:
    return UnknownChange(table_name, kind, tuple(value for (value,) in rows))
