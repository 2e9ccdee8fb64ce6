"""INSERT into tables with keys, from many parameter sets, with RETURNING or ON CONFLICT."""

# What SQLAlchemy gives a compiler are private parts of its statements.
# ruff: noqa: SLF001

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Column, FetchedValue, exc, func, select
from sqlalchemy import types as sqltypes
from sqlalchemy.sql import crud
from sqlalchemy.sql.elements import BindParameter, ColumnElement
from sqlalchemy.sql.schema import Table
from sqlalchemy.sql.selectable import FromClause, TableClause

from sqlalchemy_ducklake.constructs.insert import OnConflict
from sqlalchemy_ducklake.constructs.source import Batch
from sqlalchemy_ducklake.dialect.computed import computed_columns
from sqlalchemy_ducklake.dialect.conflicts import ignores_any_key, parameters_of, upsert_plan
from sqlalchemy_ducklake.dialect.constraints import only_if
from sqlalchemy_ducklake.dialect.scripts import ScriptCompiler
from sqlalchemy_ducklake.dialect.shell import TextStep
from sqlalchemy_ducklake.driver.script import ENFORCE_ALL, ENFORCE_KEYS, Role, Step
from sqlalchemy_ducklake.merge import staging
from sqlalchemy_ducklake.merge.checks import Key, keys_of, primary_key_of
from sqlalchemy_ducklake.merge.constraints import Constraints
from sqlalchemy_ducklake.merge.ignore import IgnorePlan
from sqlalchemy_ducklake.merge.insert import InsertPlan
from sqlalchemy_ducklake.merge.steps import PlannedStep, constant
from sqlalchemy_ducklake.merge.upsert import UpsertPlan

_INSERTED = Step(Role.COUNT, "inserted")


@dataclass(frozen=True, slots=True)
class Given:
    """What an INSERT gives: columns with the text of their values, row by row.

    ``select`` is the text of the query that gives the rows, or None, ``with_`` that of the
    expressions common to it or to the values; ``defaults`` are
    the columns that take a server default, with its text.
    """

    target: FromClause
    columns: Sequence[Any]
    rows: Sequence[Sequence[str]]
    select: str | None
    with_: str
    defaults: Sequence[tuple[Column[Any], str]]
    allocated: Column[Any] | None

    @property
    def stored(self) -> list[Any]:
        """Give the columns that get a value, each once."""
        more = [column for column, _ in self.defaults]
        return list(dict.fromkeys([*self.columns, *more, *self.late]))

    @property
    def late(self) -> list[Column[Any]]:
        """Give the columns whose values are known only once the rows are staged."""
        allocated = [] if self.allocated is None else [self.allocated]
        return [*allocated, *computed_columns(self.target)]


class InsertCompiler(ScriptCompiler):
    """Compiles INSERT."""

    def visit_insert(
        self,
        insert_stmt: Any,
        visited_bindparam: Any = None,
        visiting_cte: Any = None,
        **kw: Any,
    ) -> str:
        """Write INSERT, in steps if there are keys to check or rows to return."""
        if visiting_cte is not None or self.stack:
            return str(super().visit_insert(insert_stmt, visited_bindparam, visiting_cte, **kw))
        # Only now is the statement complete: the ORM adds RETURNING at this point.
        state = insert_stmt._compile_state_factory(insert_stmt, self, **kw)
        self.isinsert = True
        with self.data_change(state, state.statement.table):
            return self._insert(state, **kw)

    def _insert(self, state: Any, **kw: Any) -> str:
        statement = state.statement
        given = self._given(state, **kw)
        keys = keys_of(statement.table)
        returns = bool(self.implicit_returning or statement._returning)
        conflict = statement._post_values_clause
        if statement._prefixes:
            raise exc.CompileError(
                "DuckLake's INSERT takes no prefix; use on_conflict_do_update() or "
                "on_conflict_do_nothing() of sqlalchemy_ducklake.insert()"
            )
        self.writes(statement.table, "insert" if conflict is None else "upsert")
        constraints = self.constraints_of(statement.table)
        one_step = bool(given.columns) or not self.for_executemany
        one_step = one_step and not self.always_in_steps
        if one_step and not (keys or returns or conflict is not None or given.late):
            return self._append_checked(given, constraints)
        binds = self._typed(conflict, statement.table)
        kinds = {name: bind.type for name, bind in binds.items()}
        whole = returns or bool(computed_columns(given.target))
        stage, made = staging.rows_stage(_staged(given, keys, whole=whole), kinds)
        single = not self.for_executemany and given.select is None and len(given.rows) == 1
        plan: InsertPlan | UpsertPlan
        values = (given.target, stage, keys, given.stored, given.allocated, single)
        if conflict is None:
            plan = InsertPlan(*values)
        elif ignores_any_key(conflict, given.target):
            plan = IgnorePlan(*values)
        else:
            plan = upsert_plan(
                conflict, given.target, stage, given.stored, given.allocated, single=single
            )
            plan = replace(plan, whole=bool(self.written_out) or self.always_in_steps)
        computed = self.compute_staged(given.target, stage)
        plan = replace(plan, computed=computed, constraints=constraints)
        filled = [*self.planned([made]), (self._fill(stage, given, binds), Step())]
        return self._in_steps(statement, plan, filled, returns=returns)

    def _in_steps(
        self,
        statement: Any,
        plan: InsertPlan | UpsertPlan,
        filled: Sequence[TextStep],
        *,
        returns: bool,
    ) -> str:
        """Write the script: fill the stage, check, store, return."""
        # RETURNING is compiled before the steps: what it adds to the statement, they need.
        returned = [self._return(statement, plan)] if returns else []
        again = []
        if isinstance(plan, UpsertPlan):
            again = self.compute_again(plan.target, ["updated"])
        steps = [
            *filled,
            *self.planned([*plan.steps(), *again, *self._last_id(plan)]),
            *returned,
            *self.planned([*plan.drops(), staging.drop_stage(plan.stage)]),
        ]
        return self.finish_script(steps, rowcount=("inserted", "updated"))

    def _given(self, state: Any, **kw: Any) -> Given:
        """Let SQLAlchemy work out columns, values and defaults."""
        statement = state.statement
        target = statement.table
        params = crud._get_crud_params(self, statement, state, True, **kw)
        self.store_binds(params.single_params)
        for row in params.all_multi_params:
            self.store_binds(row)
        columns = [each[0] for each in params.single_params]
        self.refuse_computed(target, columns)
        rows = params.all_multi_params or [params.single_params]
        select = None
        if statement.select is not None:
            entry: Any = self.stack[-1]
            if _goes_by_name(statement.select, columns):
                self.source_target = target
            select = self.process(entry["insert_from_select"], insert_into=True, **kw)
        return Given(
            target,
            columns,
            [[text for _, _, text, _ in row] for row in rows],
            select,
            self.common_table_expressions(),
            self.server_defaults(target, columns),
            _allocated(target, columns),
        )

    def _append_checked(self, given: Given, constraints: Constraints) -> str:
        """Insert rows without a key; they are staged only if there is something to check."""
        text = self._append(given.target, given)
        if not (constraints.foreign_keys or constraints.checks):
            return self.finish_script(
                [(text, _INSERTED)], rowcount=("inserted",), guarded=False
            )
        stage, made = staging.rows_stage(given.stored, {})
        plan = InsertPlan(
            given.target, stage, [], given.stored, None, False, constraints=constraints
        )
        stored = frozenset(column.name for column in given.stored)
        level = ENFORCE_KEYS if constraints.concerns_files(stored) else ENFORCE_ALL
        filled = (self._fill(stage, given, {}), Step(when=(level,)))
        steps = [
            *self.planned(only_if(level, [made])),
            filled,
            *self.planned(only_if(level, plan.steps())),
            (text, replace(_INSERTED, unless=level)),
            *self.planned(only_if(level, [staging.drop_stage(stage)])),
        ]
        return self.finish_script(steps, rowcount=("inserted",), guarded=False)

    def _append(self, target: FromClause, given: Given) -> str:
        """Insert the given rows as they are: the engine keeps their order."""
        names = ", ".join(self.preparer.quote(column.name) for column in given.columns)
        table = self.preparer.format_table(target)
        if not given.columns:
            return f"INSERT INTO {table} DEFAULT VALUES"
        into = f"INSERT INTO {table} ({names}) {given.with_}"
        if given.select is not None:
            return into + given.select
        if self.for_executemany:
            return f"{into}SELECT {', '.join(given.rows[0])} FROM {self.batch_name}"
        rows = [f"({', '.join(row)})" for row in given.rows]
        return f"{into}VALUES {', '.join(rows)}"

    def _typed(
        self, conflict: OnConflict | None, target: FromClause
    ) -> dict[str, BindParameter[Any]]:
        """Give the parameters of ON CONFLICT, those assigned as they are with a type."""
        parameters = parameters_of(conflict)
        assignments = {} if conflict is None else conflict.assignments or {}
        assigned = {
            value.key: target.c[name].type
            for name, value in assignments.items()
            if isinstance(value, BindParameter) and name in target.c
        }
        return {
            name: bind._with_binary_element_type(assigned.get(bind.key, sqltypes.String()))
            if bind.type._isnull
            else bind
            for name, bind in parameters.items()
        }

    def _fill(
        self, stage: TableClause, given: Given, binds: Mapping[str, BindParameter[Any]]
    ) -> str:
        """INSERT INTO <stage> (<columns>, <sequence>, <first>) <the given rows>."""
        extra = [self.process(bind, **self.written_out or {}) for bind in binds.values()]
        defaults = [*(text for _, text in given.defaults), *extra]
        columns = [*given.columns, *(column for column, _ in given.defaults)]
        names = [*(column.name for column in columns), *binds]
        quoted = map(self.preparer.quote, (*names, staging.SEQUENCE, staging.FIRST))
        into = f"INSERT INTO {self.preparer.format_table(stage)} ({', '.join(quoted)})"
        if given.select is not None:
            number = "row_number() OVER () - 1"
            rest = ", ".join((*defaults, number, number))
            return f"{into} {given.with_}SELECT given.*, {rest} FROM ({given.select}) AS given"
        if self.for_executemany:
            place = f"{self.batch_name}.{self.preparer.quote(staging.SEQUENCE)}"
            values = ", ".join((*given.rows[0], *defaults, place, place))
            return f"{into} {given.with_}SELECT {values} FROM {self.batch_name}"
        rows = [
            f"({', '.join((*row, *defaults, str(place), str(place)))})"
            for place, row in enumerate(given.rows)
        ]
        return f"{into} {given.with_}VALUES {', '.join(rows)}"

    def _last_id(self, plan: InsertPlan | UpsertPlan) -> list[PlannedStep]:
        """SELECT the number that was counted up, for a table that must not return it."""
        if not self.postfetch_lastrowid or plan.allocated is None or self.for_executemany:
            return []
        number = func.max(plan.stage.c[plan.allocated.name])
        query: Any = select(constant(staging.LAST_ID), number).select_from(plan.stage)
        query = query.having(number.is_not(None))  # every row may have been skipped
        return [PlannedStep(query, Step(Role.COUNTS))]

    def _stored_rows(self, plan: InsertPlan | UpsertPlan) -> ColumnElement[bool] | None:
        """Say which rows to return of those that were stored; None if the staged ones do.

        They do not where the lake alone knows what it stored (``FetchedValue``).
        """
        if isinstance(plan, UpsertPlan):
            return plan.returned()
        fetched = any(_is_fetched(each) for each in plan.target.c)
        key = primary_key_of(plan.target) if fetched else None
        return None if key is None else key.matches(plan.target, plan.stage)

    def _return(self, statement: Any, plan: InsertPlan | UpsertPlan) -> TextStep:
        """SELECT the returned columns in the order of the given rows."""
        stage = self.preparer.format_table(plan.stage)
        name = self.preparer.quote(statement.table.name)
        sequence = self.preparer.quote(staging.SEQUENCE)
        stored = self._stored_rows(plan)
        if stored is None:
            columns, _ = self.returned_columns(statement, name)
            source, order = f"{stage} AS {name}", f"{name}.{sequence}"
        else:
            target = self.preparer.format_table(statement.table)
            columns, _ = self.returned_columns(statement, target)
            found = self.expression(stored, statement.table, plan.stage)
            source = f"{target} JOIN {stage} ON {found}"
            order = f"{stage}.{sequence}"
        if self.batch_name in columns:
            # A parameter inside RETURNING belongs to its own parameter set.
            place = f"{self.batch_name}.{sequence}"
            source += f" JOIN {self.batch_name} ON {place} = {order}"
        return f"SELECT {columns} FROM {source} ORDER BY {order}", Step(Role.ROWS)


def _is_fetched(column: Any) -> bool:
    """Tell whether a column has a default of which nothing more is known."""
    return type(getattr(column, "server_default", None)) is FetchedValue


def _goes_by_name(select: Any, columns: Sequence[Any]) -> bool:
    """Tell whether rows of the program go as they are into columns of the same names."""
    found = list(select.selected_columns)
    return all(
        isinstance(getattr(each, "table", None), Batch) and each.name == column.name
        for each, column in zip(found, columns, strict=False)
    )


def _allocated(target: FromClause, columns: Sequence[Any]) -> Column[Any] | None:
    """Give the integer key that is counted up, if a table has one."""
    if not isinstance(target, Table):
        return None
    column = target._autoincrement_column
    if column is None:
        column = next((each for each in target.c if each.identity is not None), None)
    if column is None or (column.default is not None and column in columns):
        return None
    return column


def _staged(given: Given, keys: Sequence[Key], *, whole: bool) -> list[Any]:
    """Give the columns that the stage needs: all of them if rows are returned."""
    if whole:
        return list(given.target.c)
    key_columns = [column for key in keys for column in key.columns]
    by_name = {column.name: column for column in (*given.stored, *key_columns)}
    unknown = by_name.keys() - {column.name for column in given.target.c}
    if unknown:
        raise exc.CompileError(f"{given.target} has no column {sorted(unknown)}")
    return [column for column in given.target.c if column.name in by_name]
