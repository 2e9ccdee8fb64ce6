"""What upkeep does, step by step, each safe alone.

Compaction and flushing run for one table at a time, each in a transaction of its own.  A
dry run of a compaction asks the engine for its plan, which has a node for each file that
would be made; to do the work and roll it back would leave that file behind (1.5.5).  A
dry run of flushing is rolled back, and what deletes gives a list.

A step that another writer overtook is run again, from the second time on with the lock of
the lake.  The file that a lost compaction had written stays until ``delete_orphans``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Engine

from sqlalchemy_ducklake.dialect.transactions import run_transaction
from sqlalchemy_ducklake.driver import Connection as DriverConnection
from sqlalchemy_ducklake.errors import OptionError, ReadOnlyLake, TableNotThen, UnknownSnapshot
from sqlalchemy_ducklake.lake.catalogs import SQLiteCatalog
from sqlalchemy_ducklake.lake.changes import TableName, pinned_snapshot
from sqlalchemy_ducklake.lake.history import snapshot_at
from sqlalchemy_ducklake.lake.inventory import live_tables
from sqlalchemy_ducklake.lake.marks import table_label
from sqlalchemy_ducklake.maintenance.patience import patiently
from sqlalchemy_ducklake.snapshots.asking import driver_connection, name_of, target_of

#: Tables to care for: all (None), one, or a list of them; each is a Table, a mapped class, a
#: name like ``"t"`` or ``"schema.t"``, or a pair of both names.
Scope = Any

#: How old what is thrown away must be, where nobody says.
WEEK = timedelta(days=7)

_MERGE = """CALL ducklake_merge_adjacent_files($1, $2, schema => $3,
    max_compacted_files => $4)"""
_REWRITE = "CALL ducklake_rewrite_data_files($1, $2, schema => $3, delete_threshold => $4)"
_FLUSH = "CALL ducklake_flush_inlined_data($1, table_name => $2, schema_name => $3)"
_OLD = "CALL ducklake_expire_snapshots($1, older_than => $2, dry_run => true)"
_EXPIRE = "CALL ducklake_expire_snapshots($1, versions => $2, dry_run => $3)"
_CLEAN = "CALL ducklake_cleanup_old_files($1, older_than => $2, dry_run => $3)"
_ORPHANS = "CALL ducklake_delete_orphaned_files($1, older_than => $2, dry_run => $3)"

_MANY = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class Upkeep:
    """What a step did, or would do.

    ``count`` is the number of files that are made in place of others, of rows that move
    into files, or of the snapshots or paths that go, which are the ``items``.  ``merged``
    files were read to make the others; no dry run can tell it.
    """

    step: str
    table: str | None = None
    count: int = 0
    items: tuple[int | str, ...] = ()
    merged: int | None = field(default=None, compare=False)


def merge_small_files(
    engine: Engine, tables: Scope = None, *, max_files: int | None = None, dry_run: bool = False
) -> list[Upkeep]:
    """Make few files of many small ones, inside each partition.

    At most ``max_files`` files of a table are written at once.  What time travel and the
    change feed read stays.
    """
    most = _positive("max_files", max_files) or _MANY
    return _per_table(engine, "merge_small_files", tables, _MERGE, [most], dry_run=dry_run)


def rewrite_deleted(
    engine: Engine, tables: Scope = None, *, threshold: float = 0.95, dry_run: bool = False
) -> list[Upkeep]:
    """Write files anew of whose rows more than ``threshold`` (0 to 1) are deleted."""
    if isinstance(threshold, bool) or not 0 <= threshold <= 1:
        raise OptionError("threshold", f"is a share from 0 to 1, not {threshold!r}")
    arguments = [float(threshold)]
    return _per_table(engine, "rewrite_deleted", tables, _REWRITE, arguments, dry_run=dry_run)


def flush_inlined(
    engine: Engine, tables: Scope = None, *, dry_run: bool = False
) -> list[Upkeep]:
    """Move rows that are kept in the catalog into data files."""
    return _per_table(engine, "flush_inlined", tables, _FLUSH, [], dry_run=dry_run)


def expire_snapshots(
    engine: Engine,
    *,
    older_than: timedelta | datetime | None = None,
    versions: Sequence[int] = (),
    dry_run: bool = False,
) -> Upkeep:
    """Forget snapshots of these numbers, or older than an age or a time (a week).

    The newest one stays in any case.  Raises UnknownSnapshot for a number that is none.
    """
    refuse_read_only(engine, "expire_snapshots")
    chosen = list(versions) or old_snapshots(engine, older_than)

    def run(connection: Connection) -> list[Any]:
        own = driver_connection(connection)
        duck, config = own.reading()
        head = pinned_snapshot(duck, config)
        for number in versions:
            if snapshot_at(duck, config, number) == head:
                raise UnknownSnapshot(number, None, head - 1)
        alias = own.config.alias
        return own.cursor().execute(_EXPIRE, [alias, chosen, dry_run]).fetchall()

    rows = _run(engine, run, dry_run=dry_run, alone=True) if chosen else []
    numbers = tuple(sorted(row[0] for row in rows))
    return Upkeep("expire_snapshots", count=len(numbers), items=numbers)


def old_snapshots(engine: Engine, older_than: timedelta | datetime | None = None) -> list[int]:
    """Give the snapshots that are older than an age or a time, without the newest."""
    cutoff = moment(older_than)

    def run(connection: Connection) -> list[Any]:
        own = driver_connection(connection)
        return own.cursor().execute(_OLD, [own.config.alias, cutoff]).fetchall()

    return sorted(row[0] for row in _run(engine, run, dry_run=True))


def cleanup_files(
    engine: Engine, *, older_than: timedelta | datetime | None = None, dry_run: bool = False
) -> Upkeep:
    """Delete files that no snapshot needs, for an age or since a time (a week)."""
    return _delete(engine, "cleanup_files", _CLEAN, older_than, dry_run=dry_run)


def delete_orphans(
    engine: Engine, *, older_than: timedelta | datetime | None = None, dry_run: bool = False
) -> Upkeep:
    """Delete files of the lake's directory that the catalog does not know.

    Writers that died left them, and writers that are at work are writing them: only those
    that are older than an age or a time (a week) go.
    """
    return _delete(engine, "delete_orphans", _ORPHANS, older_than, dry_run=dry_run)


def moment(older_than: timedelta | datetime | None) -> datetime:
    """Give the time before which something is old; raises OptionError for the future."""
    now = datetime.now(UTC)
    if isinstance(older_than, datetime):
        found = older_than.replace(tzinfo=older_than.tzinfo or UTC)
    else:
        age = WEEK if older_than is None else older_than
        if not isinstance(age, timedelta):
            raise OptionError("older_than", f"is an age or a time, not {age!r}")
        found = now - age
    if found > now:
        raise OptionError("older_than", "lies in the future; that would delete what is in use")
    return found


def chosen_tables(engine: Engine, tables: Scope) -> list[TableName]:
    """Give the tables of a scope by schema and name; raises TableNotThen for another."""
    return patiently(lambda: _chosen(engine, tables))


def _chosen(engine: Engine, tables: Scope) -> list[TableName]:
    with engine.connect() as connection:
        duck, config = driver_connection(connection).reading()
        known = [(each.schema, each.name) for each in live_tables(duck, config)]
        if tables is None:
            return known
        several = tables if isinstance(tables, list | set | frozenset) else [tables]
        found = []
        for wanted in several:
            name = _found(connection, wanted, known)
            if name is None:
                head = pinned_snapshot(duck, config)
                raise TableNotThen(_told(connection, wanted), head, None, None)
            found.append(name)
        return found


def _found(connection: Connection, wanted: Any, known: Sequence[TableName]) -> TableName | None:
    """Find a table by what names it; case does not count, and names may hold points."""
    told = _told(connection, wanted).lower()
    if isinstance(wanted, str):
        default = connection.dialect.default_schema_name or ""
        texts = {f"{default}.{wanted}".lower(), wanted.lower()}
        return next((each for each in known if ".".join(each).lower() in texts), None)
    return next((each for each in known if table_label(*each).lower() == told), None)


def _told(connection: Connection, wanted: Any) -> str:
    if isinstance(wanted, str):
        default = connection.dialect.default_schema_name or ""
        return wanted if "." in wanted else f"{default}.{wanted}"
    if isinstance(wanted, tuple):
        return table_label(*wanted)
    return table_label(*name_of(connection, target_of(wanted)))


def _per_table(
    engine: Engine,
    step: str,
    tables: Scope,
    statement: str,
    arguments: list[Any],
    *,
    dry_run: bool,
) -> list[Upkeep]:
    refuse_read_only(engine, step)
    names = chosen_tables(engine, tables)
    results = (_one(engine, step, each, statement, arguments, dry_run) for each in names)
    return [each for found in results for each in found]


def _one(
    engine: Engine,
    step: str,
    name: TableName,
    statement: str,
    arguments: list[Any],
    dry_run: bool,
) -> Iterator[Upkeep]:
    schema, table = name

    def run(connection: Connection) -> list[Any]:
        own = driver_connection(connection)
        _describe(own, f"{step} {table_label(*name)}")
        values = [own.config.alias, table, schema, *arguments]
        return own.cursor().execute(statement, values).fetchall()

    if dry_run and statement is not _FLUSH:
        values = [table, schema, *arguments]
        count, merged = patiently(lambda: _planned(engine, values, statement)), None
    else:
        rows = _run(engine, run, dry_run=dry_run)
        flushed = statement is _FLUSH
        count = sum(row[2] for row in rows) if flushed else len(rows)
        merged = None if flushed else sum(row[2] for row in rows)
    if count:
        yield Upkeep(step, table_label(*name), count, merged=merged)


def _describe(own: DriverConnection, message: str) -> None:
    """Let the snapshot say what was done, if the connection has nothing to say."""
    if own.commit_info.message is None:
        own.work.info = replace(own.commit_info, message=message)


def _planned(engine: Engine, arguments: list[Any], statement: str) -> int:
    """Count the compactions that the engine plans for a statement."""
    with engine.connect() as connection:
        own = driver_connection(connection)
        duck, config = own.reading()
        query = f"EXPLAIN (FORMAT json) {statement}"
        row = duck.execute(query, [config.alias, *arguments]).fetchone()
    plan = [] if row is None else json.loads(row[1])
    return sum(map(_compactions, plan))


def _compactions(node: dict[str, Any]) -> int:
    below = sum(map(_compactions, node.get("children", ())))
    return below + (node.get("name") == "DUCKLAKE_COMPACTION")


def _delete(
    engine: Engine,
    step: str,
    statement: str,
    older_than: timedelta | datetime | None,
    *,
    dry_run: bool,
) -> Upkeep:
    refuse_read_only(engine, step)
    cutoff = moment(older_than)

    def run(connection: Connection) -> list[Any]:
        own = driver_connection(connection)
        return own.cursor().execute(statement, [own.config.alias, cutoff, dry_run]).fetchall()

    rows = _run(engine, run, dry_run=dry_run, alone=True)
    paths = tuple(sorted(row[0] for row in rows))
    return Upkeep(step, count=len(paths), items=paths)


def _run(engine: Engine, run: Any, *, dry_run: bool, alone: bool = False) -> list[Any]:
    if not dry_run:
        held = alone or _is_sqlite(engine)
        return patiently(lambda: run_transaction(engine, run, alone=held))
    return patiently(lambda: _rolled_back(engine, run))


def _rolled_back(engine: Engine, run: Any) -> list[Any]:
    with engine.connect().execution_options(isolation_level="SNAPSHOT") as connection:
        rows: list[Any] = run(connection)
        connection.rollback()
        return rows


def _is_sqlite(engine: Engine) -> bool:
    """Tell whether any other writer of the catalog would be in the way."""
    with engine.connect() as connection:
        return isinstance(driver_connection(connection).config.catalog, SQLiteCatalog)


def refuse_read_only(engine: Engine, step: str) -> None:
    """Raise ReadOnlyLake if an engine cannot change its lake."""
    with engine.connect() as connection:
        if driver_connection(connection).config.read_only:
            raise ReadOnlyLake(step)


def _positive(option: str, value: int | None) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise OptionError(option, f"is a whole number above 0, not {value!r}")
    return value
