"""The type objects and constructors that PEP 249 asks for.

A type object equals every type code of its family: ``cursor.description[i][1] == NUMBER``.
Type codes are DuckDB's own types, so their text gives the full type.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from typing import Any

Date = dt.date
Time = dt.time
Timestamp = dt.datetime


class TypeObject:
    """A family of type codes; equal to each of its members, hashable by its name."""

    __slots__ = ("_members", "name")

    def __init__(self, name: str, members: Iterable[str]) -> None:
        self.name = name
        self._members = frozenset(members)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, TypeObject):
            return self.name == other.name
        return str(getattr(other, "id", other)).lower() in self._members

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return f"<PEP 249 type {self.name}>"


STRING = TypeObject("STRING", ("varchar", "json", "uuid", "enum", "bit"))
BINARY = TypeObject("BINARY", ("blob", "geometry"))
NUMBER = TypeObject(
    "NUMBER",
    (
        *("boolean", "tinyint", "smallint", "integer", "bigint", "hugeint", "bignum"),
        *("utinyint", "usmallint", "uinteger", "ubigint", "uhugeint"),
        *("decimal", "float", "double"),
    ),
)
DATETIME = TypeObject(
    "DATETIME",
    (
        *("date", "time", "time_ns", "timestamp", "timestamp_s", "timestamp_ms", "interval"),
        *("timestamp_ns", "time with time zone", "timestamp with time zone"),
    ),
)
# A lake's tables have row ids, but no result column is typed as one.
ROWID = TypeObject("ROWID", ())


def Binary(value: Iterable[int] | bytes) -> bytes:  # noqa: N802 - PEP 249's name
    """Give the bytes of an object that holds bytes."""
    return bytes(value)


def DateFromTicks(ticks: float) -> dt.date:  # noqa: N802 - PEP 249's name
    """Give the local date of a number of seconds since the epoch."""
    return Timestamp.fromtimestamp(ticks).date()


def TimeFromTicks(ticks: float) -> dt.time:  # noqa: N802 - PEP 249's name
    """Give the local time of day of a number of seconds since the epoch."""
    return Timestamp.fromtimestamp(ticks).time()


def TimestampFromTicks(ticks: float) -> dt.datetime:  # noqa: N802 - PEP 249's name
    """Give the local date and time of a number of seconds since the epoch."""
    return Timestamp.fromtimestamp(ticks)


#: One column of ``cursor.description``: seven items, of which PEP 249 wants two.
Column = tuple[str, Any, None, None, None, None, None]
