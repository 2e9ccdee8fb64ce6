"""The steps of a script that log what a write scope keeps aside.

What rows become is staged before; here it goes into the log of their table.  The first
step of each kind tells, by the count ``LOGGED``, that from there on the log is changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlalchemy_ducklake.driver.script import Role, Step
from sqlalchemy_ducklake.lake.attach import identifier
from sqlalchemy_ducklake.scope.log import (
    FIRST_OWN_ROW,
    GONE,
    MARKED,
    ROW,
    SINCE,
    staged_versions,
    versions,
)
from sqlalchemy_ducklake.scope.options import MOST_KEPT, ManyRows
from sqlalchemy_ducklake.scope.unit import LOGGED, NO_SAVEPOINT

_Steps = list[tuple[str, Step]]
_ROW, _SINCE, _GONE = map(identifier, (ROW, SINCE, GONE))


def staged_if_few(made: str, stage: str, run: Step) -> _Steps:
    """Stage rows that are there; ManyRows ends the script if they are not worth keeping.

    What happens after a savepoint has to be kept however much it is.
    """
    if run.when or run.unless:
        return [(made, run)]
    few = replace(run, when=(NO_SAVEPOINT,))
    many = f"SELECT 1 FROM (SELECT count(*) AS n FROM {stage}) WHERE n > {MOST_KEPT}"
    return [
        (f"{made} LIMIT {MOST_KEPT + 1}", few),
        (many, replace(few, role=Role.CHECK, violation=ManyRows)),
        (made, replace(run, unless=NO_SAVEPOINT)),
    ]


def counted(stage: str, step: Step) -> _Steps:
    """Count the staged rows, if the step counts what it writes."""
    if step.role is not Role.COUNT:
        return []
    count, less = f"SELECT '{step.name}', count(*) FROM {stage}", ""
    if step.less:
        less = f" UNION ALL SELECT '{step.less}', -count(*) FROM {stage}"
    return [(f"{count}{less}", replace(step, role=Role.COUNTS, name="", less=""))]


def appended(log: str, rows: str, columns: Sequence[str], step: Step) -> tuple[str, Step]:
    """Log the rows of a query, numbered on from those that the transaction made before."""
    last = f"(SELECT max(greatest({_ROW}, {FIRST_OWN_ROW - 1})) FROM {log})"
    number = f"coalesce({last}, {FIRST_OWN_ROW - 1}) + row_number() OVER ()"
    names = ", ".join(map(identifier, columns))
    text = (
        f"INSERT INTO {log} ({names}, {_ROW}, {_SINCE}, {_GONE}) "
        f"SELECT {names}, {number}, {MARKED}, false FROM ({rows}) AS rows"
    )
    name = step.name if step.role is Role.COUNT else LOGGED
    # What is lowered does not matter, only that it is there.
    return text, replace(step, role=Role.COUNT, name=name, less=LOGGED)


def versions_logged(log: str, stage: str, step: Step, *, gone: bool) -> _Steps:
    """Log versions of rows that are there; those that were open are closed, or replaced."""
    replaced, closed = versions(log, f"SELECT rowid FROM {stage}")
    run = Step(when=step.when, unless=step.unless)
    mark = replace(run, role=Role.COUNT, name=LOGGED)
    close = replace(run, unless=run.unless or NO_SAVEPOINT)
    return [
        (replaced, mark),
        (closed, close),
        (staged_versions(log, stage, gone=gone), run),
        _dropped(stage),
    ]


def _dropped(stage: str) -> tuple[str, Step]:
    return f"DROP TABLE IF EXISTS {stage}", Step(Role.DROP)
