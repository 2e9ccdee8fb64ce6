"""Logs, written into the lake.

First go the rows that are gone, of tables that refer to others first.  Then, of tables that
others refer to first, come the rows that changed and the new ones, in the order in which they
were made; rows that equal what the lake holds are left alone.  A row that took the key of one
that is gone replaces it in place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import duckdb

from sqlalchemy_ducklake.driver import Connection
from sqlalchemy_ducklake.driver.touch import touch
from sqlalchemy_ducklake.errors import StagedRowsLost
from sqlalchemy_ducklake.lake.attach import identifier
from sqlalchemy_ducklake.lake.changes import TableName
from sqlalchemy_ducklake.lake.marks import table_label
from sqlalchemy_ducklake.scope.log import FIRST_OWN_ROW, GONE, ROW, Log, opened

_GONE, _ROW = identifier(GONE), identifier(ROW)


#: Runs a statement on what is temporary, with its values.
Run = Callable[..., duckdb.DuckDBPyConnection]


class Amounts(NamedTuple):
    """How many rows a log holds that are gone from the lake, have changed, and are new."""

    gone: int
    changed: int
    new: int


@dataclass(frozen=True, slots=True)
class Writing:
    """The statements that write one log."""

    log: Log

    def amounts(self) -> str:
        """SELECT the amounts."""
        kinds = (
            f"count(*) FILTER (WHERE {known} AND {gone}{_GONE})"
            for known, gone in ((_KNOWN, ""), (_KNOWN, "NOT "), (_NEW, "NOT "))
        )
        return f"SELECT {', '.join(kinds)} FROM {self.log.name} WHERE {opened(self.log.name)}"

    def replace_in_place(self) -> Iterator[str]:
        """Let new rows take the place of rows that are gone and had their key."""
        log, key = self.log.name, [identifier(each) for each in self.log.key]
        same = " AND ".join(f"own.{name} = old.{name}" for name in key)
        pairs = (
            f"SELECT min(own.{_ROW}) AS mine, min(old.{_ROW}) AS place "
            f"FROM {log} AS own JOIN {log} AS old ON {same} "
            f"WHERE {opened('own')} AND NOT own.{_GONE} AND own.{_NEW} "
            f"AND {opened('old')} AND old.{_GONE} "
            f"GROUP BY {', '.join(f'own.{name}' for name in key)}"
        )
        yield (
            f"UPDATE {log} SET {_ROW} = pairs.place FROM ({pairs}) AS pairs "
            f"WHERE {opened(log)} AND {log}.{_ROW} = pairs.mine"
        )
        kept = f"SELECT {_ROW} FROM {log} WHERE {opened(log)} AND NOT {_GONE}"
        yield f"DELETE FROM {log} WHERE {opened(log)} AND {_GONE} AND {_ROW} IN ({kept})"

    def delete(self) -> str:
        """DELETE the rows that are gone."""
        # The key beside the row id lets the engine skip files.
        return (
            f"DELETE FROM {self.log.target} AS base USING {self._rows(_GONE)} AS own "
            f"WHERE {self._same_row(self._located)}"
        )

    def found(self) -> str:
        """SELECT how many changed rows are there."""
        return (
            f"SELECT count(*) FROM {self.log.target} AS base JOIN {self._changed} AS own "
            f"ON {self._same_row(self._located)}"
        )

    def update(self, columns: Iterable[str]) -> str:
        """UPDATE the rows that differ in one of these columns."""
        names = list(map(identifier, columns))
        values = ", ".join(f"{name} = own.{name}" for name in names)
        return (
            f"UPDATE {self.log.target} AS base SET {values} FROM {self._changed} AS own "
            f"WHERE {self._same_row(self._located)} AND ({_differs(columns)})"
        )

    def insert(self) -> str:
        """INSERT the new rows in the order in which they were made."""
        log = self.log
        names = ", ".join(identifier(each.name) for each in log.columns)
        where = f"{opened(log.name)} AND NOT {_GONE} AND {_NEW}"
        return (
            f"INSERT INTO {log.target} ({names}) SELECT {names} FROM {log.name} "
            f"WHERE {where} ORDER BY {_ROW}"
        )

    @property
    def _located(self) -> Iterable[str]:
        return () if self.log.moved else self.log.key

    @property
    def _changed(self) -> str:
        return self._rows(f"NOT {_GONE}")

    def _rows(self, which: str) -> str:
        where = f"{opened(self.log.name)} AND {_KNOWN} AND {which}"
        return f"(SELECT * FROM {self.log.name} WHERE {where})"

    def _same_row(self, key: Iterable[str]) -> str:
        names = map(identifier, key)
        same = [f"base.{name} = own.{name}" for name in names]
        return " AND ".join([*same, f"base.rowid = own.{_ROW}"])


_KNOWN = f"{_ROW} < {FIRST_OWN_ROW}"
_NEW = f"{_ROW} >= {FIRST_OWN_ROW}"


def _differs(columns: Iterable[str]) -> str:
    names = map(identifier, columns)
    return " OR ".join(f"base.{name} IS DISTINCT FROM own.{name}" for name in names) or "false"


def write_logs(connection: Connection, run: Run, logs: Iterable[Log]) -> None:
    """Write logs: rows that are gone, children first, then the others, parents first.

    Raises StagedRowsLost if rows of the lake are not there any more.
    """
    writers = [_Writer(connection, run, log) for log in parents_first(logs)]
    for each in reversed(writers):
        each.remove()
    for each in writers:
        each.store()


def parents_first(logs: Iterable[Log]) -> list[Log]:
    """Order tables by their foreign keys; those in a circle stay as they were."""
    named = {
        (schema.lower(), name.lower()): log for log in logs for schema, name in [log.table]
    }
    found: dict[TableName, Log] = {}
    begun: set[TableName] = set()

    def visit(name: TableName) -> None:
        if name not in named or name in begun:
            return
        begun.add(name)
        for schema, parent in sorted(named[name].parents):
            visit((schema.lower(), parent.lower()))
        found[name] = named[name]

    for name in named:
        visit(name)
    return list(found.values())


class _Writer:
    """Writes one log."""

    def __init__(self, connection: Connection, run: Run, log: Log) -> None:
        self._connection = connection
        self._run = run
        self._log = log
        self._writing = Writing(log)
        self._amounts = Amounts(0, 0, 0)
        self._assigned: Iterable[str] = sorted(log.assigned)
        self._deleted = 0

    def remove(self) -> None:
        """Delete the rows that are gone and whose key nobody took."""
        log, writing = self._log, self._writing
        self._count()
        if log.key and self._amounts.gone and self._amounts.new:
            for text in writing.replace_in_place():
                self._run(text)
            self._count()
            self._assigned = [each.name for each in log.columns]
        if self._amounts.gone:
            self._deleted = self._send(writing.delete())
            self._require(self._amounts.gone, self._deleted)

    def store(self) -> None:
        """Update rows that differ, and insert new ones."""
        counts = {"deleted": self._deleted, "updated": 0, "inserted": 0}
        if self._amounts.changed:
            counts["updated"] = self._send(self._writing.update(self._assigned))
            if counts["updated"] < self._amounts.changed:
                # The others ought to be there too, with these values already.
                (found,) = one_row(self._run(self._writing.found()))
                self._require(self._amounts.changed, found)
        if self._amounts.new:
            counts["inserted"] = self._send(self._writing.insert())
        if self._log.defended:
            touch(self._connection, self._log.table, counts)

    def _count(self) -> None:
        self._amounts = Amounts(*one_row(self._run(self._writing.amounts())))

    def _require(self, expected: int, found: int) -> None:
        if expected != found:
            raise StagedRowsLost(table_label(*self._log.table), expected, found)

    def _send(self, text: str) -> int:
        """Run a statement on the lake itself, and tell how many rows it changed."""
        (statement,) = self._connection.duck.extract_statements(text)
        self._connection.send(statement, {})
        return int(one_row(self._connection.duck)[0])


def one_row(duck: duckdb.DuckDBPyConnection) -> tuple[Any, ...]:
    """Fetch the one row that a statement answers."""
    row = duck.fetchone()
    assert row is not None
    return tuple(row)
