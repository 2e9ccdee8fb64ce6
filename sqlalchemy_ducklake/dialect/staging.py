"""Statements that change rows, compiled for a write scope.

The script is the same as without one, with the same checks and the same RETURNING: only
that it sees its tables through the views of the scope, and that where it would write into
the lake it logs what the rows become.
"""

# What SQLAlchemy gives a compiler are private parts of its statements.
# ruff: noqa: SLF001

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, cast

from sqlalchemy import Delete, Insert, Update, case, exc, or_, select, table
from sqlalchemy.sql.elements import ColumnClause, ColumnElement, False_

from sqlalchemy_ducklake.dialect.compiler import DuckLakeCompiler
from sqlalchemy_ducklake.dialect.logged import appended, counted, staged_if_few, versions_logged
from sqlalchemy_ducklake.dialect.overlays import (
    NotStaged,
    OverlayPreparer,
    is_of_lake,
    refuse_others,
    refuse_unknown,
)
from sqlalchemy_ducklake.dialect.plain import PlainCompiler
from sqlalchemy_ducklake.driver.script import Step
from sqlalchemy_ducklake.errors import NullValue
from sqlalchemy_ducklake.lake.attach import identifier
from sqlalchemy_ducklake.lake.changes import TableName
from sqlalchemy_ducklake.merge.checks import check, keys_of, primary_key_of
from sqlalchemy_ducklake.merge.constraints import foreign_keys_of
from sqlalchemy_ducklake.merge.steps import (
    AppendRows,
    ChangeRows,
    PlannedStep,
    RemoveRows,
    constant,
)
from sqlalchemy_ducklake.scope.log import log_name, next_name
from sqlalchemy_ducklake.scope.unit import Staging

_Write = AppendRows | ChangeRows | RemoveRows


class StagingCompiler(PlainCompiler):
    """Compiles INSERT, UPDATE and DELETE for a scope; raises NotStaged for others."""

    always_in_steps = True
    _overlay: OverlayPreparer
    _in_text = False
    _types_only = False
    _tables: dict[TableName, None]
    _assigned: frozenset[str] = frozenset()
    _hides = False
    _writes_so_far = 0

    @property
    def preparer(self) -> Any:
        """What quotes names."""
        return self._overlay

    @preparer.setter
    def preparer(self, value: Any) -> None:
        # Set by SQLAlchemy before it compiles.
        self._tables = {}
        self._overlay = OverlayPreparer(self.dialect, value.dialect.default_schema_name)

    @cached_property
    def staging(self) -> Staging:
        """What the script does to the log of its table."""
        target = self._overlay.table_name(self._target)
        key = primary_key_of(self._target)
        parents = {
            self._overlay.table_name(each.parent) for each in foreign_keys_of(self._target)
        }
        return Staging(
            target,
            tuple(dict.fromkeys((target, *self._tables))),
            () if key is None else key.names,
            self._assigned,
            self._hides,
            appends=bool(self.isinsert) and not keys_of(self._target) and not self._hides,
            parents=frozenset(parents),
        )

    def visit_insert(self, insert_stmt: Any, *args: Any, **kw: Any) -> str:
        """INSERT, but not of what a query gives."""
        if not self.stack:
            self._begin(insert_stmt.table)
            if insert_stmt.select is not None or insert_stmt._independent_ctes:
                raise NotStaged("INSERT … SELECT is written at once")
        return super().visit_insert(insert_stmt, *args, **kw)

    def visit_update(self, update_stmt: Any, *args: Any, **kw: Any) -> str:
        """UPDATE of one table."""
        if not self.stack:
            self._begin(update_stmt.table)
        return super().visit_update(update_stmt, *args, **kw)

    def visit_delete(self, delete_stmt: Any, *args: Any, **kw: Any) -> str:
        """DELETE from one table."""
        if not self.stack:
            self._begin(delete_stmt.table)
        return super().visit_delete(delete_stmt, *args, **kw)

    def _begin(self, target: Any) -> None:
        if not is_of_lake(target) or self._target is not None:
            raise NotStaged("only tables of the lake are staged")
        self._target = target
        self._tables[self._overlay.table_name(target)] = None

    def visit_ducklake_make_stage(self, step: Any, **kw: Any) -> str:
        """CREATE OR REPLACE TEMP TABLE <stage> AS <rows>; for types alone ask the log."""
        self._types_only = isinstance(getattr(step.rows, "whereclause", None), False_)
        try:
            return str(super().visit_ducklake_make_stage(step, **kw))
        finally:
            self._types_only = False

    def stage_found(self, stage: str, made: str) -> list[tuple[str, Step]]:
        """Stage the rows that a statement finds, if they are worth being kept aside."""
        return staged_if_few(made, stage, Step())

    def visit_cte(self, cte: Any, *args: Any, **kw: Any) -> str | None:
        """Leave statements with common table expressions alone."""
        del cte, args, kw
        raise NotStaged("a statement with common table expressions is written at once")

    def visit_textclause(self, textclause: Any, *args: Any, **kw: Any) -> str:
        """Leave text alone, except that of a constraint: it may name tables."""
        if not self._in_text:
            raise NotStaged("a statement with text in it is written at once")
        return str(super().visit_textclause(textclause, *args, **kw))

    def visit_ducklake_bare(self, element: Any, **kw: Any) -> str:
        """(<expression>), in which text names no table."""
        before, self._in_text = self._in_text, True
        try:
            return str(super().visit_ducklake_bare(element, **kw))
        finally:
            self._in_text = before

    def _computed(self, target: Any) -> dict[str, str]:
        before, self._in_text = self._in_text, True
        try:
            return super()._computed(target)
        finally:
            self._in_text = before

    def visit_table(self, table: Any, asfrom: bool = False, **kw: Any) -> str:  # type: ignore[override]
        """<view of the scope>."""
        if not is_of_lake(table) or not asfrom:
            return super().visit_table(table, asfrom=asfrom, **kw)
        linter = kw.get("from_linter")
        if linter:
            linter.froms[table] = table.name
        self._tables[self._overlay.table_name(table)] = None
        return self._seen(table)

    def _seen(self, owner: Any) -> str:
        """Quote what stands for a table: the view, or what has the same types."""
        return self._log if self._types_only else self._overlay.format_table(owner)

    def visit_column(
        self,
        column: Any,
        add_to_result_map: Any = None,
        include_table: bool = True,
        *args: Any,
        **kw: Any,
    ) -> str:
        """<view of the scope>.<column>."""
        owner = column.table
        if not include_table or not is_of_lake(owner):
            if owner is None and not self._in_text:
                refuse_unknown(column)
            return super().visit_column(column, add_to_result_map, include_table, *args, **kw)
        elsewhere = (self._returned, self._copied)
        if any(each is not None and each.target == owner for each in elsewhere):
            return super().visit_column(column, add_to_result_map, include_table, *args, **kw)
        name = super().visit_column(column, add_to_result_map, False, *args, **kw)
        return f"{self._seen(owner)}.{name}"

    def visit_ducklake_at(self, element: Any, asfrom: bool = False, **kw: Any) -> str:
        """Leave statements that read other snapshots alone."""
        del element, asfrom, kw
        raise NotStaged("a statement that reads another snapshot is written at once")

    def _update(self, state: Any, **kw: Any) -> list[tuple[str, Step]]:
        refuse_others(state)
        return super()._update(state, **kw)

    def _delete(self, state: Any, *, returns: bool, **kw: Any) -> list[tuple[str, Step]]:
        refuse_others(state)
        return super()._delete(state, returns=returns, **kw)

    def compute_staged(self, target: Any, stage: Any) -> list[PlannedStep]:
        """Fill the computed columns of the rows that are staged."""
        steps = super().compute_staged(target, stage)
        return [
            replace(each, statement=_Text(cast("Any", each.statement).name)) for each in steps
        ]

    def compute_again(self, target: Any, when: Sequence[str]) -> list[PlannedStep]:
        """Log the rows whose computed columns are not what they should be."""
        values = self._computed(target)
        if not values:
            return []
        self._assigned |= {each.name for each in target.c if each.computed is not None}
        view = self.preparer.format_table(target)
        given = ", ".join(f"{text} AS {name}" for name, text in values.items())
        wrong = " OR ".join(
            f"{name} IS DISTINCT FROM ({text})" for name, text in values.items()
        )
        stage, step = self._next(), Step(when=tuple(when))
        made = f"CREATE OR REPLACE TEMP TABLE {stage} AS SELECT * REPLACE ({given}) FROM {view}"
        logged = versions_logged(self._log, stage, step, gone=False)
        texts = [(f"{made} WHERE {wrong}", step), *logged]
        return [PlannedStep(_Text(text), own) for text, own in texts]

    def visit_scope_text(self, element: _Text, **kw: Any) -> str:
        """Give a step that is written already."""
        del kw
        return str(element.text)

    def planned(self, steps: Iterable[PlannedStep]) -> list[tuple[str, Step]]:
        """Compile the steps of a plan: those that would write are looked at, then logged."""
        found: list[tuple[str, Step]] = []
        late: list[tuple[str, Step]] = []
        for each in steps:
            statement = each.statement
            if isinstance(statement, _Write) and is_of_lake(statement.table):
                stage = self._next()
                found += self._looked_at(stage, statement, each.step)
                late += self._written(stage, statement, each.step)
                continue
            found, late = [*found, *late, *super().planned([each])], []
        return [*found, *late]

    def _next(self) -> str:
        """Name the stage of the versions that a step logs."""
        self._writes_so_far += 1
        return str(self.preparer.quote(next_name(self._writes_so_far)))

    def _looked_at(
        self, stage: str, statement: _Write, step: Step
    ) -> Iterator[tuple[str, Step]]:
        """Stage what rows that are there become, and refuse NULL where there may be none."""
        run = Step(when=step.when, unless=step.unless)
        if isinstance(statement, AppendRows):
            rows = statement.rows.subquery("rows")
            yield from self._no_nulls(dict(zip(statement.columns, rows.c, strict=True)), run)
            return
        yield f"CREATE OR REPLACE TEMP TABLE {stage} AS {self._rows(statement)}", run
        if isinstance(statement, ChangeRows):
            key = primary_key_of(self._target)
            names = dict.fromkeys((*(key.names if key else ()), *statement.values))
            staged = table(next_name(self._writes_so_far), *map(_bare, names))
            values = {name: staged.c[name] for name in names}
            yield from self._no_nulls(values, run, given=statement.values)

    def _no_nulls(
        self, values: Mapping[str, Any], run: Step, given: Collection[str] = ()
    ) -> Iterator[tuple[str, Step]]:
        """Refuse NULL in columns that are NOT NULL, of those ``given`` or else all."""
        target, key = self._target, primary_key_of(self._target)
        checked = [
            each.name
            for each in target.c
            if not each.nullable and each.name in (given or values)
        ]
        if not given:
            # The key of a new row was looked at before.
            checked = [each for each in checked if key is None or each not in key.names]
        if not checked:
            return
        shown = [each for each in (key.names if key else values) if each in values]
        nulls = [values[each].is_(None) for each in checked]
        named = [(null, constant(str(number))) for number, null in enumerate(nulls)]
        rows = select(case(*named), *(values[each] for each in shown)).where(or_(*nulls))
        error = partial(_null_value, target.name, tuple(checked), tuple(shown))
        planned = check(rows, error)
        step = replace(planned.step, when=run.when, unless=run.unless)
        yield from super().planned([replace(planned, step=step)])

    def _rows(self, statement: ChangeRows | RemoveRows) -> str:
        """SELECT what the rows become: of rows that are there, with their identity."""
        view = self.preparer.format_table(statement.table)
        self._hides = True
        source = getattr(statement, "source", None)
        froms, within = view, [statement.table]
        if source is not None:
            with self.only_within():
                froms = f"{view}, {self.process(source, asfrom=True)}"
            within.append(source)
        with self.only_within(*within):
            where = self.process(statement.where)
            if isinstance(statement, RemoveRows):
                once = "" if source is None else f"DISTINCT ON ({view}.rowid) "
                return f"SELECT {once}{view}.* FROM {froms} WHERE {where}"
            self._assigned |= statement.values.keys()
            values = ", ".join(
                f"{self.process(value)} AS {self.preparer.quote(name)}"
                for name, value in statement.values.items()
            )
        return f"SELECT {view}.* REPLACE ({values}) FROM {froms} WHERE {where}"

    def _written(self, stage: str, statement: _Write, step: Step) -> list[tuple[str, Step]]:
        """Log what is staged, and count it as the step counts what it writes."""
        if isinstance(statement, AppendRows):
            if not statement.columns:
                raise NotStaged("a row of nothing but the engine's defaults is written at once")
            rows = self.expression(statement.rows)
            return [appended(self._log, rows, statement.columns, step)]
        gone = isinstance(statement, RemoveRows)
        logged = versions_logged(self._log, stage, step, gone=gone)
        return [*counted(stage, step), *logged]

    @property
    def _log(self) -> str:
        return identifier(log_name(*self._overlay.table_name(self._target)))

    def finish_script(
        self,
        steps: Sequence[tuple[str, Step]],
        *,
        rowcount: Sequence[str],
        guarded: bool = True,
    ) -> str:
        """Join the steps; rows for a table without a key need nobody's consent."""
        appends = bool(self.isinsert) and not keys_of(self._target) and not self._hides
        return super().finish_script(steps, rowcount=rowcount, guarded=guarded and not appends)


class _Text(ColumnElement[Any]):
    """A step that is written already."""

    __visit_name__ = "scope_text"
    inherit_cache = False

    def __init__(self, text: str) -> None:
        self.text = text


def staged_form(compiled: DuckLakeCompiler) -> StagingCompiler | None:
    """Compile a statement once more, for a scope; None if none can keep it aside.

    What is compiled stays with the statement in SQLAlchemy's cache.
    """
    if compiled.staged_form is None:
        compiled.staged_form = (_compiled(compiled),)
    found: StagingCompiler | None = compiled.staged_form[0]
    return found


def _compiled(compiled: DuckLakeCompiler) -> StagingCompiler | None:
    if not isinstance(compiled.statement, Insert | Update | Delete):
        return None
    try:
        return compiled.compiled_as(StagingCompiler, compiled.statement)
    except exc.CompileError:
        # Without a scope it was compiled, so it runs without one.
        return None


def _bare(name: str) -> ColumnClause[Any]:
    return ColumnClause(name)


def _null_value(
    table_name: str,
    checked: tuple[str, ...],
    columns: tuple[str, ...],
    rows: Sequence[tuple[Any, ...]],
) -> Exception:
    column = checked[int(rows[0][0])]
    return NullValue(table_name, column, columns, tuple(row[1:] for row in rows))
