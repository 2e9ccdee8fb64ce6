"""The option that opens a write scope, and how much it may hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy_ducklake.errors import OptionError

#: The option of an engine, a connection or a statement.
OPTION = "ducklake_write_scope"


#: A statement that changes or deletes more rows of the lake writes at once.
MOST_KEPT = 4096


class ManyRows(Exception):
    """A statement changes more rows than are worth being kept aside."""


@dataclass(frozen=True, slots=True)
class WriteScope:
    """How much a transaction keeps aside before it writes into the lake.

    Past ``max_rows`` rows or about ``max_bytes`` bytes, and before a statement with
    ``direct_rows`` parameter sets or more, or one that changes more than 4,096 rows that
    are there, what is kept is written into the transaction itself.  What it reads and
    commits never depends on these numbers; while a savepoint is open they are not heeded,
    because what is in the lake cannot be undone alone.

    Raises OptionError for a number that is not positive.
    """

    max_rows: int = 65_536
    max_bytes: int = 64 * 1024 * 1024
    direct_rows: int = 4096

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if not (type(getattr(self, name)) is int and getattr(self, name) > 0):
                raise OptionError(f"{OPTION}.{name}", "it must be a positive whole number")


def checked_scope(value: Any) -> WriteScope | None:
    """Give the scope that an option asks for, None for none.

    Raises OptionError for anything but True, False, None and a WriteScope.
    """
    if value is None or value is False:
        return None
    if value is True:
        return WriteScope()
    if isinstance(value, WriteScope):
        return value
    raise OptionError(OPTION, f"it is True, False or a WriteScope(max_rows=…), not {value!r}")
