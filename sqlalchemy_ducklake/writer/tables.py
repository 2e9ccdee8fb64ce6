"""A table of rows, written at once: added, put in place of what is there, or merged."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Iterator
from typing import Any, Literal

from sqlalchemy import (
    Column,
    Connection,
    MetaData,
    Table,
    delete,
    exc,
    func,
    insert,
    inspect,
    select,
    union_all,
)
from sqlalchemy.sql.selectable import FromClause, Select

from sqlalchemy_ducklake.constructs.merge import merge, upsert
from sqlalchemy_ducklake.constructs.source import Batch, is_rows
from sqlalchemy_ducklake.dialect.execution import merge_result
from sqlalchemy_ducklake.merge.result import MergeResult

Mode = Literal["append", "replace", "merge"]


def write_table(
    connection: Connection, table: Any, source: Any, mode: Mode = "append"
) -> MergeResult:
    """Write the rows of a source into a table or mapped class.

    ``append`` adds them, and refuses a key that is there or comes twice.  ``replace`` puts
    them in place of all rows: in a table with a primary key by one merge, so rows that
    stay the same are not written; in one without, unless both hold the same rows the same
    number of times.  ``merge`` stores them by their key, like ``upsert``.

    ``source`` is whatever ``merge().using()`` takes.  An equal replace and an empty append
    make no snapshot.
    """
    target = inspect(table).local_table if hasattr(table, "__mapper__") else table
    if not isinstance(target, Table):
        raise exc.ArgumentError(f"{table} is no table to write")
    rows = _rows(source)
    if mode == "merge":
        return merge_result(connection.execute(upsert(target, rows)))
    if mode == "append":
        return _append(connection, target, rows)
    if mode == "replace":
        keyed = bool(list(target.primary_key))
        return (_replace_by_key if keyed else _replace)(connection, target, rows)
    raise exc.ArgumentError(f"mode is 'append', 'replace' or 'merge', not {mode!r}")


def _rows(source: Any) -> Any:
    if not hasattr(source, "__clause_element__") and is_rows(source):
        return Batch(source)
    return source.subquery("source") if isinstance(source, Select) else source


def _columns(target: Table, rows: FromClause) -> list[str]:
    """Give the columns to write, by name; refuse what the table has not."""
    unknown = [each.name for each in rows.c if each.name not in target.c]
    if unknown:
        raise exc.ArgumentError(f"{target} has no column {unknown}")
    return [each.name for each in target.c if each.name in rows.c]


def _append(connection: Connection, target: Table, rows: FromClause) -> MergeResult:
    names = _columns(target, rows)
    statement = insert(target).from_select(names, select(*(rows.c[name] for name in names)))
    return MergeResult(inserted=connection.execute(statement).rowcount)


def _replace_by_key(connection: Connection, target: Table, rows: FromClause) -> MergeResult:
    statement = merge(target).using(rows)
    values = {name: statement.source.c[name] for name in _columns(target, rows)}
    whole = {each.name: values.get(each.name) for each in target.c}
    key = {each.name for each in target.primary_key}
    changed = {name: value for name, value in whole.items() if name not in key}
    if changed:
        statement = statement.when_matched_update(changed)
    statement = statement.when_not_matched_insert(values).when_not_matched_by_source_delete()
    return merge_result(connection.execute(statement))


def _replace(connection: Connection, target: Table, rows: FromClause) -> MergeResult:
    names = _columns(target, rows)
    with _staged(connection, target, rows, names) as stage:
        if _differ(connection, target, stage, names):
            deleted = connection.execute(delete(target)).rowcount
            inserted = _append(connection, target, stage).inserted
            return MergeResult(inserted=inserted, deleted=deleted)
        kept = connection.scalar(select(func.count()).select_from(target))
        return MergeResult(unchanged=kept or 0)


@contextlib.contextmanager
def _staged(
    connection: Connection, target: Table, rows: FromClause, names: list[str]
) -> Iterator[Table]:
    """Keep the rows, as the target would hold them, for more than one reading."""
    columns = (Column(name, target.c[name].type) for name in names)
    name = f"_given_{secrets.token_hex(4)}"
    stage = Table(name, MetaData(), *columns, prefixes=["TEMPORARY"])
    stage.create(connection)
    try:
        _append(connection, stage, rows)
        yield stage
    except BaseException:
        with contextlib.suppress(exc.SQLAlchemyError):
            stage.drop(connection)
        raise
    stage.drop(connection)


def _differ(connection: Connection, target: Table, rows: FromClause, names: list[str]) -> bool:
    """Tell whether any row is in one of the two more often than in the other."""
    given = select(*(rows.c[name] for name in names))
    stored = select(*(target.c[name] for name in names))
    others = [each for each in target.c if each.name not in names]
    sides = union_all(given.except_all(stored), stored.except_all(given)).subquery("sides")
    if connection.scalar(select(func.count()).select_from(sides)):
        return True
    filled = [each.is_not(None) for each in others]
    return bool(filled) and bool(
        connection.scalar(select(func.count()).select_from(target).where(*filled))
    )
