"""The log of one table, written into the lake.

First come the rows that are gone, then those that changed, then the new ones in the order
in which they were made; rows that equal what the lake holds are left alone.  A row that
took the key of one that is gone replaces it in place.
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

    def differing(self, columns: Iterable[str]) -> str:
        """SELECT how many changed rows are there, and how many of them differ."""
        differs = _differs(columns)
        return (
            f"SELECT count(*), count(*) FILTER (WHERE {differs}) "
            f"FROM {self.log.target} AS base JOIN {self._changed} AS own "
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


def write_log(connection: Connection, run: Run, log: Log) -> None:
    """Write one log: rows that are gone, changed rows, new rows.

    Raises StagedRowsLost if rows of the lake are not there any more.
    """
    writing = Writing(log)
    amounts = Amounts(*one_row(run(writing.amounts())))
    columns: Iterable[str] = sorted(log.assigned)
    if log.key and amounts.gone and amounts.new:
        for text in writing.replace_in_place():
            run(text)
        amounts = Amounts(*one_row(run(writing.amounts())))
        columns = [each.name for each in log.columns]
    counts = {"deleted": 0, "updated": 0, "inserted": 0}
    if amounts.gone:
        counts["deleted"] = _send(connection, writing.delete())
        _require(log, amounts.gone, counts["deleted"])
    if amounts.changed:
        found, differing = one_row(run(writing.differing(columns)))
        _require(log, amounts.changed, found)
        if differing:
            counts["updated"] = _send(connection, writing.update(columns))
    if amounts.new:
        counts["inserted"] = _send(connection, writing.insert())
    if log.defended:
        touch(connection, log.table, counts)


def one_row(duck: duckdb.DuckDBPyConnection) -> tuple[Any, ...]:
    """Fetch the one row that a statement answers."""
    row = duck.fetchone()
    assert row is not None
    return tuple(row)


def _require(log: Log, expected: int, found: int) -> None:
    if expected != found:
        raise StagedRowsLost(table_label(*log.table), expected, found)


def _send(connection: Connection, text: str) -> int:
    """Run a statement on the lake itself, and tell how many rows it changed."""
    (statement,) = connection.duck.extract_statements(text)
    connection.send(statement, {})
    return int(one_row(connection.duck)[0])
