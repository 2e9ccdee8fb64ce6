"""The commands: each gives rows, which are then printed."""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import duckdb
from sqlalchemy import Engine, MetaData, Table, create_engine, exc, make_url

from sqlalchemy_ducklake.cli.arguments import parser
from sqlalchemy_ducklake.cli.printing import Rows, progress_bar, show
from sqlalchemy_ducklake.dialect.url import discreet
from sqlalchemy_ducklake.lake.inventory import data_files, live_tables
from sqlalchemy_ducklake.maintenance import Policy, maintain
from sqlalchemy_ducklake.maintenance.steps import chosen_tables
from sqlalchemy_ducklake.snapshots import diff, snapshots, versions
from sqlalchemy_ducklake.snapshots.asking import driver_connection


def main(arguments: Sequence[str]) -> int:
    """Run a command and give its exit status: 0, or 1 with a message on standard error."""
    given = parser().parse_args(arguments)
    try:
        if make_url(given.url).get_backend_name() != "ducklake":
            raise exc.ArgumentError("the URL of a lake begins with ducklake")
        engine = create_engine(make_url(given.url))
        try:
            show(_COMMANDS[given.command](engine, given), as_json=given.json)
        finally:
            engine.dispose()
    except (exc.SQLAlchemyError, duckdb.Error) as error:
        sys.stderr.write(f"{_told(error)}\n")
        return 1
    return 0


def _told(error: Exception) -> str:
    """Write an error without SQL and background links; ours never hold a secret."""
    cause = getattr(error, "orig", None) or error
    return f"{type(cause).__name__}: {cause}"


def _tables(engine: Engine, _: argparse.Namespace) -> Rows:
    with engine.connect() as connection:
        duck, config = driver_connection(connection).reading()
        found = []
        for each in live_tables(duck, config):
            files = data_files(duck, config, each.id)
            found.append(
                {
                    "schema": each.schema,
                    "table": each.name,
                    "files": len(files),
                    "bytes": sum(f.size for f in files),
                    "rows in files": sum(f.rows - f.deleted for f in files),
                    "deleted": sum(f.deleted for f in files),
                }
            )
    return Rows(f"Tables of {discreet(engine.url)}", found)


def _snapshots(engine: Engine, given: argparse.Namespace) -> Rows:
    with engine.connect() as connection:
        if given.table is None:
            told: Iterator[dict[str, Any]] = (_row(each) for each in snapshots(connection))
        else:
            found = versions(connection, _table(engine, given.table))
            told = (
                {**_row(each.snapshot), "mode": each.mode, "parent": each.parent}
                for each in found
            )
        rows = list(itertools.islice(told, given.limit))
    return Rows(f"Snapshots of {discreet(engine.url)}", rows)


def _row(snapshot: Any) -> dict[str, Any]:
    return {
        "id": snapshot.id,
        "time": snapshot.time.isoformat(timespec="seconds"),
        "author": snapshot.author,
        "message": snapshot.message,
        "extra": snapshot.extra or None,
    }


def _diff(engine: Engine, given: argparse.Namespace) -> Rows:
    table = _table(engine, given.table)
    with engine.connect() as connection:
        found = diff(connection, table, given.first, given.last)
    counts = {
        name: getattr(found, name) for name in ("inserted", "updated", "deleted", "unchanged")
    }
    return Rows(f"{given.table} from {given.first} to {given.last}", [counts])


def _maintain(engine: Engine, given: argparse.Namespace) -> Rows:
    policy = Policy(
        expire_older_than=given.expire_older_than,
        delete_older_than=given.delete_older_than,
        tables=given.table,
    )
    with progress_bar(hidden=given.json) as progress:
        done = maintain(engine, policy, dry_run=given.dry_run, progress=progress)
    rows = [
        {
            "step": each.step,
            "table": each.table,
            "count": each.count,
            "merged files": each.merged,
            "items": list(each.items) or None,
        }
        for each in done
    ]
    return Rows("Would be done" if given.dry_run else "Done", rows)


def _table(engine: Engine, name: str) -> Table:
    ((schema, table),) = chosen_tables(engine, name)
    return Table(table, MetaData(), schema=schema, autoload_with=engine)


_COMMANDS: dict[str, Callable[[Engine, argparse.Namespace], Rows]] = {
    "diff": _diff,
    "maintain": _maintain,
    "snapshots": _snapshots,
    "tables": _tables,
}
