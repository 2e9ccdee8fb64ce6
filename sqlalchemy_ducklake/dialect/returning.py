"""RETURNING, which DuckLake refuses: a SELECT over what was staged.

The clause is compiled as SQLAlchemy compiles it, so labels, entities and result types are
right; only its columns are led elsewhere.  A column of the target belongs to the staged
rows (or to the target itself, after an UPDATE), a column of another table in the statement
was staged beside them.
"""

# What SQLAlchemy gives a compiler are private parts of its statements.
# ruff: noqa: SLF001

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.elements import ColumnClause
from sqlalchemy.sql.selectable import FromClause

from sqlalchemy_ducklake.merge.staging import ROW_ID, rows_name


@dataclass(slots=True)
class Returned:
    """Where the columns of a RETURNING clause come from.

    ``source`` is the text that stands before a column of the target; ``others`` collects
    the columns of other tables, in the order of their staged names.
    """

    target: FromClause
    source: str
    others: list[str] = field(default_factory=list)

    def stage(self, text: str) -> str:
        """Remember a column of another table; give the name it is staged under."""
        if text not in self.others:
            self.others.append(text)
        return f"_other{self.others.index(text)}{ROW_ID}"


@dataclass(frozen=True, slots=True)
class Copied:
    """A copy of rows of the target: the text of its name, and its names of their columns."""

    target: FromClause
    source: str
    names: Mapping[str, str]


class ReturningCompiler(SQLCompiler):
    """Compiles RETURNING clauses into SELECT lists, and values of rows that were copied."""

    _returned: Returned | None = None
    _copied: Copied | None = None

    def visit_column(
        self,
        column: ColumnClause[Any],
        add_to_result_map: Any = None,
        include_table: bool = True,
        *args: Any,
        **kw: Any,
    ) -> str:
        """Lead a column inside RETURNING, or of rows that were copied, to its stage."""
        copied = self._copied
        if copied is not None and include_table and column.table == copied.target:
            name = copied.names.get(column.name, column.name)
            return f"{copied.source}.{self.preparer.quote(name)}"
        returned = self._returned
        if returned is None or column.table is None or not include_table:
            return super().visit_column(column, add_to_result_map, include_table, *args, **kw)
        if column.table == returned.target:
            name = super().visit_column(column, add_to_result_map, False, **kw)
            return f"{returned.source}.{name}"
        text = super().visit_column(column, add_to_result_map, **kw)
        rows = self.preparer.quote(rows_name())
        return f"{rows}.{self.preparer.quote(returned.stage(text))}"

    def returned_columns(self, statement: Any, source: str) -> tuple[str, Returned]:
        """Compile the RETURNING clause of a statement into a SELECT list."""
        columns = self.implicit_returning or statement._returning
        returned = Returned(statement.table, source)
        with self._returning(returned):
            text = self.returning_clause(statement, columns, populate_result_map=True)
        return text.removeprefix("RETURNING "), returned

    @contextlib.contextmanager
    def reading(self, copied: Copied) -> Iterator[None]:
        """Let columns of the target be those of a copy."""
        self._copied = copied
        try:
            yield
        finally:
            self._copied = None

    @contextlib.contextmanager
    def _returning(self, returned: Returned) -> Iterator[None]:
        self._returned = returned
        try:
            yield
        finally:
            self._returned = None
