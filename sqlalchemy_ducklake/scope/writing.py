"""Logs, written into the lake.

First go the rows that are gone, of tables that refer to others first.  Then, of tables that
others refer to first, come the rows that changed and the new ones, in the order in which they
were made; rows that equal what the lake holds are left alone.  A row that took the key of one
that is gone replaces it in place.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import duckdb

from sqlalchemy_ducklake.driver import Connection
from sqlalchemy_ducklake.driver.touch import touch
from sqlalchemy_ducklake.errors import StagedRowsLost
from sqlalchemy_ducklake.lake.changes import TableName
from sqlalchemy_ducklake.lake.marks import table_label
from sqlalchemy_ducklake.scope.dml import Amounts, Writing
from sqlalchemy_ducklake.scope.log import Log, lowered
from sqlalchemy_ducklake.scope.straight import Straight

#: Runs a statement on what is temporary, with its values.
Run = Callable[..., duckdb.DuckDBPyConnection]


def write_logs(
    connection: Connection,
    run: Run,
    logs: Iterable[Log],
    straight: Mapping[TableName, Straight],
) -> None:
    """Write logs: rows that are gone, children first, then the others, parents first.

    Of some tables, named in lower case, the rows come ``straight`` from Python.  Raises
    StagedRowsLost if rows of the lake are not there any more.
    """
    with contextlib.ExitStack() as known:
        for batches in straight.values():
            known.enter_context(batches.known_to(connection))
        writers = [
            _Writer(connection, run, log, straight.get(lowered(log.table)))
            for log in parents_first(logs)
        ]
        for each in reversed(writers):
            each.remove()
        for each in writers:
            each.store()


def parents_first(logs: Iterable[Log]) -> list[Log]:
    """Order tables by their foreign keys; those in a circle stay as they were."""
    named = {lowered(log.table): log for log in logs}
    found: dict[TableName, Log] = {}
    begun: set[TableName] = set()

    def visit(name: TableName) -> None:
        if name not in named or name in begun:
            return
        begun.add(name)
        for parent in sorted(named[name].parents):
            visit(lowered(parent))
        found[name] = named[name]

    for name in named:
        visit(name)
    return list(found.values())


class _Writer:
    """Writes one log, or what is ``straight`` from Python in place of one."""

    def __init__(
        self, connection: Connection, run: Run, log: Log, straight: Straight | None
    ) -> None:
        self._connection = connection
        self._run = run
        self._log = log
        self._straight = straight
        self._writing = Writing.of_log(log) if straight is None else straight.writing()
        self._amounts = Amounts(0, 0, 0)
        self._assigned = sorted(log.assigned) if straight is None else straight.assigned
        self._deleted = 0

    def remove(self) -> None:
        """Delete the rows that are gone and whose key nobody took."""
        log, writing = self._log, self._writing
        self._count()
        logged = self._straight is None
        if logged and log.key and self._amounts.gone and self._amounts.new:
            for text in writing.replace_in_place():
                self._run(text)
            self._count()
            self._assigned = [each.name for each in log.columns]
        if self._amounts.gone:
            self._deleted = self._send(writing.delete(), writing.values)
            self._require(self._amounts.gone, self._deleted)

    def store(self) -> None:
        """Update rows that differ, and insert new ones."""
        counts = {"deleted": self._deleted, "updated": 0, "inserted": 0}
        writing = self._writing
        if self._amounts.changed:
            counts["updated"] = self._send(writing.update(self._assigned), writing.values)
            if counts["updated"] < self._amounts.changed:
                # The others ought to be there too, with these values already.
                (found,) = one_row(self._run(writing.found(), writing.values))
                self._require(self._amounts.changed, found)
        if self._amounts.new:
            counts["inserted"] = self._send(writing.insert())
        if self._log.defended:
            touch(self._connection, self._log.table, counts)

    def _count(self) -> None:
        if self._straight is not None:
            self._amounts = self._straight.amounts
        else:
            self._amounts = Amounts(*one_row(self._run(self._writing.amounts())))

    def _require(self, expected: int, found: int) -> None:
        if expected != found:
            raise StagedRowsLost(table_label(*self._log.table), expected, found)

    def _send(self, text: str, values: Sequence[Any] = ()) -> int:
        """Run a statement on the lake itself, and tell how many rows it changed."""
        (statement,) = self._connection.duck.extract_statements(text)
        self._connection.send(statement, values)
        return int(one_row(self._connection.duck)[0])


def one_row(duck: duckdb.DuckDBPyConnection) -> tuple[Any, ...]:
    """Fetch the one row that a statement answers."""
    row = duck.fetchone()
    assert row is not None
    return tuple(row)
