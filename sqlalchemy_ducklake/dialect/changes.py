"""UPDATE and DELETE with RETURNING, from many parameter sets, or of keys."""

# What SQLAlchemy gives a compiler are private parts of its statements.
# ruff: noqa: SLF001

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from enum import Enum
from typing import Any

from sqlalchemy import exc
from sqlalchemy.sql import crud
from sqlalchemy.sql.elements import BindParameter, ClauseElement, ColumnClause
from sqlalchemy.sql.schema import Table
from sqlalchemy.sql.selectable import Select
from sqlalchemy.sql.visitors import iterate

from sqlalchemy_ducklake.dialect.returning import Copied
from sqlalchemy_ducklake.dialect.scripts import ScriptCompiler
from sqlalchemy_ducklake.dialect.shell import TextStep
from sqlalchemy_ducklake.driver.script import ENFORCE_ALL, Role, Step
from sqlalchemy_ducklake.merge import rows, staging
from sqlalchemy_ducklake.merge.checks import Key, keys_of, primary_key_of
from sqlalchemy_ducklake.merge.images import with_computed
from sqlalchemy_ducklake.merge.steps import PlannedStep

_DELETED = Step(Role.COUNT, "deleted")
_MATCHED = Step(Role.COUNT, rows.MATCHED)


class Order(Enum):
    """How parameter sets may act: as the statement and what it reads allow."""

    ANY = "all at once, the last one of a row wins"
    WAVES = "all at once, but each row in the order of its parameter sets"
    SEQUENCE = "one after another"


class ChangeCompiler(ScriptCompiler):
    """Compiles UPDATE and DELETE."""

    def visit_update(self, update_stmt: Any, visiting_cte: Any = None, **kw: Any) -> str:
        """UPDATE, in steps if keys change, rows are returned or there are many sets."""
        if visiting_cte is not None or self.stack:
            return super().visit_update(update_stmt, visiting_cte, **kw)
        state = update_stmt._compile_state_factory(update_stmt, self, **kw)
        statement = state.statement
        names = self._assigned_names(state)
        moved = _moved_keys(statement.table, names)
        self.writes(statement.table, "update", keeps_key=not any(k.primary for k in moved))
        in_steps = bool(self.for_executemany or self.returns(statement) or moved)
        constraints = self.constraints_of(statement.table)
        in_steps = in_steps or self.always_in_steps or constraints.concerns_files(names)
        steps: list[TextStep] = []
        self.isupdate = True
        if in_steps or constraints.concerns(names):
            with self.data_change(state, statement.table, *state._extra_froms):
                steps = self._update(state, **kw)
        if not in_steps:
            self.compile_again()
            text = super().visit_update(update_stmt, **kw)
            self._stored_binds = self._assigned_binds(state)
            again = self.compute_again(statement.table, [rows.MATCHED])
            steps = [*_or_plain(steps, text, _MATCHED), *self.planned(again)]
        return self.finish_script(steps, rowcount=(rows.MATCHED,))

    def visit_delete(self, delete_stmt: Any, visiting_cte: Any = None, **kw: Any) -> str:
        """DELETE, in steps if rows are returned or there are many parameter sets."""
        if visiting_cte is not None or self.stack:
            return str(super().visit_delete(delete_stmt, visiting_cte, **kw))
        state = delete_stmt._compile_state_factory(delete_stmt, self, **kw)
        statement, text = state.statement, ""
        self.writes(statement.table, "delete", keeps_key=True)
        returns, steps = self.returns(statement), []
        self.isdelete = True
        with self.data_change(state, statement.table, *state._extra_froms):
            references = self.constraints_of(statement.table).references
            if self.always_in_steps and self.for_executemany:
                self.sequential = self._asks_itself(statement)
            if returns or references or self.always_in_steps:
                steps = self._delete(state, returns=returns, **kw)
            if self.for_executemany and not (returns or self.always_in_steps):
                text = self._delete_batch(state, **kw)
        if not (returns or self.always_in_steps):
            text = text or str(super().visit_delete(delete_stmt, **kw))
            steps = _or_plain(steps, text, _DELETED)
        return self.finish_script(steps, rowcount=("deleted",))

    def _assigned_names(self, state: Any) -> frozenset[str]:
        """Give the names of the columns that an UPDATE may assign, or compute again."""
        target = state.statement.table
        keys = {getattr(key, "key", key) for key in state._dict_parameters or ()}
        keys.update(self.column_keys or ())
        return with_computed(target, (each.name for each in target.c if each.key in keys))

    def _assigned_binds(self, state: Any) -> dict[str, Any]:
        """Give the parameters that a plain UPDATE stores, by name: their columns."""
        target = state.statement.table
        found = {key: target.c[key] for key in self.column_keys or () if key in target.c}
        for assigned, value in (state._dict_parameters or {}).items():
            column = target.c.get(getattr(assigned, "key", assigned))
            if column is not None and isinstance(value, BindParameter):
                # SQLAlchemy names a value after its column, and leaves a bindparam()'s name.
                named = getattr(self.binds.get(column.key), "key", None)
                found[column.key if named == value.key else value.key] = column
        return {name: column for name, column in found.items() if name in self.binds}

    def _update(self, state: Any, **kw: Any) -> list[TextStep]:
        statement = state.statement
        target = statement.table
        params = crud._get_crud_params(self, statement, state, True, **kw).single_params
        self.store_binds(params)
        assigned = [column for column, *_ in params]
        names = {column.name for column in assigned}
        order = self._order(state, names)
        self.sequential = order is Order.SEQUENCE
        plan = rows.RowsPlan(
            target,
            _located(target, names),
            assigned,
            _moved_keys(target, with_computed(target, names)),
            self.constraints_of(target),
        )
        if order is Order.WAVES:
            return self._update_in_waves(state, plan, **kw)
        returned, others = self._returned_rows(statement, plan)
        new = [
            f"{text} AS {self.preparer.quote(rows.new_name(column.name))}"
            for column, _, text, _ in params
        ]
        return [
            *self._stage(state, plan, [*new, *others], **kw),
            *self.planned([*self._count(state, plan), *plan.checks(), plan.update()]),
            *self.planned(self.compute_again(target, [rows.MATCHED])),
            *returned,
            *self.planned([staging.drop_stage(plan.stage)]),
        ]

    def _update_in_waves(self, state: Any, plan: rows.RowsPlan, **kw: Any) -> list[TextStep]:
        """Apply the k-th parameter set of every row in wave k, to a copy of the rows."""
        pairs = rows.RowsPlan(plan.target, plan.located)
        read: Any = [
            each for each in plan.target.c if _reads(_values(state), plan.target, {each.name})
        ]
        plan = replace(plan, name=staging.STATE, read=read)
        copy, now = self.tables([plan.stage], **kw), self.tables([pairs.wave], **kw)
        assignments = ", ".join(self._copied_values(state, plan, copy, **kw))
        place, row = map(self.preparer.quote, (staging.SEQUENCE, staging.ROW_ID))
        source = f"{now} JOIN {self.batch_name} ON {self.batch_name}.{place} = {now}.{place}"
        change = (
            f"UPDATE {copy} SET {assignments} FROM {source} WHERE {copy}.{row} = {now}.{row}"
        )
        first, *rest = pairs.next_wave()
        stages = (pairs.wave, pairs.stage, plan.stage)
        return [
            *self._stage(state, pairs, [], **kw),
            *self.planned([pairs.count(), plan.copied(pairs), first]),
            (change, first.step),
            *self.planned([*rest, *plan.checks(), plan.update()]),
            *self.planned(self.compute_again(plan.target, [rows.MATCHED])),
            *self.planned(map(staging.drop_stage, stages)),
        ]

    def _copied_values(
        self, state: Any, plan: rows.RowsPlan, copy: str, **kw: Any
    ) -> Iterator[str]:
        """Write the assignments as of a copy of the rows."""
        new = {each.name: rows.new_name(each.name) for each in plan.assigned}
        self.compile_again()
        with self.reading(Copied(plan.target, copy, new)):
            params = crud._get_crud_params(self, state.statement, state, True, **kw)
        for column, _, text, _ in params.single_params:
            yield f"{self.preparer.quote(new[column.name])} = {text}"

    def _order(self, state: Any, assigned: set[str]) -> Order:
        """Tell what it takes to make many parameter sets act one after another."""
        if not self.for_executemany:
            return Order.ANY
        statement = state.statement
        target = statement.table
        criteria = statement._where_criteria
        if _reads(criteria, target, assigned) or any(
            _asks(each, target) for each in (*criteria, *_values(state))
        ):
            order = Order.SEQUENCE
        elif not _reads(_values(state), target, assigned):
            return Order.ANY
        elif state._extra_froms or any(set(key.names) & assigned for key in keys_of(target)):
            order = Order.SEQUENCE
        else:
            order = Order.WAVES
        if self.implicit_returning or statement._returning:
            raise exc.CompileError(
                f"UPDATE of {target} reads what it assigns, so many parameter sets act one "
                "after another and cannot return rows together; execute them one by one"
            )
        return order

    def _count(self, state: Any, plan: rows.RowsPlan) -> list[PlannedStep]:
        """Count pairs of parameter set and row, or rows where other tables are joined."""
        if self.for_executemany:
            return [plan.count(), plan.keep_last(rows.MATCHED)]
        return [plan.keep_last(), plan.count()] if state._extra_froms else [plan.count()]

    def _delete(self, state: Any, *, returns: bool, **kw: Any) -> list[TextStep]:
        """Stage the rows that go: whole, if they are returned."""
        target = state.statement.table
        crud._get_crud_params(self, state.statement, state, True, **kw)
        plan = rows.RowsPlan(
            target,
            _located(target, set()),
            constraints=self.constraints_of(target),
            deletes=True,
        )
        table = self.tables([target], **kw)
        columns = [f"{table}.{self.preparer.format_column(each)}" for each in target.c]
        returned, others = self._returned_rows(state.statement, plan, gone=True)
        values = [*columns, *others] if returns else []
        return [
            *self._stage(state, plan, values, bare=returns, **kw),
            *self.planned([plan.keep_last(), plan.count(), *plan.checks(), plan.delete()]),
            *returned,
            *self.planned([staging.drop_stage(plan.stage)]),
        ]

    def _stage(
        self,
        state: Any,
        plan: rows.RowsPlan,
        values: Sequence[str],
        *,
        bare: bool = False,
        **kw: Any,
    ) -> list[tuple[str, Step]]:
        """CREATE OR REPLACE TEMP TABLE <stage> AS SELECT <rows> FROM <tables> WHERE <where>."""
        quote = self.preparer.quote
        target = self.tables([plan.target], **kw)
        place = "row_number() OVER ()"
        if self.for_executemany:
            place = f"{self.batch_name}.{quote(staging.SEQUENCE)}"
        kept = [] if bare else [f"{target}.{quote(each.name)}" for each in plan.staged]
        columns = [
            f"{target}.rowid AS {quote(staging.ROW_ID)}",
            f"{place} AS {quote(staging.SEQUENCE)}",
            *kept,
            *values,
        ]
        source = self._from(state, **kw)
        where = self._where(state.statement, **kw)
        with_ = self.common_table_expressions()
        stage = self.preparer.format_table(plan.stage)
        made = (
            f"CREATE OR REPLACE TEMP TABLE {stage} AS {with_}SELECT {', '.join(columns)} "
            f"FROM {source}{where}"
        )
        return self.stage_found(stage, made)

    def stage_found(self, stage: str, made: str) -> list[tuple[str, Step]]:
        """Give the steps that stage the rows which a statement finds."""
        del stage
        return [(made, Step())]

    def _from(self, state: Any, **kw: Any) -> str:
        target = self.tables([state.statement.table], **kw)
        return ", ".join([target, *self._other_sources(state, **kw)])

    def _other_sources(self, state: Any, **kw: Any) -> list[str]:
        sources = [self.batch_name] if self.for_executemany else []
        if state._extra_froms:
            sources.append(self.tables(state._extra_froms, **kw))
        return sources

    def _where(self, statement: Any, **kw: Any) -> str:
        criteria = statement._where_criteria
        if not criteria:
            return ""
        return f" WHERE {self._generate_delimited_and_list(criteria, **kw)}"

    def _delete_batch(self, state: Any, **kw: Any) -> str:
        """DELETE the rows that any parameter set speaks of, each once."""
        crud._get_crud_params(self, state.statement, state, True, **kw)
        self.sequential = self._asks_itself(state.statement)
        sources = ", ".join(self._other_sources(state, **kw))
        where = self._where(state.statement, **kw)
        table = self.tables([state.statement.table], **kw)
        with_ = self.common_table_expressions()
        if not sources:
            return f"{with_}DELETE FROM {table}{where}"
        return f"{with_}DELETE FROM {table} WHERE EXISTS (SELECT 1 FROM {sources}{where})"

    @staticmethod
    def _asks_itself(statement: Any) -> bool:
        """Tell whether what a DELETE deletes depends on what it deleted before."""
        return any(_asks(each, statement.table) for each in statement._where_criteria)

    def _returned_rows(
        self, statement: Any, plan: rows.RowsPlan, *, gone: bool = False
    ) -> tuple[list[TextStep], list[str]]:
        """SELECT the rows after an UPDATE from the table, after a DELETE from the stage."""
        if not (self.implicit_returning or statement._returning):
            return [], []
        stage = self.preparer.format_table(plan.stage)
        target = self.preparer.format_table(statement.table)
        columns, returned = self.returned_columns(statement, stage if gone else target)
        matches = self.expression(plan.matches(), statement.table, plan.stage)
        source = stage if gone else f"{target} JOIN {stage} ON {matches}"
        place = f"{stage}.{self.preparer.quote(staging.SEQUENCE)}"
        if self.batch_name in columns:
            sequence = self.preparer.quote(staging.SEQUENCE)
            source += f" JOIN {self.batch_name} ON {self.batch_name}.{sequence} = {place}"
        text = f"SELECT {columns} FROM {source} ORDER BY {place}"
        others = [
            f"{other} AS {self.preparer.quote(returned.stage(other))}"
            for other in returned.others
        ]
        return [(text, Step(Role.ROWS))], others


def _or_plain(steps: list[TextStep], text: str, step: Step) -> list[TextStep]:
    """Run the steps where everything is enforced, and else the one statement.

    What is checked and what is stored then is evaluated once.
    """
    if not steps:
        return [(text, step)]
    checked = [(each, replace(own, when=own.when or (ENFORCE_ALL,))) for each, own in steps]
    return [*checked, (text, replace(step, unless=ENFORCE_ALL))]


def _moved_keys(target: Any, assigned: Collection[str]) -> list[Key]:
    """Give the keys that have a column among the assigned ones."""
    return [key for key in keys_of(target) if not set(key.names).isdisjoint(assigned)]


def _located(target: Any, assigned: set[str]) -> list[Any]:
    """Give the key by which rows are found again, if the statement leaves it alone."""
    key = primary_key_of(target) if isinstance(target, Table) else None
    if key is None or any(column.name in assigned for column in key.columns):
        return []
    return list(key.columns)


def _values(state: Any) -> list[Any]:
    return [each for each in (state._dict_parameters or {}).values() if _is_expression(each)]


def _is_expression(value: Any) -> bool:
    return isinstance(value, ClauseElement)


def _reads(expressions: Iterable[Any], target: Any, names: set[str]) -> bool:
    """Tell whether any of the expressions reads one of these columns of the table."""
    elements: Iterator[Any] = (each for root in expressions for each in iterate(root))
    return any(
        element.table == target and element.name in names
        for element in elements
        if isinstance(element, ColumnClause) and element.table is not None
    )


def _asks(expression: Any, target: Any) -> bool:
    """Tell whether an expression has a subquery that reads the table."""
    return any(
        target in element.get_final_froms()
        for element in iterate(expression)
        if isinstance(element, Select)
    )
