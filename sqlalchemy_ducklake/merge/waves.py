"""Rows of one key that see what the rows before them did.

``SET n = t.n + excluded.n`` for a key that comes three times has to be applied three
times.  Wave k applies the k-th row of every key, set-based, to a copy of the rows that are
concerned (the *state*), which the first wave of a new key creates.  Afterwards the state
tells the effects, as one join would have.

The driver repeats the steps of a wave while any row is pending, so the cost is that of
the most frequent key.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    and_,
    case,
    column,
    exists,
    false,
    func,
    not_,
    or_,
    select,
    table,
    true,
    union_all,
)
from sqlalchemy.sql.elements import ColumnElement
from sqlalchemy.sql.selectable import FromClause, Select, TableClause

from sqlalchemy_ducklake.driver.script import Role, Step
from sqlalchemy_ducklake.merge.checks import column_of
from sqlalchemy_ducklake.merge.staging import (
    EFFECT,
    EXISTED,
    PENDING,
    SEQUENCE,
    STATE,
    TOUCHED,
    WAVE,
    copy_of,
    drop_stage,
    new_name,
)
from sqlalchemy_ducklake.merge.steps import (
    AppendRows,
    ChangeRows,
    MakeStage,
    PlannedStep,
    RemoveRows,
    constant,
)

if TYPE_CHECKING:
    from sqlalchemy_ducklake.merge.upsert import UpsertPlan

#: The count of rows that no wave has applied yet.
REMAINING = "remaining"


def steps(plan: UpsertPlan) -> Iterator[PlannedStep]:
    """Give the steps that apply the staged rows in waves, and what came of it."""
    yield PlannedStep(MakeStage(plan.waves.pending, select(plan.stage)), Step())
    yield PlannedStep(MakeStage(plan.waves.state, _stored(plan)), Step())
    yield from _wave(plan)
    yield PlannedStep(MakeStage(plan.effects, _effects(plan)), Step())
    yield _counts(plan)


def images(plan: UpsertPlan) -> PlannedStep:
    """Let the staged row of a new key be what the waves made of it."""
    state = plan.waves.state
    values = {each.name: state.c[each.name] for each in plan.columns}
    new = and_(plan.key.matches(plan.stage, state), not_(state.c[EXISTED]))
    return PlannedStep(ChangeRows(plan.stage, values, state, new), Step())


def drops(plan: UpsertPlan) -> Iterator[PlannedStep]:
    """Give the steps that remove what the waves made."""
    for made in (plan.waves.pending, plan.waves.state, plan.waves.now):
        yield drop_stage(made)


@dataclass(frozen=True, slots=True)
class WaveStages:
    """The tables of a merge in waves.

    ``pending`` holds the rows that no wave has applied yet, ``now`` those of the wave that
    is being applied, ``state`` the rows that are concerned, with what they were.
    """

    pending: TableClause
    now: TableClause
    state: TableClause


def stages(plan: UpsertPlan) -> WaveStages:
    """Name the tables that the waves of a plan need."""
    state = table(
        STATE,
        *(column(each.name, each.type) for each in plan.target.c),
        *(
            column(_old(name), column_of(plan.target, name).type)
            for name in plan.assignments or ()
        ),
        column(EXISTED, Boolean),
        column(TOUCHED, Boolean),
        column(SEQUENCE, BigInteger),
    )
    return WaveStages(copy_of(PENDING, plan.stage), copy_of(WAVE, plan.stage), state)


def _old(name: str) -> str:
    return f"{name}{STATE}"


def _stored(plan: UpsertPlan) -> Select[Any]:
    """Select the rows of the target that the staged keys name."""
    keys = select(*plan.key.within(plan.stage)).distinct().subquery("keys")
    target = plan.target
    old = (column_of(target, name).label(_old(name)) for name in plan.assignments or ())
    flags = (true().label(EXISTED), false().label(TOUCHED), constant(0).label(SEQUENCE))
    found = target.join(keys, plan.key.matches(target, keys))
    return select(*target.c, *old, *flags).select_from(found)


def _wave(plan: UpsertPlan) -> Iterator[PlannedStep]:
    pending, now, state = plan.waves.pending, plan.waves.now, plan.waves.state
    repeat = Step(repeat=REMAINING)
    yield PlannedStep(MakeStage(now, _first_of_each_key(plan, pending)), repeat)
    matches = plan.key.matches(state, now)
    guard = plan.guard(now, state)
    if guard is not None:
        refused = select(constant("skipped"), func.count()).select_from(
            state.join(now, and_(matches, not_(guard)))
        )
        yield PlannedStep(refused, Step(Role.COUNTS, repeat=REMAINING))
    values = {**plan.new_values(now, state), TOUCHED: true()}
    applies = matches if guard is None else and_(matches, guard)
    yield PlannedStep(ChangeRows(state, values, now, applies), repeat)
    yield PlannedStep(_begin_keys(plan, now, state), repeat)
    applied = exists(constant(1)).where(now.c[SEQUENCE] == pending.c[SEQUENCE])
    yield PlannedStep(RemoveRows(pending, applied), repeat)
    left: Select[Any] = select(constant(REMAINING), func.count()).select_from(pending)
    yield PlannedStep(left, Step(Role.COUNTS, repeat=REMAINING))


def _first_of_each_key(plan: UpsertPlan, pending: FromClause) -> Select[Any]:
    place = func.row_number().over(
        partition_by=plan.key.within(pending), order_by=pending.c[SEQUENCE]
    )
    ranked = select(pending, place.label("place")).subquery("ranked")
    return select(*(ranked.c[each.name] for each in pending.c)).where(
        ranked.c.place == constant(1)
    )


def _begin_keys(plan: UpsertPlan, now: FromClause, state: TableClause) -> AppendRows:
    names = [each.name for each in plan.columns]
    there = exists(constant(1)).where(plan.key.matches(state, now))
    rows = select(*(now.c[name] for name in names), false(), false(), now.c[SEQUENCE]).where(
        ~there
    )
    return AppendRows(state, [*names, EXISTED, TOUCHED, SEQUENCE], rows)


def _effects(plan: UpsertPlan) -> Select[Any]:
    """Select what becomes of each row that existed, as the join of one wave does."""
    state = plan.waves.state
    names = list(plan.assignments or ())
    differs: ColumnElement[bool] = or_(
        *(state.c[name].is_distinct_from(state.c[_old(name)]) for name in names)
    )
    effect = case(
        (not_(state.c[TOUCHED]), constant("skipped")),
        (differs, constant("updated")),
        else_=constant("unchanged"),
    )
    new = (state.c[name].label(new_name(name)) for name in names)
    return select(effect.label(EFFECT), *plan.key.within(state), *new).where(state.c[EXISTED])


def _counts(plan: UpsertPlan) -> PlannedStep:
    """Count the effects; skipped rows were counted wave by wave."""
    state, effects = plan.waves.state, plan.effects
    inserted: Select[Any] = select(constant("inserted"), func.count())
    by_effect = select(effects.c[EFFECT], func.count()).group_by(effects.c[EFFECT])
    counts = union_all(
        inserted.where(not_(state.c[EXISTED])).select_from(state),
        by_effect.where(effects.c[EFFECT] != constant("skipped")),
    )
    return PlannedStep(counts, Step(Role.COUNTS))
