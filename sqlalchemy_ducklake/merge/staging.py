"""The temporary tables of a script: their names, columns and birth.

Their names and the names of their own columns carry a suffix that is random per process,
so they collide with no name of a user.  Scripts that run one after another on a
connection reuse them; each drops what it made.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any

from sqlalchemy import BigInteger, Column, cast, column, false, select, table
from sqlalchemy.sql.elements import ColumnElement
from sqlalchemy.sql.selectable import Select, TableClause

from sqlalchemy_ducklake.driver.script import Role, Step
from sqlalchemy_ducklake.merge.steps import DropStage, MakeStage, PlannedStep, constant

_SUFFIX = secrets.token_hex(4)

#: The name under which a script knows its parameter sets.
BATCH = f"_batch_{_SUFFIX}"
#: The column that numbers the rows of a stage, from 0, in the order they were given.
SEQUENCE = f"_sequence_{_SUFFIX}"
#: The place of a key's first mention, which decides where its row is inserted.
FIRST = f"_first_{_SUFFIX}"
#: The engine's own id of a target row that a stage speaks of.
ROW_ID = f"_rowid_{_SUFFIX}"
#: What is to become of a row: the name of a count of MergeResult.
EFFECT = f"_effect_{_SUFFIX}"
_ROWS = f"_rows_{_SUFFIX}"
_EFFECTS = f"_effects_{_SUFFIX}"


def rows_stage(columns: Sequence[Column[Any]]) -> TableClause:
    """Name the stage that holds the given rows, with these columns of the target."""
    own = (column(SEQUENCE, BigInteger), column(FIRST, BigInteger))
    return table(_ROWS, *own, *(column(each.name, each.type) for each in columns))


def effects_stage(columns: Sequence[ColumnElement[Any]]) -> TableClause:
    """Name the stage that holds the effects, with these columns."""
    return table(_EFFECTS, *(column(each.name, each.type) for each in columns))


def make_rows_stage(stage: TableClause, columns: Sequence[Column[Any]]) -> PlannedStep:
    """Make the stage empty, with the very types that the target has in the lake."""
    zero = cast(constant(0), BigInteger)
    empty: Select[Any] = select(zero.label(SEQUENCE), zero.label(FIRST), *columns)
    return PlannedStep(MakeStage(stage, empty.where(false())), Step())


def drop_stage(stage: TableClause) -> PlannedStep:
    """Drop a stage on every way out."""
    return PlannedStep(DropStage(stage), Step(Role.DROP))


def rows_name() -> str:
    """Give the name of the stage that holds the rows of a statement."""
    return _ROWS
