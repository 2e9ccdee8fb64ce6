"""What the rows of a table must satisfy before a migration may promise it.

Each audit is one SELECT; the error of what it finds names up to three offenders.  Who asks
decides how: a run asks the lake, an offline script asks when it is run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, exists, func, literal_column, not_, select
from sqlalchemy.engine import Connection
from sqlalchemy.sql import TableClause, column, table

from sqlalchemy_ducklake.alembic.refusals import MigrationRefused
from sqlalchemy_ducklake.alembic.tables import LakeTable
from sqlalchemy_ducklake.dialect.texts import columns_in
from sqlalchemy_ducklake.errors import AmbiguousKeys, CheckViolation, ForeignKeyViolation
from sqlalchemy_ducklake.keys import Check, ForeignKey

#: How many offenders an error names.
EXAMPLES = 3
#: Gives the rows of a query; an offline script gives none, and asks later.
Ask = Callable[[Select[Any]], Sequence[tuple[Any, ...]]]


def require_new(ask: Ask, before: LakeTable, after: LakeTable) -> None:
    """Require of the rows what ``after`` promises and ``before`` did not."""
    for one in _new(before.constraints.unique_keys(), after.constraints.unique_keys()):
        require_unique(ask, after, one.columns)
    for key in _new(before.constraints.foreign_keys, after.constraints.foreign_keys):
        _require_parents(ask, after, key)
    for check in _new(before.constraints.checks, after.constraints.checks):
        _require_check(ask, after, check)


def require_unique(ask: Ask, of: LakeTable, columns: Sequence[str]) -> None:
    """Raise AmbiguousKeys if two rows share values, none of them NULL, in ``columns``."""
    target = clause(of)
    key = [target.c[of.column(name).name] for name in columns]
    query = (
        select(*key)
        .where(*(each.is_not(None) for each in key))
        .group_by(*key)
        .having(func.count() > literal_column("1"))
    )
    examples = ask(query.limit(EXAMPLES))
    if examples:
        raise AmbiguousKeys(of.name, columns, examples)


def require_no_null(ask: Ask, of: LakeTable, name: str) -> None:
    """Raise MigrationRefused if a row has NULL in a column."""
    target = clause(of)
    rows = ask(select(*_shown(of, target)).where(target.c[name].is_(None)).limit(EXAMPLES))
    if rows:
        found = ", ".join(repr(tuple(row)) for row in rows)
        raise MigrationRefused(
            of.name,
            f"rows have NULL in column {name!r}, for example {found}",
            "fill it with op.execute(update(…)) first",
        )


def require_length(ask: Ask, of: LakeTable, name: str, length: int) -> None:
    """Raise MigrationRefused if a text is longer than a column is to say."""
    target = clause(of)
    query = select(target.c[name]).where(func.length(target.c[name]) > length)
    rows = ask(query.limit(EXAMPLES))
    if rows:
        found = ", ".join(repr(value) for (value,) in rows)
        raise MigrationRefused(
            of.name,
            f"column {name!r} holds texts longer than {length}, for example {found}",
            "shorten them first",
        )


def has_rows(connection: Connection, of: LakeTable) -> bool:
    """Tell whether a table has any row."""
    rows: Select[Any] = select(literal_column("1")).select_from(clause(of))
    return connection.scalar(select(exists(rows))) is True


def clause(of: LakeTable) -> TableClause:
    """Return a table for queries."""
    return table(of.name, *map(column, of.columns), schema=of.schema)


def _require_parents(ask: Ask, of: LakeTable, key: ForeignKey) -> None:
    child = clause(of)
    parent = table(key.table, *map(column, key.referred), schema=key.schema or of.schema).alias(
        "parent"
    )
    values = [child.c[of.column(name).name] for name in key.columns]
    same = [parent.c[there] == value for there, value in zip(key.referred, values, strict=True)]
    there: Select[Any] = select(literal_column("1")).select_from(parent).where(and_(*same))
    query = (
        select(*values)
        .where(*(value.is_not(None) for value in values), ~exists(there.correlate(child)))
        .distinct()
    )
    examples = ask(query.limit(EXAMPLES))
    if examples:
        referred = (key.table, key.referred)
        raise ForeignKeyViolation(of.name, key.name, key.columns, referred, examples)


def _require_check(ask: Ask, of: LakeTable, check: Check) -> None:
    target = clause(of)
    read = [name for name in of.columns if name.lower() in columns_in(check.sqltext)]
    shown = list(dict.fromkeys((*of.key.columns, *read))) or list(of.columns)
    condition: ColumnElement[bool] = literal_column(f"({check.sqltext})")
    query = select(*(target.c[name] for name in shown)).where(not_(condition))
    examples = ask(query.limit(EXAMPLES))
    if examples:
        raise CheckViolation(of.name, check.name, check.sqltext, shown, examples)


def _shown(of: LakeTable, target: TableClause) -> list[Any]:
    """Return what tells of a row: its key, or else all of it."""
    return [target.c[each] for each in of.key.columns or of.columns]


def _new(before: Any, after: Any) -> list[Any]:
    there = list(before)
    return [one for one in after if one not in there]
