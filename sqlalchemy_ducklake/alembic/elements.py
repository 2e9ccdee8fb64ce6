"""The statements that Alembic has not, or has otherwise."""

from __future__ import annotations

from typing import Any

from alembic.ddl.base import (
    AlterTable,
    RenameTable,
    alter_table,
    format_column_name,
    format_table_name,
)
from sqlalchemy import types as sqltypes
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import DDLCompiler


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
