"""The writing of a staged merge: delete, update, insert, each only where there is need.

Of an ``unconditional`` upsert without row ids nothing has to be known before it writes: what
the DELETE finds was there, the rest is new.  So the target is read once, and only its keys.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sqlalchemy import and_, exists, func, select, true, tuple_
from sqlalchemy.sql.elements import ColumnElement
from sqlalchemy.sql.selectable import FromClause, Select

from sqlalchemy_ducklake.driver.script import Role, Step
from sqlalchemy_ducklake.merge.images import Condition
from sqlalchemy_ducklake.merge.patches import PATCH
from sqlalchemy_ducklake.merge.ranges import RANGES
from sqlalchemy_ducklake.merge.staging import EFFECT, FIRST, KIND
from sqlalchemy_ducklake.merge.steps import (
    AppendRows,
    ChangeRows,
    PlannedStep,
    RemoveRows,
    constant,
)

if TYPE_CHECKING:
    from sqlalchemy_ducklake.merge.upsert import UpsertPlan

#: Behind the name of an effect: how many there are of it, where ranges are read.
IN_RANGES = " in ranges"


def replaces_blindly(plan: UpsertPlan) -> bool:
    """Tell whether nothing has to be known of the rows that a plan replaces."""
    lean = plan.unconditional and not (plan.preserves or plan.with_kind or plan.returns)
    checked = plan.other_keys or plan.constraints or plan.where is not None
    simple = plan.key.primary and plan.last_row_decides and bool(plan.assignments)
    return lean and simple and not checked


def replace_blindly(plan: UpsertPlan) -> Iterator[PlannedStep]:
    """Delete the rows that are there and count them; what takes their place is not new."""
    staged: Select[Any] = select(constant("inserted"), func.count()).select_from(plan.stage)
    yield PlannedStep(staged, Step(Role.COUNTS, unless=RANGES))
    gone = RemoveRows(plan.target, plan.key.matches(plan.target, plan.stage), plan.stage)
    yield PlannedStep(gone, Step(Role.COUNT, "updated", unless=RANGES, less="inserted"))


def change(plan: UpsertPlan) -> Iterator[PlannedStep]:
    """Delete and update, where keys lie far apart in the files that are concerned."""
    roads: list[tuple[str, Condition, Step]] = []
    if not replaces_blindly(plan):
        roads.append(("", true(), Step(unless=RANGES if plan.ranges is not None else "")))
    if plan.ranges is not None:
        roads.append((IN_RANGES, plan.ranges.in_files, Step()))
    removed = [*(["deleted"] if plan.with_kind else ())]
    removed += [] if plan.preserves else ["updated"]
    for suffix, here, step in roads:
        if removed:
            gone = and_(plan.becomes(*removed), here)
            yield PlannedStep(
                RemoveRows(plan.target, gone, plan.effects),
                replace(step, when=tuple(f"{each}{suffix}" for each in removed)),
            )
        if plan.assignments and plan.preserves:
            updated = replace(step, when=(f"updated{suffix}",))
            yield PlannedStep(_update(plan, here), updated)


def insert(plan: UpsertPlan) -> PlannedStep:
    """Insert the rows that are new, or that were deleted to be replaced."""
    names = [each.name for each in plan.columns]
    if replaces_blindly(plan):
        fresh: FromClause = plan.stage
    else:
        fresh = new_rows(plan, replacing=not plan.preserves).subquery("fresh")
    rows = select(*(fresh.c[name] for name in names)).order_by(fresh.c[FIRST])
    when = ("inserted",) if plan.preserves else ("inserted", "updated")
    return PlannedStep(AppendRows(plan.target, names, rows), Step(when=when))


def new_rows(plan: UpsertPlan, *, replacing: bool = False) -> Select[Any]:
    """Select the staged rows whose key does not exist yet, or no longer."""
    stays = plan.effects.c[EFFECT] != constant("updated") if replacing else true()
    rows = select(plan.stage).where(~_has_effect(plan, stays))
    return rows.where(plan.stage.c[KIND] == constant("upsert")) if plan.with_kind else rows


def patch_counts(plan: UpsertPlan) -> tuple[Select[Any], Select[Any]]:
    """Count the rows that are new, and the patches of rows that are not there."""
    new: Select[Any] = select(constant("inserted"), func.count())
    missing = and_(plan.stage.c[KIND] == PATCH, ~_has_effect(plan, true()))
    skipped: Select[Any] = select(constant("skipped"), func.count()).select_from(plan.stage)
    return new.select_from(new_rows(plan).subquery("fresh")), skipped.where(missing)


def _update(plan: UpsertPlan, here: Condition) -> ChangeRows:
    """Update the rows that differ, as far as they are ``here``."""
    if not plan.narrow:
        values = {name: plan.new_value(name) for name in plan.assignments or ()}
        where = and_(plan.becomes("updated"), here)
        return ChangeRows(plan.target, values, plan.effects, where)
    changes: FromClause = plan.stage
    if not (plan.unconditional and plan.where is None and not plan.with_kind):
        # Narrowed before the join with the target, which is a third cheaper (measured).
        differs = plan.effects.c[EFFECT] == constant("updated")
        changes = select(plan.stage).where(_has_effect(plan, differs)).subquery("changes")
    values = {name: changes.c[name] for name in plan.assignments or ()}
    where = and_(plan.key.matches(plan.target, changes), here)
    return ChangeRows(plan.target, values, changes, where)


def _has_effect(plan: UpsertPlan, which: ColumnElement[bool]) -> ColumnElement[bool]:
    """Say of a staged row that its key exists, with such an effect.

    The engine answers IN in two thirds of the time of EXISTS (measured), but only where
    no NULL can be among the keys it is the same.
    """
    if not plan.key.primary:
        there = plan.key.matches(plan.effects, plan.stage)
        return exists(constant(1)).where(there, which)
    staged, known = plan.key.within(plan.stage), plan.key.within(plan.effects)
    one = staged[0] if len(staged) == 1 else tuple_(*staged)
    return one.in_(select(*known).where(which))
