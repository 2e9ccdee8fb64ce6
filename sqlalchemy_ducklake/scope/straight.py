"""Rows that go straight from Python into the lake: nobody ever needed a log of them.

What one or two statements did to a table is written by its commit as it is; a log, its views
and the way through them would cost more than the statements.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from sqlalchemy_ducklake.driver import Connection
from sqlalchemy_ducklake.driver.source import known_as
from sqlalchemy_ducklake.lake.attach import identifier
from sqlalchemy_ducklake.merge.staging import own_name
from sqlalchemy_ducklake.scope.dml import Amounts, Writing
from sqlalchemy_ducklake.scope.kept import Key, Named
from sqlalchemy_ducklake.scope.keyvalues import key_columns
from sqlalchemy_ducklake.scope.log import ROW, Log

#: The column of a batch that has the identity of the rows of the lake that it names.
ROW_OF = "r"


@dataclass(frozen=True, slots=True)
class Straight:
    """What is to be written of one table.

    ``gone`` and ``changed`` are batches of rows of the lake: their identity, their key, and
    the values of the columns that are ``assigned``; ``new`` are whole rows, by number.
    """

    log: Log
    gone: pa.Table
    changed: pa.Table
    assigned: Sequence[str]
    new: pa.Table
    keys: Sequence[Key]

    @property
    def amounts(self) -> Amounts:
        """How many rows these are."""
        return Amounts(self.gone.num_rows, self.changed.num_rows, self.new.num_rows)

    @contextlib.contextmanager
    def known_to(self, connection: Connection) -> Iterator[None]:
        """Let statements read the batches."""
        batches = ((_GONE, self.gone), (_CHANGED, self.changed), (_NEW, self.new))
        with contextlib.ExitStack() as known:
            for kind, batch in batches:
                if batch.num_rows:
                    name = self._name(kind)
                    known.enter_context(known_as(connection, name, batch))
            yield

    def writing(self) -> Writing:
        """Give the statements that write them; bounds of the first column spare files."""
        first = [key[0] for key in self.keys]
        bounds, values = "", []
        if first:
            bounds = f"base.{identifier(self.log.key[0])} BETWEEN $1 AND $2"
            values = [min(first), max(first)]
        return Writing(
            self.log,
            self._rows(_GONE, ()),
            self._rows(_CHANGED, self.assigned),
            identifier(self._name(_NEW)),
            bounds,
            values,
        )

    def _rows(self, kind: str, assigned: Sequence[str]) -> str:
        """SELECT rows of the lake with names and types as the table has them."""
        types = {each.name: each.type for each in self.log.columns}
        shown = [
            f"CAST(k{place} AS {types[name]}) AS {identifier(name)}"
            for place, name in enumerate(self.log.key)
        ]
        shown += [f"v{place} AS {identifier(name)}" for place, name in enumerate(assigned)]
        shown += [f"{ROW_OF} AS {identifier(ROW)}"]
        return f"(SELECT {', '.join(shown)} FROM {identifier(self._name(kind))})"

    def _name(self, kind: str) -> str:
        return own_name(f"straight {kind} {'.'.join(self.log.table)}")


_GONE, _CHANGED, _NEW = "gone", "changed", "new"


def named_batch(rows: Sequence[Named], assigned: dict[str, Any]) -> pa.Table:
    """Build a batch of rows of the lake: ``r``, the key as text, then ``v0``, ``v1`` etc."""
    columns = {ROW_OF: pa.array([each.row for each in rows], pa.int64())}
    columns |= key_columns([each.key for each in rows])
    columns |= {f"v{place}": values for place, values in enumerate(assigned.values())}
    return pa.table(columns)
