"""One row of each key: the last, or with DO NOTHING the first."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.sql.selectable import Select, TableClause

from sqlalchemy_ducklake.driver.script import Role, Step
from sqlalchemy_ducklake.merge.checks import Key
from sqlalchemy_ducklake.merge.staging import FIRST, SEQUENCE
from sqlalchemy_ducklake.merge.steps import ChangeRows, PlannedStep, RemoveRows, constant

#: The count that decides which road a script takes: rows beyond the first of their key.
REPEATED = "repeated"


def count_repeats(key: Key, stage: TableClause) -> PlannedStep:
    """Count the staged rows beyond the first of their key."""
    keys = select(*key.within(stage)).distinct().subquery("keys")
    number = select(func.count()).select_from(keys).scalar_subquery()
    repeats: Select[Any] = select(constant(REPEATED), func.count() - number)
    return PlannedStep(repeats.select_from(stage), Step(Role.COUNTS))


def reduce(key: Key, stage: TableClause, *, first: bool) -> Iterator[PlannedStep]:
    """Keep the ``first`` or the last row of each key, if any key is repeated.

    An inserted row keeps the place of its key's first mention.
    """
    keys = key.within(stage)
    sequence = stage.c[SEQUENCE]
    ends = (func.min(sequence).label("first"), func.max(sequence).label("last"))
    places = select(*keys, *ends).group_by(*keys).subquery("places")
    row_kept = places.c.first if first else places.c.last
    when = Step(when=(REPEATED,))
    yield PlannedStep(
        ChangeRows(stage, {FIRST: places.c.first}, places, row_kept == sequence), when
    )
    kept_rows = select(row_kept).scalar_subquery()
    # With DO NOTHING the rows that are dropped were skipped; else they had their say.
    role = Step(Role.COUNT if first else Role.RUN, "skipped", (REPEATED,))
    yield PlannedStep(RemoveRows(stage, sequence.not_in(kept_rows)), role)
