"""Which constraints are enforced, and what they are.

``enforce_constraints`` is ``"keys"`` (primary and unique keys), ``"all"`` (foreign keys
and checks as well) or ``"none"``, for an engine, a connection or a statement.  A compiled
statement holds all checks; what is skipped is decided when it runs, so that one compiled
statement serves every level.

With ``"none"`` nothing looks whether a key is there twice: what ON CONFLICT or a merge
does to such rows is undefined.  NULL in a primary key is refused at every level.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, cast

from sqlalchemy import CheckConstraint, exc
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.schema import Column, Table
from sqlalchemy.sql.selectable import FromClause

from sqlalchemy_ducklake.dialect import tags
from sqlalchemy_ducklake.driver.script import DEFENDED, ENFORCE_ALL, ENFORCE_KEYS, Script
from sqlalchemy_ducklake.merge.constraints import (
    Check,
    Constraints,
    checks_of,
    foreign_keys_of,
    references_to,
    storable_intervals,
)
from sqlalchemy_ducklake.merge.steps import Bare, PlannedStep

OPTION = "enforce_constraints"
LEVELS = {"none": (), "keys": (ENFORCE_KEYS,), "all": (ENFORCE_KEYS, ENFORCE_ALL)}


def checked_level(level: Any) -> str:
    """Give a level of enforcement back; raises ArgumentError for anything else."""
    if isinstance(level, str) and level in LEVELS:
        return level
    raise exc.ArgumentError(f"{OPTION} is {level!r}; it must be 'keys', 'all' or 'none'")


def enforced(script: Script, level: str) -> Script:
    """Let a script enforce what a level says."""
    checks = level == "all" and any(ENFORCE_ALL in step.when for step in script.steps)
    return replace(
        script,
        flags=LEVELS[level],
        # Who looked at other rows must not be overtaken by those who change them.
        guarded=script.guarded or checks,
        validated_key=() if level == "none" else script.validated_key,
    )


def defended(script: Script) -> Script:
    """Let a script that checks keys or changes rows be seen by writers who check nothing."""
    if script.table is None or not script.guarded:
        return script
    return replace(script, flags=(*script.flags, DEFENDED))


def level_of(dialect: Any, options: Mapping[str, Any]) -> str:
    """Give the level that options ask for, or else the engine."""
    return checked_level(options.get(OPTION, dialect.enforce_constraints))


def schema_in_lake(
    names: Mapping[str | None, str | None], schema: str | None, default: str
) -> str:
    """Name the schema that is meant, as translated by ``schema_translate_map``."""
    return names.get(schema or None, schema) or default


def located(script: Script, names: Mapping[str | None, str | None], default: str) -> Script:
    """Name the schema that a script writes to, as translated by ``schema_translate_map``."""
    if script.table is None:
        return script
    schema, name = script.table
    return replace(script, table=(schema_in_lake(names, schema, default), name))


def only_if(level: str, steps: Iterable[PlannedStep]) -> Iterator[PlannedStep]:
    """Let steps run only where so much is enforced, if they do not know when to run."""
    for each in steps:
        when = each.step.when or (level,)
        yield replace(each, step=replace(each.step, when=when))


class ConstraintCompiler(SQLCompiler):
    """Compiles what constraints are made of."""

    def constraints_of(self, target: FromClause) -> Constraints:
        """Give what a table must satisfy; a lightweight table declares nothing."""
        if not isinstance(target, Table):
            return Constraints()
        intervals = [each for each in target.c if self._is_interval(each)]
        checks = [*self._checks_of(target), *storable_intervals(target, intervals)]
        return Constraints(foreign_keys_of(target), references_to(target), checks)

    def _is_interval(self, column: Column[Any]) -> bool:
        kind: Any = column.type.dialect_impl(self.dialect)
        return bool(getattr(kind, "impl", kind).__visit_name__ == "INTERVAL")

    def visit_ducklake_bare(self, element: Bare, **_: Any) -> str:
        """(<expression>)."""
        text = self.process(element.written, include_table=False, literal_binds=True)
        return f"({text})"

    def _checks_of(self, target: Table) -> list[Check]:
        own = [*target.constraints, *(each for c in target.c for each in c.constraints)]
        if not any(isinstance(each, CheckConstraint) for each in own):
            return []
        compiler = cast("Any", self.dialect.ddl_compiler)(self.dialect, None)
        return checks_of(target, tags.checks_of(target, compiler))
