"""Columns whose values are computed from their row, which DuckLake has not.

The expression is kept with the table, and the values are stored: in the stage of an
INSERT before it is written, and again after a statement that changed rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Column, exc, literal_column
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.schema import Table
from sqlalchemy.sql.selectable import FromClause

from sqlalchemy_ducklake.driver.script import Step
from sqlalchemy_ducklake.merge.steps import PlannedStep


def computed_columns(target: FromClause) -> list[Column[Any]]:
    """Give the columns of a table that are computed."""
    if not isinstance(target, Table):
        return []
    return [column for column in target.c if column.computed is not None]


class ComputedCompiler(SQLCompiler):
    """Compiles what keeps computed columns right."""

    def compute_staged(self, target: FromClause, stage: FromClause) -> list[PlannedStep]:
        """Fill the computed columns of the rows that are staged."""
        values = self._computed(target)
        if not values:
            return []
        assigned = ", ".join(f"{name} = {text}" for name, text in values.items())
        return [_step(f"UPDATE {self.preparer.format_table(stage)} SET {assigned}", Step())]

    def compute_again(self, target: FromClause, when: Sequence[str]) -> list[PlannedStep]:
        """Correct the computed columns of the table, once one of these counts is not zero."""
        values = self._computed(target)
        if not values:
            return []
        table = self.preparer.format_table(target)
        assigned = ", ".join(f"{name} = {text}" for name, text in values.items())
        wrong = " OR ".join(
            f"{name} IS DISTINCT FROM ({text})" for name, text in values.items()
        )
        return [_step(f"UPDATE {table} SET {assigned} WHERE {wrong}", Step(when=tuple(when)))]

    def refuse_computed(self, target: FromClause, columns: Sequence[Any]) -> None:
        """Refuse a value for a computed column; raises CompileError."""
        given = {column.name for column in columns}
        for column in computed_columns(target):
            if column.name in given:
                raise exc.CompileError(
                    f"column {column.name!r} of {target} is computed and takes no value"
                )

    def _computed(self, target: FromClause) -> dict[str, str]:
        """Give the text of each computed value by the quoted name of its column.

        It is cast to the type of its column, as storing it does, so that it compares equal.
        """
        types = self.dialect.type_compiler_instance
        found = {}
        for column in computed_columns(target):
            assert column.computed is not None
            text = self.process(
                column.computed.sqltext, include_table=False, literal_binds=True
            )
            kind = types.process(column.type)
            found[self.preparer.quote(column.name)] = f"CAST({text} AS {kind})"
        return found


def _step(text: str, step: Step) -> PlannedStep:
    return PlannedStep(literal_column(text), step)
