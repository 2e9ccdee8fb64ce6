"""The statements that write the rows of one table into the lake."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy_ducklake.lake.attach import identifier
from sqlalchemy_ducklake.scope.log import FIRST_OWN_ROW, GONE, ROW, Log, opened

_GONE, _ROW = identifier(GONE), identifier(ROW)
_KNOWN = f"{_ROW} < {FIRST_OWN_ROW}"
_NEW = f"{_ROW} >= {FIRST_OWN_ROW}"


class Amounts(NamedTuple):
    """How many rows are gone from the lake, have changed, and are new."""

    gone: int
    changed: int
    new: int


@dataclass(frozen=True, slots=True)
class Writing:
    """The statements that write the rows of one table.

    ``gone``, ``changed`` and ``new`` are what to read them from; ``bounds`` is a condition
    on the lake's rows besides, which takes ``values``.
    """

    log: Log
    gone: str
    changed: str
    new: str
    bounds: str = ""
    values: Sequence[Any] = ()

    @classmethod
    def of_log(cls, log: Log) -> Writing:
        """Write what the log holds."""

        def rows(which: str) -> str:
            return f"(SELECT * FROM {log.name} WHERE {opened(log.name)} AND {which})"

        return cls(
            log,
            rows(f"{_KNOWN} AND {_GONE}"),
            rows(f"{_KNOWN} AND NOT {_GONE}"),
            rows(f"{_NEW} AND NOT {_GONE}"),
        )

    def amounts(self) -> str:
        """SELECT the amounts that the log holds."""
        kinds = (
            f"count(*) FILTER (WHERE {known} AND {gone}{_GONE})"
            for known, gone in ((_KNOWN, ""), (_KNOWN, "NOT "), (_NEW, "NOT "))
        )
        return f"SELECT {', '.join(kinds)} FROM {self.log.name} WHERE {opened(self.log.name)}"

    def replace_in_place(self) -> Iterator[str]:
        """Let new rows of the log take the place of rows that are gone and had their key."""
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
        return (
            f"DELETE FROM {self.log.target} AS base USING {self.gone} AS own "
            f"WHERE {self._same_row}"
        )

    def found(self) -> str:
        """SELECT how many changed rows are there."""
        return (
            f"SELECT count(*) FROM {self.log.target} AS base JOIN {self.changed} AS own "
            f"ON {self._same_row}"
        )

    def update(self, columns: Iterable[str]) -> str:
        """UPDATE the rows that differ in one of these columns."""
        names = list(map(identifier, columns))
        values = ", ".join(f"{name} = own.{name}" for name in names)
        return (
            f"UPDATE {self.log.target} AS base SET {values} FROM {self.changed} AS own "
            f"WHERE {self._same_row} AND ({_differs(columns)})"
        )

    def insert(self) -> str:
        """INSERT the new rows in the order in which they were made."""
        names = ", ".join(identifier(each.name) for each in self.log.columns)
        return (
            f"INSERT INTO {self.log.target} ({names}) "
            f"SELECT {names} FROM {self.new} ORDER BY {_ROW}"
        )

    @property
    def _same_row(self) -> str:
        # The key beside the row id lets the engine skip files.
        names = map(identifier, () if self.log.moved else self.log.key)
        same = [f"base.{name} = own.{name}" for name in names]
        if self.bounds:
            same.append(self.bounds)
        return " AND ".join([*same, f"base.rowid = own.{_ROW}"])


def _differs(columns: Iterable[str]) -> str:
    names = map(identifier, columns)
    return " OR ".join(f"base.{name} IS DISTINCT FROM own.{name}" for name in names) or "false"
