"""The statements that Alembic has not, or has otherwise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from alembic.ddl.base import (
    AlterTable,
    RenameTable,
    alter_table,
    format_column_name,
    format_table_name,
)
from sqlalchemy import ColumnElement, Select, func, literal, literal_column, select
from sqlalchemy import cast as sql_cast
from sqlalchemy import types as sqltypes
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.schema import DDLElement
from sqlalchemy.sql.compiler import DDLCompiler, SQLCompiler

from sqlalchemy_ducklake.dialect.ddl import partitioned_by, sorted_by
from sqlalchemy_ducklake.dialect.layout import Layout
from sqlalchemy_ducklake.dialect.reflection.typenames import TypeName, sql_type


class StoreComment(AlterTable):
    """Write the comment of a table, or of one of its columns, as it is to be stored.

    The column must be there: a comment on a missing one ends the whole DuckDB instance.
    """

    def __init__(
        self, table_name: str, schema: str | None, column: str | None, comment: str | None
    ) -> None:
        super().__init__(table_name, schema=schema)
        self.column = column
        self.comment = comment


@compiles(StoreComment)
def _store_comment(element: StoreComment, compiler: DDLCompiler, **_: Any) -> str:
    """COMMENT ON {TABLE <table> | COLUMN <table>.<column>} IS <text>."""
    kind, name = "TABLE", format_table_name(compiler, element.table_name, element.schema)
    if element.column is not None:
        kind, name = "COLUMN", f"{name}.{format_column_name(compiler, element.column)}"
    text = "NULL"
    if element.comment is not None:
        text = compiler.sql_compiler.render_literal_value(element.comment, sqltypes.String())
    return f"COMMENT ON {kind} {name} IS {text}"


@compiles(RenameTable, "ducklake")
def _rename_table(element: RenameTable, compiler: DDLCompiler, **_: Any) -> str:
    """ALTER TABLE <table> RENAME TO <name>, which is in the same schema."""
    table = alter_table(compiler, element.table_name, element.schema)
    return f"{table} RENAME TO {compiler.preparer.quote(element.new_table_name)}"


class AlterPartitioning(AlterTable):
    """Partition a table as a layout says, from now on."""

    def __init__(self, table_name: str, schema: str | None, layout: Layout) -> None:
        super().__init__(table_name, schema=schema)
        self.layout = layout


@compiles(AlterPartitioning)
def _alter_partitioning(element: AlterPartitioning, compiler: DDLCompiler, **_: Any) -> str:
    """ALTER TABLE <table> {SET PARTITIONED BY (<keys>) | RESET PARTITIONED BY}."""
    table = alter_table(compiler, element.table_name, element.schema)
    return f"{table} {partitioned_by(element.layout, compiler.preparer)}"


class AlterSorting(AlterTable):
    """Sort the rows of a table as a layout says, from now on."""

    def __init__(self, table_name: str, schema: str | None, layout: Layout) -> None:
        super().__init__(table_name, schema=schema)
        self.layout = layout


@compiles(AlterSorting)
def _alter_sorting(element: AlterSorting, compiler: DDLCompiler, **_: Any) -> str:
    """ALTER TABLE <table> {SET SORTED BY (<keys>) | RESET SORTED BY}."""
    table = alter_table(compiler, element.table_name, element.schema)
    return f"{table} {sorted_by(element.layout)}"


class AlterField(AlterTable):
    """Add, drop or rename what is inside a column; ``path`` begins with the column.

    With ``kind`` it is added, with ``new_name`` renamed, with neither it is dropped.
    """

    def __init__(
        self,
        table_name: str,
        schema: str | None,
        path: Sequence[str],
        *,
        kind: TypeName | None = None,
        new_name: str | None = None,
    ) -> None:
        super().__init__(table_name, schema=schema)
        self.path = tuple(path)
        self.kind = kind
        self.new_name = new_name


@compiles(AlterField)
def _alter_field(element: AlterField, compiler: DDLCompiler, **_: Any) -> str:
    """ALTER TABLE <table> {ADD COLUMN <path> <type> | RENAME … TO … | DROP COLUMN <path>}."""
    table = alter_table(compiler, element.table_name, element.schema)
    path = ".".join(map(compiler.preparer.quote_identifier, element.path))
    if element.kind is not None:
        kind = compiler.dialect.type_compiler_instance.process(sql_type(element.kind))
        return f"{table} ADD COLUMN {path} {kind}"
    if element.new_name is not None:
        return f"{table} RENAME COLUMN {path} TO {compiler.preparer.quote(element.new_name)}"
    return f"{table} DROP COLUMN {path}"


class CallLake(DDLElement):
    """Call a function of the lake: its alias, then values, then named values."""

    def __init__(self, function: str, values: Sequence[Any], named: Mapping[str, Any]) -> None:
        self.function = function
        self.values = tuple(values)
        self.named = dict(named)


@compiles(CallLake)
def _call_lake(element: CallLake, compiler: DDLCompiler, **_: Any) -> str:
    """CALL <function>(<lake>, <values>, <name> => <value>)."""
    dialect: Any = compiler.dialect
    values = [_value(compiler, one) for one in (dialect.alias, *element.values)]
    values += [f"{name} => {_value(compiler, one)}" for name, one in element.named.items()]
    return f"CALL {element.function}({', '.join(values)})"


def _value(compiler: DDLCompiler, value: Any) -> str:
    if isinstance(value, ColumnElement):
        return compiler.sql_compiler.process(value, literal_binds=True)
    if isinstance(value, list):
        return f"[{', '.join(_value(compiler, one) for one in value)}]"
    plain = str(value) if isinstance(value, str) else value  # a name may be a kind of str
    return compiler.sql_compiler.render_literal_value(plain, literal(plain).type)


class TriedCast(ColumnElement[Any]):
    """A value in another type, NULL where it has none there."""

    inherit_cache = False

    def __init__(self, value: ColumnElement[Any], kind: TypeName) -> None:
        self.value = value
        self.type = sql_type(kind)


@compiles(TriedCast)
def _tried_cast(element: TriedCast, compiler: SQLCompiler, **kw: Any) -> str:
    """TRY_CAST(<value> AS <type>)."""
    kind = compiler.dialect.type_compiler_instance.process(element.type)
    return f"TRY_CAST({compiler.process(element.value, **kw)} AS {kind})"


class Refuse(DDLElement):
    """Stop a script if a query has rows, and name them."""

    def __init__(self, query: Select[Any]) -> None:
        self.query = query


@compiles(Refuse)
def _refuse(element: Refuse, compiler: DDLCompiler, **_: Any) -> str:
    """SELECT error(<rows>) FROM <query>, if there are any."""
    # Of a constant alone the engine would make the error before it looks.
    rows = select(
        sql_cast(func.list(literal_column("refused")), sqltypes.String).label("rows")
    ).select_from(element.query.subquery("refused"))
    found = rows.subquery("found")
    stop = select(func.error(literal("refused: ").concat(found.c.rows))).where(
        found.c.rows.is_not(None)
    )
    return compiler.sql_compiler.process(stop, literal_binds=True)
