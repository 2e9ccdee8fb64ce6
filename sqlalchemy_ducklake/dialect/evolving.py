"""Adding a column to a table that is there."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Column, Table
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.schema import ExecutableDDLElement
from sqlalchemy.sql.compiler import DDLCompiler


class AddColumn(ExecutableDDLElement):
    """Add a nullable column behind all others; the rows that are there have NULL in it."""

    def __init__(self, table: Table, column: Column[Any]) -> None:
        self.table = table
        self.column = column


@compiles(AddColumn, "ducklake")
def _add_column(element: AddColumn, compiler: DDLCompiler, **_: Any) -> str:
    """ALTER TABLE <table> ADD COLUMN <name> <type>."""
    table = compiler.preparer.format_table(element.table)
    name = compiler.preparer.format_column(element.column)
    kind = compiler.dialect.type_compiler_instance.process(element.column.type)
    return f"ALTER TABLE {table} ADD COLUMN {name} {kind}"
