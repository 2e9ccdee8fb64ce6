"""Options of tables that are not committed yet.

DuckLake refuses to set an option of a table that the same transaction made ("Settings cannot
be set for transaction-local tables", 1.5.5, and the transaction is over).  So such options
are set right after the commit; that makes no snapshot of its own.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol
from weakref import WeakKeyDictionary

from sqlalchemy_ducklake.dialect.options import sendable
from sqlalchemy_ducklake.driver import Connection

_SET = "CALL ducklake_set_option($1, $2, $3, schema => $4, table_name => $5)"


@dataclass(frozen=True, slots=True)
class TableOptions:
    """Options of one table, as the lake keeps them; without ``schema`` it is the default."""

    schema: str | None
    table: str
    options: Mapping[str, str]


class _Lake(Protocol):
    alias: str

    @property
    def default_schema_name(self) -> str | None: ...


class LateOptions:
    """What waits for the commit of each connection."""

    def __init__(self, lake: _Lake) -> None:
        self._lake = lake
        self._waiting: WeakKeyDictionary[Connection, list[TableOptions]] = WeakKeyDictionary()

    def add(self, connection: Connection, options: TableOptions) -> None:
        """Set options after the commit, or now if the statement is committed by itself."""
        self._waiting.setdefault(connection, []).append(options)
        if not connection.in_transaction:
            self.settle(connection)

    def forget(self, connection: Any) -> None:
        """Set nothing: the transaction was rolled back."""
        self._waiting.pop(connection, None)

    def settle(self, connection: Any) -> None:
        """Set what waits; an error of the engine says that the commit itself went through."""
        waiting = self._waiting.pop(connection, [])
        if not waiting:
            return
        # Another connection of the instance, so that the last commit of this one stays it.
        with contextlib.closing(connection.duck.cursor()) as duck:
            try:
                for one in waiting:
                    for values in self._parameters(one):
                        duck.execute(_SET, values)
            except Exception as error:
                error.add_note("(the transaction is committed; only options are missing)")
                raise

    def _parameters(self, one: TableOptions) -> list[list[Any]]:
        schema = one.schema or self._lake.default_schema_name or "main"
        return [
            [self._lake.alias, name, sendable(name, value), schema, one.table]
            for name, value in one.options.items()
        ]
