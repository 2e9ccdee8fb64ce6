"""A table of rows, written at once: added, put in place of what is there, or merged."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Iterator, Mapping
from typing import Any, Literal

import pyarrow as pa
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
from sqlalchemy.orm import Session
from sqlalchemy.sql.selectable import FromClause, Select

from sqlalchemy_ducklake.constructs.merge import merge, upsert
from sqlalchemy_ducklake.constructs.source import Batch, is_rows
from sqlalchemy_ducklake.dialect.execution import merge_result
from sqlalchemy_ducklake.merge.result import MergeResult
from sqlalchemy_ducklake.snapshots.asking import driver_connection, name_of

Mode = Literal["append", "replace", "merge"]


def write_table(
    connection: Connection | Session,
    table: Any,
    source: Any,
    mode: Mode = "append",
    **options: Any,
) -> MergeResult:
    """Write the rows of a source into a table or mapped class.

    ``append`` adds them, and refuses a key that is there or comes twice.  ``replace`` puts
    them in place of all rows: in a table with a primary key by one merge, so rows that
    stay the same are not written; in one without, unless both hold the same rows the same
    number of times.  ``merge`` stores them by their key, like ``upsert``.

    ``source`` is whatever ``merge().using()`` takes.  An equal replace and an empty append
    make no snapshot.

    With options (keywords of :class:`WriteOptions`: sizes, compression, order, …) rows are
    appended or replaced as :func:`table_writer` does it; then the source may be any
    iterable of dictionaries, and the connection must have a transaction.
    """
    if options:
        return _write_with_options(connection, table, source, mode, options)
    if isinstance(connection, Session):
        connection = connection.connection()
    target = inspect(table).local_table if hasattr(table, "__mapper__") else table
    if not isinstance(target, Table):
        raise exc.ArgumentError(f"{table} is no table to write")
    rows = _rows(source, target)
    if mode == "merge":
        return merge_result(connection.execute(upsert(target, rows)))
    if mode == "append":
        return _append(connection, target, rows)
    if mode == "replace":
        keyed = bool(list(target.primary_key))
        result = (_replace_by_key if keyed else _replace)(connection, target, rows)
        work = driver_connection(connection).work
        work.note_mode(name_of(connection, target), "replace")
        return result
    raise exc.ArgumentError(f"mode is 'append', 'replace' or 'merge', not {mode!r}")


def _write_with_options(
    connection: Connection | Session,
    table: Any,
    source: Any,
    mode: Mode,
    options: Mapping[str, Any],
) -> MergeResult:
    # The writer replaces rows by write_table.
    from sqlalchemy_ducklake.writer.streaming import table_writer

    if mode == "merge":
        raise exc.ArgumentError("a merge takes no options of files; upsert() has its own")
    with table_writer(connection, table, mode, **options) as writer:
        writer.write(source)
    return MergeResult(inserted=writer.result.rows, deleted=writer.result.deleted)


def _rows(source: Any, target: Table) -> Any:
    if isinstance(source, list | tuple) and not source:
        return Batch(pa.table({each.name: pa.nulls(0) for each in target.c}))
    if not hasattr(source, "__clause_element__") and is_rows(source):
        return Batch(source)
    return source.subquery("source") if isinstance(source, Select) else source


def _columns(target: Table, rows: FromClause) -> dict[str, Column[Any]]:
    """Give the columns to write, by name; refuse what the table has not."""
    by_name = {each.name: each for each in target.c}
    unknown = [each.name for each in rows.c if each.name not in by_name]
    if unknown:
        raise exc.ArgumentError(f"{target} has no column {unknown}")
    given = {each.name for each in rows.c}
    return {name: column for name, column in by_name.items() if name in given}


def _append(connection: Connection, target: Table, rows: FromClause) -> MergeResult:
    columns = _columns(target, rows)
    source = select(*(rows.c[name] for name in columns))
    statement = insert(target).from_select(list(columns.values()), source)
    return MergeResult(inserted=connection.execute(statement).rowcount)


def _replace_by_key(connection: Connection, target: Table, rows: FromClause) -> MergeResult:
    statement = merge(target).using(rows)
    given = _columns(target, rows)
    values = {column.key: statement.source.c[name] for name, column in given.items()}
    key = {each.name for each in target.primary_key}
    changed = {each.key: values.get(each.key) for each in target.c if each.name not in key}
    if changed:
        statement = statement.when_matched_update(changed)
    statement = statement.when_not_matched_insert(values).when_not_matched_by_source_delete()
    return merge_result(connection.execute(statement))


def _replace(connection: Connection, target: Table, rows: FromClause) -> MergeResult:
    names = list(_columns(target, rows))
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
    columns = (Column(each.name, each.type) for each in target.c if each.name in names)
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
    by_name = {each.name: each for each in target.c}
    stored = select(*(by_name[name] for name in names))
    others = [each for each in target.c if each.name not in names]
    sides = union_all(given.except_all(stored), stored.except_all(given)).subquery("sides")
    if connection.scalar(select(func.count()).select_from(sides)):
        return True
    filled = [each.is_not(None) for each in others]
    return bool(filled) and bool(
        connection.scalar(select(func.count()).select_from(target).where(*filled))
    )
