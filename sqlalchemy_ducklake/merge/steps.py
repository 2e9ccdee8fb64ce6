"""The few statements that a script is made of.

SQLAlchemy's own INSERT and UPDATE carry defaults, parameters and result maps of the
statement that the *user* wrote.  A step has none of that: it moves rows between a stage
and a table.  So steps are plain elements, each with its grammar in the compiler.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import literal_column
from sqlalchemy.sql.elements import ClauseElement, ColumnElement
from sqlalchemy.sql.selectable import FromClause, SelectBase, TableClause
from sqlalchemy.sql.type_api import TypeEngine

from sqlalchemy_ducklake.driver.script import Step


class MakeStage(ClauseElement):
    """CREATE OR REPLACE TEMP TABLE <stage> AS <rows>."""

    __visit_name__ = "ducklake_make_stage"

    def __init__(self, stage: TableClause, rows: SelectBase) -> None:
        self.stage = stage
        self.rows = rows


class DropStage(ClauseElement):
    """DROP TABLE IF EXISTS <stage>."""

    __visit_name__ = "ducklake_drop_stage"

    def __init__(self, stage: TableClause) -> None:
        self.stage = stage


class SetVariable(ClauseElement):
    """SET VARIABLE <name> = (<query>), which the engine knows when it plans what follows."""

    __visit_name__ = "ducklake_set_variable"

    def __init__(self, name: str, value: SelectBase) -> None:
        self.name = name
        self.value = value


class AppendRows(ClauseElement):
    """INSERT INTO <table> (<columns>) <rows>."""

    __visit_name__ = "ducklake_append_rows"

    def __init__(self, table: FromClause, columns: Sequence[str], rows: SelectBase) -> None:
        self.table = table
        self.columns = tuple(columns)
        self.rows = rows


class ChangeRows(ClauseElement):
    """UPDATE <table> SET <values> FROM <source> WHERE <where>."""

    __visit_name__ = "ducklake_change_rows"

    def __init__(
        self,
        table: FromClause,
        values: Mapping[str, ColumnElement[Any]],
        source: FromClause,
        where: ColumnElement[bool],
    ) -> None:
        self.table = table
        self.values = dict(values)
        self.source = source
        self.where = where


class RemoveRows(ClauseElement):
    """DELETE FROM <table> [USING <source>] WHERE <where>.

    A row that ``source`` speaks of is found by a join: the engine prunes the files of a
    join by its keys, and reads all of them for EXISTS (measured).
    """

    __visit_name__ = "ducklake_remove_rows"

    def __init__(
        self, table: FromClause, where: ColumnElement[bool], source: FromClause | None = None
    ) -> None:
        self.table = table
        self.where = where
        self.source = source


class Bare(ColumnElement[Any]):
    """An expression with its columns by their bare names, and its values written out.

    The condition of a CHECK, say: whatever table it stands in then gives the columns.
    """

    __visit_name__ = "ducklake_bare"
    inherit_cache = False

    def __init__(self, expression: ClauseElement, kind: TypeEngine[Any]) -> None:
        self.written = expression
        self.type = kind


def constant(value: str | int) -> ColumnElement[Any]:
    """Write one of our own words or numbers into a step: no parameter, no user's value."""
    return literal_column(f"'{value}'" if isinstance(value, str) else str(value))


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """One step of a plan: the statement, and what the driver does with its result."""

    statement: ClauseElement
    step: Step
