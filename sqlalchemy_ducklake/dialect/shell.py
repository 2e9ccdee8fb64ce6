"""A script with its values written out, for DuckDB's own shell.

Nobody decides there which steps run, and nobody looks at what a check found.  So the steps
are those that are right when they run one after another, and a check is an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from sqlalchemy_ducklake.dialect.constraints import LEVELS
from sqlalchemy_ducklake.driver.script import ENFORCE_ALL, ENFORCE_KEYS, Role, Step

TextStep = tuple[str, Step]
_AGAIN = "a key comes more than once; that takes SQLAlchemy to run this statement"


def straight(steps: Iterable[TextStep], level: str) -> Iterator[TextStep]:
    """Give the steps for a reader that runs them all, at a level of enforcement."""
    for text, step in steps:
        if not _is_wanted(step, level):
            continue
        if step.role is Role.CHECK:
            found = f"SELECT CAST(list(refused) AS VARCHAR) AS rows FROM ({text}) AS refused"
            yield f"SELECT error('refused: ' || rows) FROM ({found}) WHERE rows <> ''", step
        elif step.role is Role.COUNTS:
            # What is counted matters only where steps would have to run again.
            if step.repeat:
                rest = f"({text}) AS counted(name, number)"
                yield f"SELECT error('{_AGAIN}') FROM {rest} WHERE number > 0", step
        else:
            yield text, replace(step, repeat="")


def _is_wanted(step: Step, level: str) -> bool:
    flags = set(LEVELS[level])
    if step.unless in flags:
        return False
    missing = {ENFORCE_KEYS, ENFORCE_ALL} - flags
    return not step.when or bool(set(step.when) - missing)
