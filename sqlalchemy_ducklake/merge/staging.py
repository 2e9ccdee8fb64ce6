"""The temporary tables of a script: their names, columns and birth.

Their names and the names of their own columns carry a suffix that is random per process,
so they collide with no name of a user.  Scripts that run one after another on a
connection reuse them; each drops what it made.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import BigInteger, cast, column, false, null, select, table
from sqlalchemy.sql.elements import ColumnElement
from sqlalchemy.sql.selectable import FromClause, Select, TableClause
from sqlalchemy.sql.type_api import TypeEngine

from sqlalchemy_ducklake.driver.script import Role, Step
from sqlalchemy_ducklake.merge.steps import DropStage, MakeStage, PlannedStep

_SUFFIX = secrets.token_hex(4)

#: The name under which a script knows its parameter sets.
BATCH = f"_batch_{_SUFFIX}"
#: The column that numbers the rows of a stage, from 0, in the order they were given.
SEQUENCE = f"_sequence_{_SUFFIX}"
#: The place of a key's first mention, which decides where its row is inserted.
FIRST = f"_first_{_SUFFIX}"
#: The engine's own id of a target row that a stage speaks of.
ROW_ID = f"_rowid_{_SUFFIX}"
#: The file that a target row lies in, and the variables that hold files and ranges of keys.
FILE, FILES, KEY_RANGES = f"_file_{_SUFFIX}", f"_files_{_SUFFIX}", f"_ranges_{_SUFFIX}"
#: What is to become of a row: the name of a count of MergeResult.
EFFECT = f"_effect_{_SUFFIX}"
#: The stages of a merge in waves, and what its state knows of each row.
PENDING, WAVE, STATE = f"_pending_{_SUFFIX}", f"_wave_{_SUFFIX}", f"_state_{_SUFFIX}"
EXISTED, TOUCHED = f"_existed_{_SUFFIX}", f"_touched_{_SUFFIX}"
#: The count that tells the number an INSERT counted up.
LAST_ID = "last id"
#: The stage of a merge's source.
SOURCE = f"_source_{_SUFFIX}"
#: The column that tells an upsert from a delete or a patch, and the columns a patch assigns.
KIND, ASSIGNED = f"_kind_{_SUFFIX}", f"_assigned_{_SUFFIX}"
#: The stages of changes of which several are one by now, and of rows that are deleted.
FOLDED, GONE = f"_folded_{_SUFFIX}", f"_gone_{_SUFFIX}"
_ROWS = f"_rows_{_SUFFIX}"
_EFFECTS = f"_effects_{_SUFFIX}"


def bind_name(number: int) -> str:
    """Name the staged column of a parameter that stands in an expression."""
    return f"_bind{number}_{_SUFFIX}"


def source_stage(source: FromClause) -> TableClause:
    """Name the stage that holds a source, whose rows are numbered."""
    own = column(SEQUENCE, BigInteger)
    return table(SOURCE, own, *(column(each.name, each.type) for each in source.c))


def new_name(name: str) -> str:
    """Name the column that holds what a column of the target becomes."""
    return f"{name}{EFFECT}"


def effects_stage(columns: Sequence[ColumnElement[Any]]) -> TableClause:
    """Name the stage that holds the effects, with these columns."""
    return table(_EFFECTS, *(column(each.name, each.type) for each in columns))


def rows_stage(
    columns: Sequence[Any], binds: Mapping[str, TypeEngine[Any]]
) -> tuple[TableClause, PlannedStep]:
    """Name the stage for the given rows, and make it empty.

    It has these columns of the target, with the very types that they have in the lake,
    and a column for each parameter that stands in an expression.
    """
    own = {SEQUENCE: BigInteger(), FIRST: BigInteger(), **binds}
    stage = table(
        _ROWS,
        *(column(name, kind) for name, kind in own.items()),
        *(column(each.name, each.type) for each in columns),
    )
    made = (cast(null(), kind).label(name) for name, kind in own.items())
    empty: Select[Any] = select(*made, *columns).where(false())
    return stage, PlannedStep(MakeStage(stage, empty), Step())


def copy_of(name: str, stage: TableClause) -> TableClause:
    """Name another stage with the columns of this one."""
    return table(name, *(column(each.name, each.type) for each in stage.c))


def drop_stage(stage: TableClause) -> PlannedStep:
    """Drop a stage on every way out."""
    return PlannedStep(DropStage(stage), Step(Role.DROP))


def batch_name(number: int) -> str:
    """Give the name under which a script knows data of the program."""
    return f"_data{number}_{_SUFFIX}"


def effects_name() -> str:
    """Give the name of the stage of effects."""
    return _EFFECTS


def rows_name() -> str:
    """Give the name of the stage that holds the rows of a statement."""
    return _ROWS


def own_name(name: str) -> str:
    """Give a name that no user's collides with."""
    return f"_{name}_{_SUFFIX}"


def is_own(name: str) -> bool:
    """Tell whether a name is one that this module has given."""
    return name.startswith("_") and name.endswith(f"_{_SUFFIX}")
