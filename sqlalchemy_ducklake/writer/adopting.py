"""Parquet files that are there already as part of a table, without copying them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
from sqlalchemy import Connection, Table, bindparam, column, exc, func, or_, select
from sqlalchemy.orm import Session
from sqlalchemy.sql.selectable import FromClause
from sqlalchemy.types import NullType

from sqlalchemy_ducklake.driver import Connection as DriverConnection
from sqlalchemy_ducklake.errors import FileRefused, KeyViolation, NullsRefused
from sqlalchemy_ducklake.lake.changes import TableName, pinned_snapshot, table_id
from sqlalchemy_ducklake.lake.layouts import is_partitioned
from sqlalchemy_ducklake.lake.marks import table_label
from sqlalchemy_ducklake.lake.written import files_of
from sqlalchemy_ducklake.merge.checks import Key, keys_of
from sqlalchemy_ducklake.snapshots.asking import (
    core_connection,
    driver_connection,
    name_of,
    target_of,
)

_ADD = """CALL ducklake_add_data_files($1, $2, $3, schema => $4, allow_missing => $5,
    ignore_extra_columns => $6, hive_partitioning => $7)"""
_EXAMPLES = 3


def add_files(
    connection: Connection | Session,
    table: Any,
    paths: str | Sequence[str],
    *,
    allow_missing: bool = False,
    ignore_extra_columns: bool = False,
    hive_partitioning: bool = False,
) -> int:
    """Make Parquet files part of a table, and give the number of their rows.

    The lake owns them from now on: upkeep may merge and delete them.  Columns are matched
    by name.  In a partitioned table the files must stand in ``key=value`` directories, and
    ``hive_partitioning`` says so.

    The engine checks neither NULL nor keys nor whether it has a file already; this does,
    and reads the columns that it takes.  Raises FileRefused, NullsRefused, KeyViolation.
    """
    target, name = target_of(table), name_of(connection, target_of(table))
    own, given = driver_connection(connection), [paths] if isinstance(paths, str) else paths
    real = [_real(each) for each in given]
    _refuse_known(own, name, real)
    if not hive_partitioning:
        _refuse_partitioned(own, name, real)
    files = _read(target, real)
    core = core_connection(connection)
    label = table_label(*name)
    try:
        rows = core.scalar(select(func.count()).select_from(files)) or 0
    except exc.DBAPIError as error:
        raise FileRefused(label, real[0], _reason(error.orig)) from error
    _refuse_nulls(core, target, files, label, absent=allow_missing)
    for key in keys_of(target):
        _refuse_duplicates(core, target, files, key)
    how = [allow_missing, ignore_extra_columns, hive_partitioning]
    try:
        own.cursor().execute(_ADD, [own.config.alias, name[1], real, name[0], *how])
    except duckdb.Error as error:
        raise FileRefused(label, real[0], _reason(error)) from error
    return rows


def _reason(error: BaseException | None) -> str:
    return " ".join(str(error).split())


def _real(path: str) -> str:
    return path if "://" in path else str(Path(path).expanduser().resolve())


def _read(target: Table, paths: Sequence[str]) -> FromClause:
    bound = bindparam("paths", list(paths), type_=NullType(), unique=True)
    columns = [column(each.name, each.type) for each in target.c]
    return func.read_parquet(bound).table_valued(*columns, name="files")


def _refuse_known(own: DriverConnection, name: TableName, paths: Sequence[str]) -> None:
    label = table_label(*name)
    if not paths:
        raise FileRefused(label, "", "no file was named")
    known = files_of(*own.reading(), name)
    for place, path in enumerate(paths):
        if path in known:
            raise FileRefused(label, path, "the lake has it already")
        if path in paths[:place]:
            raise FileRefused(label, path, "it is named twice")
        if "://" not in path and not Path(path).is_file():
            raise FileRefused(label, path, "there is no such file")


def _refuse_partitioned(own: DriverConnection, name: TableName, paths: Sequence[str]) -> None:
    duck, config = own.reading()
    identity = table_id(duck, config, name, pinned_snapshot(duck, config))
    if identity is not None and is_partitioned(duck, config, identity):
        raise FileRefused(
            table_label(*name),
            paths[0],
            "the table is partitioned, so its rows need a partition: put the file into "
            "key=value directories and say hive_partitioning=True, or write its rows",
        )


def _refuse_nulls(
    core: Connection, target: Table, files: FromClause, label: str, *, absent: bool
) -> None:
    required = [each.name for each in target.c if not each.nullable]
    if not required or absent:
        # Columns that are missing altogether read as NULL: the engine says which.
        return
    some = select(files).where(or_(*(files.c[each].is_(None) for each in required)))
    row = core.execute(some.limit(1)).first()
    if row is not None:
        nulls = [each for each in required if row._mapping[each] is None]  # noqa: SLF001
        raise NullsRefused(label, nulls)


def _refuse_duplicates(core: Connection, target: Table, files: FromClause, key: Key) -> None:
    inside = [files.c[each] for each in key.names]
    present = [each.is_not(None) for each in inside]
    again = select(*inside).where(*present).group_by(*inside).having(func.count() > 1)
    known = select(*inside).where(
        *present,
        select(1)
        .select_from(target)
        .where(*(target.c[c.key] == files.c[c.name] for c in key.columns))
        .exists(),
    )
    for query in (again, known):
        examples = core.execute(query.limit(_EXAMPLES)).all()
        if examples:
            raise KeyViolation(
                key.table, key.name, key.names, [tuple(each) for each in examples]
            )
