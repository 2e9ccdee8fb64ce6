"""SELECT as DuckDB speaks it, and the grammar of the steps of a script.

Data changes have files of their own: ``inserts.py``, ``changes.py`` and ``returning.py``.
"""

# What SQLAlchemy gives a compiler are private parts of its statements.
# ruff: noqa: SLF001, ARG002

from __future__ import annotations

from typing import Any, cast

from sqlalchemy import exc
from sqlalchemy import types as sqltypes
from sqlalchemy.sql.dml import UpdateBase
from sqlalchemy.sql.elements import BinaryExpression, ColumnElement
from sqlalchemy.sql.selectable import CTE, GenerativeSelect, Select
from sqlalchemy.sql.type_api import TypeEngine

from sqlalchemy_ducklake.dialect.changes import ChangeCompiler
from sqlalchemy_ducklake.dialect.forms import FormsCompiler
from sqlalchemy_ducklake.dialect.history import HistoryCompiler
from sqlalchemy_ducklake.dialect.inserts import InsertCompiler
from sqlalchemy_ducklake.dialect.merges import MergeCompiler
from sqlalchemy_ducklake.merge import steps

# How a parameter of a generic type is cast, so that the engine need not guess.  Integers
# as the widest, since a comparison with 3000000000 is no error; decimals not at all,
# because a cast would round what is only compared.
_CASTS: tuple[tuple[type[TypeEngine[Any]], str], ...] = (
    (sqltypes.Integer, "BIGINT"),
    (sqltypes.Boolean, "BOOLEAN"),
    (sqltypes.Enum, "VARCHAR"),
    (sqltypes.String, "VARCHAR"),
    (sqltypes.Date, "DATE"),
    (sqltypes.LargeBinary, "BLOB"),
)


class DuckLakeCompiler(
    InsertCompiler, ChangeCompiler, MergeCompiler, HistoryCompiler, FormsCompiler
):
    """Compiles statements for a lake."""

    def bind_cast(self, bind_type: TypeEngine[Any]) -> str | None:
        """Name the type that a parameter is cast to, None for no cast."""
        implementation = bind_type.dialect_impl(self.dialect)
        if not _is_wide_integer(bind_type):
            for kind, text in _CASTS:
                if isinstance(implementation, kind):
                    return text
        return None

    def render_bind_cast(
        self, type_: TypeEngine[Any], dbapi_type: TypeEngine[Any], sqltext: str
    ) -> str:
        """CAST(<parameter> AS <type>)."""
        return f"CAST({sqltext} AS {self.dialect.type_compiler_instance.process(dbapi_type)})"

    def limit_clause(self, select: GenerativeSelect, **kw: Any) -> str:
        """LIMIT <n> OFFSET <n>; the engine takes each alone."""
        text = "" if select._order_by_clauses else self.qualify_clause(select, **kw)
        if select._limit_clause is not None:
            text += f"\n LIMIT {self.process(select._limit_clause, **kw)}"
        if select._offset_clause is not None:
            text += f"\n OFFSET {self.process(select._offset_clause, **kw)}"
        return text

    def fetch_clause(
        self,
        select: GenerativeSelect,
        fetch_clause: ColumnElement[Any] | None = None,
        require_offset: bool = False,
        use_literal_execute_for_simple_int: bool = False,
        **kw: Any,
    ) -> str:
        """FETCH FIRST <n> ROWS ONLY, which the engine calls LIMIT."""
        if _qualifies(select):
            return ""
        count: Any = select._fetch_clause if fetch_clause is None else fetch_clause
        text = "" if select._order_by_clauses else self.qualify_clause(select, **kw)
        text += f"\n LIMIT {self.process(count, **kw)}"
        if select._offset_clause is not None:
            text += f"\n OFFSET {self.process(select._offset_clause, **kw)}"
        return text

    def order_by_clause(self, select: GenerativeSelect, **kw: Any) -> str:
        """ORDER BY, behind the QUALIFY that stands for a FETCH with PERCENT or TIES."""
        base: Any = super()
        order = str(base.order_by_clause(select, **kw))
        limit = self._limit(select, order, **kw) if _qualifies(select) else ""
        return f"{self.qualify_clause(select, limit, **kw)}{order}"

    def _limit(self, select: GenerativeSelect, order: str, **kw: Any) -> str:
        """<condition for the rows that a FETCH with PERCENT or WITH TIES leaves>.

        The engine has no WITH TIES, and a PERCENT of constants only, which it rounds down.
        """
        if not isinstance(select, Select) or select._distinct:
            raise exc.CompileError(
                "FETCH with PERCENT or WITH TIES cannot limit a DISTINCT or a UNION; "
                "make that a subquery and select from it"
            )
        options: Any = select._fetch_clause_options
        count = self.process(cast("Any", select._fetch_clause), **kw)
        if options["percent"]:
            count = f"ceil(count(*) OVER () * {count} / 100.0)"
        offset = "0"
        if select._offset_clause is not None:
            offset = self.process(select._offset_clause, **kw)
        place = f"row_number() OVER ({order.strip()})"
        last = f"rank() OVER ({order.strip()})" if options["with_ties"] else place
        return f"{place} > {offset} AND {last} <= {offset} + {count}"

    def visit_bitwise_xor_op_binary(
        self,
        binary: BinaryExpression[Any],
        operator: Any,
        **kw: Any,
    ) -> str:
        """xor(<left>, <right>): the engine's ``^`` is a power."""
        return f"xor({self.process(binary.left, **kw)}, {self.process(binary.right, **kw)})"

    def get_select_precolumns(self, select: Select[Any], **kw: Any) -> str:
        """SELECT DISTINCT [ON (<columns>)]."""
        if select._distinct_on:
            columns = ", ".join(self.process(each, **kw) for each in select._distinct_on)
            return f"DISTINCT ON ({columns}) "
        return "DISTINCT " if select._distinct else ""

    def visit_postgresql_distinct_on(self, element: Any, **kw: Any) -> str | None:
        """ON (<columns>) behind DISTINCT: ``distinct_on()`` of SQLAlchemy 2.1."""
        columns = ", ".join(self.process(each, **kw) for each in element._distinct_on)
        return f"ON ({columns})" if columns else None

    def visit_cte(self, cte: CTE, *args: Any, **kw: Any) -> str | None:
        """WITH <name> AS (<query>); a data change cannot stand there."""
        if isinstance(cte.element, UpdateBase):
            raise exc.CompileError(
                f"DuckDB takes no {type(cte.element).__name__.upper()} inside WITH "
                f"({cte.name!r}); execute it by itself and use what it returns"
            )
        return super().visit_cte(cte, *args, **kw)

    def for_update_clause(self, select: GenerativeSelect, **kw: Any) -> str:
        """Give nothing: every transaction reads one snapshot, and there are no row locks."""
        return ""

    def visit_empty_set_expr(self, element_types: Any, **kw: Any) -> str:
        """SELECT a row for an empty IN, and take it away again."""
        columns = ", ".join("1" for _ in element_types or [None])
        return f"SELECT {columns} WHERE 1!=1"

    def visit_regexp_match_op_binary(
        self,
        binary: BinaryExpression[Any],
        operator: Any,
        **kw: Any,
    ) -> str:
        """regexp_matches(<text>, <pattern>[, <flags>])."""
        return self._regexp("regexp_matches", binary, **kw)

    def visit_not_regexp_match_op_binary(
        self,
        binary: BinaryExpression[Any],
        operator: Any,
        **kw: Any,
    ) -> str:
        """NOT regexp_matches(<text>, <pattern>[, <flags>])."""
        return f"NOT {self._regexp('regexp_matches', binary, **kw)}"

    def visit_regexp_replace_op_binary(
        self,
        binary: BinaryExpression[Any],
        operator: Any,
        **kw: Any,
    ) -> str:
        """regexp_replace(<text>, <pattern>, <replacement>[, <flags>])."""
        return self._regexp("regexp_replace", binary, **kw)

    def _regexp(self, function: str, binary: BinaryExpression[Any], **kw: Any) -> str:
        arguments = [self.process(binary.left, **kw), self.process(binary.right, **kw)]
        flags = binary.modifiers["flags"]
        if flags is not None:
            arguments.append(self.render_literal_value(flags, sqltypes.STRINGTYPE))
        return f"{function}({', '.join(arguments)})"

    def visit_getitem_binary(
        self, binary: BinaryExpression[Any], operator: Any, **kw: Any
    ) -> str:
        """<list>[<place>] or <list>[<first>:<last>], counted from 1, as in PostgreSQL."""
        return f"{self.process(binary.left, **kw)}[{self.process(binary.right, **kw)}]"

    def visit_slice(self, element: Any, **kw: Any) -> str:
        """<first>:<last>, both included."""
        return f"{self.process(element.start, **kw)}:{self.process(element.stop, **kw)}"

    def visit_json_getitem_op_binary(
        self,
        binary: BinaryExpression[Any],
        operator: Any,
        **kw: Any,
    ) -> str:
        """json_extract(<document>, <path>), as the type that is asked for."""
        return self._json_item(binary, **kw)

    def visit_json_path_getitem_op_binary(
        self,
        binary: BinaryExpression[Any],
        operator: Any,
        **kw: Any,
    ) -> str:
        """json_extract(<document>, <path>), as the type that is asked for."""
        return self._json_item(binary, **kw)

    def _json_item(self, binary: BinaryExpression[Any], **kw: Any) -> str:
        document = self.process(binary.left, **kw)
        path = self.process(binary.right, **kw)
        if isinstance(binary.type, sqltypes.JSON):
            return f"json_extract({document}, {path})"
        kind = self.dialect.type_compiler_instance.process(binary.type)
        return f"CAST(json_extract_string({document}, {path}) AS {kind})"

    def visit_now_func(self, fn: Any, **kw: Any) -> str:
        """Give the time of the transaction, without a zone as SQLAlchemy's type says."""
        return "CAST(now() AS TIMESTAMP)"

    def visit_sequence(self, sequence: Any, **kw: Any) -> str:
        """Refuse: DuckLake has no sequences."""
        raise NotImplementedError(f"DuckLake has no sequences, so {sequence.name!r} is none")

    def update_from_clause(
        self, update_stmt: Any, from_table: Any, extra_froms: Any, from_hints: Any, **kw: Any
    ) -> str:
        """Write FROM <tables> of an UPDATE."""
        return "FROM " + self.tables(extra_froms, from_hints, **kw)

    def delete_extra_from_clause(
        self, delete_stmt: Any, from_table: Any, extra_froms: Any, from_hints: Any, **kw: Any
    ) -> str:
        """Write USING <tables> of a DELETE."""
        return "USING " + self.tables(extra_froms, from_hints, **kw)

    def visit_ducklake_make_stage(self, step: steps.MakeStage, **kw: Any) -> str:
        """CREATE OR REPLACE TEMP TABLE <stage> AS <rows>."""
        rows = self.process(step.rows, **kw)
        rows = self.common_table_expressions() + rows
        return (
            f"CREATE OR REPLACE TEMP TABLE {self.preparer.format_table(step.stage)} AS {rows}"
        )

    def visit_ducklake_drop_stage(self, step: steps.DropStage, **kw: Any) -> str:
        """DROP TABLE IF EXISTS <stage>."""
        return f"DROP TABLE IF EXISTS {self.preparer.format_table(step.stage)}"

    def visit_ducklake_set_variable(self, step: steps.SetVariable, **kw: Any) -> str:
        """SET VARIABLE <name> = (<query>)."""
        return f"SET VARIABLE {step.name} = ({self.process(step.value, **kw)})"

    def visit_ducklake_append_rows(self, step: steps.AppendRows, **kw: Any) -> str:
        """INSERT INTO <table> (<columns>) <rows>."""
        columns = ", ".join(map(self.preparer.quote, step.columns))
        table = self.preparer.format_table(step.table)
        return f"INSERT INTO {table} ({columns}) {self.process(step.rows, **kw)}"

    def visit_ducklake_change_rows(self, step: steps.ChangeRows, **kw: Any) -> str:
        """UPDATE <table> SET <values> FROM <source> WHERE <where>."""
        source = self.process(step.source, asfrom=True, **kw)
        with self.only_within(step.table, step.source):
            values = ", ".join(
                f"{self.preparer.quote(name)} = {self.process(value, **kw)}"
                for name, value in step.values.items()
            )
            where = self.process(step.where, **kw)
        table = self.preparer.format_table(step.table)
        return f"UPDATE {table} SET {values} FROM {source} WHERE {where}"

    def visit_ducklake_remove_rows(self, step: steps.RemoveRows, **kw: Any) -> str:
        """DELETE FROM <table> [USING <source>] WHERE <where>."""
        table, within, using = self.preparer.format_table(step.table), [step.table], ""
        if step.source is not None:
            within.append(step.source)
            using = f" USING {self.process(step.source, asfrom=True, **kw)}"
        with self.only_within(*within):
            return f"DELETE FROM {table}{using} WHERE {self.process(step.where, **kw)}"


def _qualifies(select: GenerativeSelect) -> bool:
    options: Any = select._fetch_clause_options
    return select._fetch_clause is not None and (options["percent"] or options["with_ties"])


def _is_wide_integer(bind_type: TypeEngine[Any]) -> bool:
    return getattr(bind_type, "__visit_name__", "") in {"HUGEINT", "UHUGEINT", "UBIGINT"}
