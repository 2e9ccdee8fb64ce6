"""MERGE as a script."""

# What SQLAlchemy gives a compiler are private parts of its statements.
# ruff: noqa: SLF001, ARG002

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import exc, literal_column
from sqlalchemy.sql.elements import ColumnElement
from sqlalchemy.sql.schema import Column, Table

from sqlalchemy_ducklake.constructs.merge import Merge
from sqlalchemy_ducklake.dialect.scripts import ScriptCompiler
from sqlalchemy_ducklake.dialect.shell import TextStep
from sqlalchemy_ducklake.driver.script import Role, Step
from sqlalchemy_ducklake.merge.changes import ChangesPlan
from sqlalchemy_ducklake.merge.checks import keys_of, primary_key_of
from sqlalchemy_ducklake.merge.merge import MergePlan
from sqlalchemy_ducklake.merge.staging import EFFECT, SEQUENCE


class MergeCompiler(ScriptCompiler):
    """Compiles MERGE."""

    _merging = False

    def visit_ducklake_merge(self, statement: Merge, **kw: Any) -> str:
        """Write MERGE in steps.

        Raises CompileError for a merge that says too little, or what cannot be.
        """
        if self.stack:
            raise exc.CompileError("a merge stands alone; it is no part of another statement")
        _refuse_incomplete(statement)
        self._merging = True
        state = statement._compile_state_factory(statement, self, **kw)
        self.isupdate = True
        with self.data_change(state, statement.table):
            self._in_batch = False
            self.writes(statement.table, _mode(statement))
            plan = self._changes(statement) if statement.is_changes else self._plan(statement)
            returned = [self._returned_images(statement, plan)] if statement._returning else []
            again = self.compute_again(plan.target, ["inserted", "updated"])
            steps = [
                *self.planned([*plan.steps(), *again]),
                *returned,
                *self.planned(plan.drops()),
            ]
            return self.finish_script(steps, rowcount=("inserted", "updated", "deleted"))

    def visit_merge_action_func(self, fn: Any, **kw: Any) -> str:
        """Tell what happened to a returned row: INSERT, UPDATE or DELETE."""
        if self._returned is None or not self._merging:
            raise exc.CompileError("merge_action() stands in RETURNING of a merge only")
        return f"{self._returned.source}.{self.preparer.quote(EFFECT)}"

    def _changes(self, statement: Merge) -> ChangesPlan:
        target: Any = statement.table
        key = primary_key_of(target)
        if key is None:
            raise exc.CompileError(
                f"{target} has no primary key, which says what a change belongs to; declare a "
                "PrimaryKeyConstraint on the Table"
            )
        _refuse_odd_columns(statement, key.names)
        self.source_target = target
        return ChangesPlan(
            target=target,
            source=statement.source,
            key=key,
            other_keys=[other for other in keys_of(target) if other != key],
            kind_column=statement.kind_column,
            sequence_column=statement.sequence_column,
            assigned_column=statement.assigned_column,
            only=statement.only,
            compared=statement.version_columns,
            unconditional=statement.is_unconditional,
            preserves=statement.keeps_row_ids,
            constraints=self.constraints_of(target),
            whole=bool(self.written_out),
            returns=bool(statement._returning),
        )

    def _plan(self, statement: Merge) -> MergePlan:
        target: Any = statement.table
        keys = keys_of(target)
        assigned = {column.name for column in target.c if _assigns(statement, column, target.c)}
        primary = primary_key_of(target)
        located = list(primary.columns) if primary is not None else []
        if any(column.name in assigned for column in located):
            located = []
        plan_for: dict[str, Any] = {
            "target": target,
            "source": statement.source,
            "on": statement.on,
            "arms": statement.arms,
            "keys": keys,
            "located": located,
            "compared": statement.version_columns,
            "unconditional": statement.is_unconditional,
            "returns": bool(statement._returning),
            "preserves": statement.keeps_row_ids,
            "constraints": self.constraints_of(target),
        }
        inserting = any(arm.action == "insert" for arm in statement.arms)
        defaults = self._defaults(target) if inserting else {}
        allocated = target._autoincrement_column if isinstance(target, Table) else None
        plan = MergePlan(
            **plan_for,
            insert_defaults=defaults,
            allocated=allocated if inserting else None,
        )
        self.source_target = target
        _refuse_unknown_columns(plan)
        return plan

    def _defaults(self, target: Any) -> Mapping[str, ColumnElement[Any]]:
        """Give what the lake would store in columns that an INSERT does not mention."""
        return {
            column.name: literal_column(text)
            for column, text in self.server_defaults(target, [])
        }

    def _returned_images(self, statement: Any, plan: MergePlan | ChangesPlan) -> TextStep:
        name = self.preparer.quote(statement.table.name)
        columns, returned = self.returned_columns(statement, name)
        if returned.others:
            raise exc.CompileError(
                "RETURNING of a merge gives columns of the target and merge_action(), "
                f"not {returned.others}"
            )
        images = self.expression(plan.returned())
        place = f"{name}.{self.preparer.quote(SEQUENCE)}"
        text = f"SELECT {columns} FROM ({images}) AS {name} ORDER BY {place}"
        return text, Step(Role.ROWS)


def _mode(statement: Merge) -> str:
    if not statement.is_changes:
        return "merge"
    return statement.only or "upsert"


def _assigns(statement: Merge, column: Column[Any], columns: Any) -> bool:
    return (
        any(
            arm.action == "update" and arm.values is not None and column.key in arm.values
            for arm in statement.arms
        )
        and column.key in columns
    )


def _refuse_incomplete(statement: Merge) -> None:
    if statement.is_changes:
        return
    if statement.source is None or statement.on is None:
        raise exc.CompileError("a merge needs a source: merge(target).using(source, on=…)")
    if not statement.arms:
        raise exc.CompileError(
            "a merge needs an arm that says what to do: when_matched_update(), "
            "when_not_matched_insert(), …"
        )


def _refuse_unknown_columns(plan: MergePlan) -> None:
    for arm in plan.arms:
        unknown = set(arm.values or ()) - set(plan.target.c.keys())
        if unknown:
            raise exc.CompileError(f"{plan.target} has no column {sorted(unknown)}")
        if arm.action in {"update", "insert"} and not plan.values_of(arm):
            raise exc.CompileError(
                f"target and source of the merge into {plan.target} have no column in common "
                f"for WHEN {arm.when.upper()} {arm.action.upper()}"
            )
    if any(arm.action == "insert" for arm in plan.arms):
        _refuse_missing_keys(plan)


def _refuse_odd_columns(statement: Merge, key: tuple[str, ...]) -> None:
    """Refuse changes with columns too many, or without the key or what must not be NULL."""
    target: Any = statement.table
    source = set(statement.columns_of_source())
    known = {column.name for column in target.c}
    feed = {"snapshot_id", "rowid", "change_type"} if statement.kind_column else set()
    own = {statement.kind_column, statement.sequence_column, statement.assigned_column}
    unknown = source - known - feed - own
    if unknown:
        raise exc.CompileError(f"{target} has no column {sorted(unknown)}")
    complete = statement.only is None
    required = {column.name for column in target.c if complete and not column.nullable}
    missing = ({*key} | required) - source
    if missing:
        raise exc.CompileError(
            f"a change of {target} is a complete row; the source lacks {sorted(missing)}"
        )


def _refuse_missing_keys(plan: MergePlan) -> None:
    """Refuse an inserting arm that does not give the primary key, unless it is counted up."""
    inserted = {column.name for column in plan.inserted}
    for key in plan.keys:
        missing = [name for name in key.names if name not in inserted]
        if key.primary and missing:
            raise exc.CompileError(
                f"WHEN NOT MATCHED INSERT into {plan.target} gives no value for {missing} of "
                f"its key ({', '.join(key.names)})"
            )
