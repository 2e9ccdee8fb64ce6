"""Changes of some columns: what they leave alone, and how several of one key fold.

A patch assigns the columns that it lists; the others keep what is stored.  Patches of a key
fold onto the last complete row of their batch, or onto each other: each column takes the
last value that was assigned to it.  A patch of a row that is not there is skipped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from sqlalchemy import String, and_, case, column, false, func, literal, not_, or_, select, true
from sqlalchemy.sql.elements import ColumnElement
from sqlalchemy.sql.selectable import FromClause, TableClause

from sqlalchemy_ducklake.driver.script import Step
from sqlalchemy_ducklake.merge.checks import Key
from sqlalchemy_ducklake.merge.reduction import REPEATED
from sqlalchemy_ducklake.merge.staging import ASSIGNED, FIRST, FOLDED, KIND, SEQUENCE, copy_of
from sqlalchemy_ducklake.merge.steps import (
    AppendRows,
    Bare,
    MakeStage,
    PlannedStep,
    RemoveRows,
    constant,
)

PATCH = constant("patch")


def patched_values(
    target: FromClause, excluded: FromClause, names: Iterable[str]
) -> dict[str, ColumnElement[Any]]:
    """Give what columns of a stored row become: as before where a patch does not list them."""
    kind, listed = _of(excluded, KIND), _of(excluded, ASSIGNED)
    return {
        name: case(
            (and_(kind == PATCH, not_(_lists(listed, name))), target.c[_key(target, name)]),
            else_=excluded.c[_key(excluded, name)],
        )
        for name in names
    }


def folded_stage(stage: TableClause) -> TableClause:
    """Name the stage of the folded changes."""
    return copy_of(FOLDED, stage)


def fold(key: Key, stage: TableClause, names: Sequence[str]) -> Iterator[PlannedStep]:
    """Make one change of all changes of a key, if any key is repeated."""
    when, folded = Step(when=(REPEATED,)), folded_stage(stage)
    place = stage.c[SEQUENCE]
    complete = func.max(case((stage.c[KIND] != PATCH, place)))
    begun = complete.over(partition_by=key.within(stage)).label(_BEGUN)
    rows = select(stage, begun).subquery("rows")
    keys = key.within(rows)
    values = {
        SEQUENCE: func.max(rows.c[SEQUENCE]),
        FIRST: func.min(rows.c[FIRST]),
        KIND: func.coalesce(_last(rows, rows.c[KIND], rows.c[KIND] != PATCH), PATCH),
        ASSIGNED: func.flatten(func.list(rows.c[ASSIGNED]).filter(rows.c[KIND] == PATCH)),
        **{name: _last(rows, rows.c[name], _assigns(rows, name)) for name in names},
        **{each.name: each for each in keys},
    }
    made = select(*(values[each.name].label(each.name) for each in stage.c)).group_by(*keys)
    yield PlannedStep(MakeStage(folded, made), when)
    yield PlannedStep(RemoveRows(stage, true()), when)
    everything = [each.name for each in stage.c]
    yield PlannedStep(AppendRows(stage, everything, select(*folded.c)), when)


_BEGUN = f"begun{FOLDED}"


def _last(rows: FromClause, value: Any, counts: ColumnElement[bool]) -> ColumnElement[Any]:
    """Give the last value among the rows that count, NULL if that is the last."""
    return func.arg_max_null(value, rows.c[SEQUENCE]).filter(counts)


def _assigns(rows: FromClause, name: str) -> ColumnElement[bool]:
    """Say that a row has a say in a column: complete and the last, or a later patch of it."""
    since = rows.c[SEQUENCE] >= func.coalesce(rows.c[_BEGUN], constant(0))
    return and_(since, or_(rows.c[KIND] != PATCH, _lists(rows.c[ASSIGNED], name)))


def _lists(listed: ColumnElement[Any], name: str) -> ColumnElement[bool]:
    return func.coalesce(func.list_contains(listed, written(name)), false())


def written(name: str) -> ColumnElement[str]:
    """Write the name of a column into a step as a value."""
    return Bare(literal(name, String()), String())


def _of(source: FromClause, name: str) -> ColumnElement[Any]:
    """Name a column that a stage has besides those of its target."""
    found: ColumnElement[Any] = column(name)
    found.table = source  # type: ignore[attr-defined]
    return found


def _key(source: FromClause, name: str) -> str:
    return next(each.key for each in source.c if each.name == name)
