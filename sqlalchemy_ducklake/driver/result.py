"""A result that its cursor owns, whatever the connection does next.

A DuckDB connection has one live result: another execute, a commit or a rollback cuts it,
silently.  So a :class:`Result` streams while nothing else happens, and *detaches* before
anything else does.  Rows of which none was fetched yet move into an Arrow table and are
read from there by DuckDB itself, so they come out as the same Python values (with
``arrow_lossless_conversion`` every type but VARIANT survives that road; measured on 1.5.5
over all types).  Once rows were fetched, the rest moves into Python rows, because DuckDB
hands out whole vectors: its Arrow reader would miss the rows of the vector that was
begun.  Without the need to detach nothing is buffered but that vector.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import duckdb
import pyarrow as pa

from sqlalchemy_ducklake.driver.types import Column

Row = tuple[Any, ...]

# Rows moved at once from the engine: as many as one of its vectors holds.
_CHUNK = 2048


class _Source(Protocol):
    """Where rows come from: a DuckDB connection or a relation over a detached table."""

    def fetchmany(self, size: int, /) -> list[Row]: ...
    def fetchall(self) -> list[Row]: ...
    def to_arrow_reader(self, batch_size: int, /) -> pa.RecordBatchReader: ...


class Result:
    """The rows of one query, streamed from ``duck`` until they have to be detached."""

    __slots__ = (
        *("__weakref__", "_buffer", "_duck", "_error", "_next", "_source", "_started"),
        "description",
    )

    def __init__(self, duck: duckdb.DuckDBPyConnection) -> None:
        self.description: list[Column] = duck.description
        self._duck: duckdb.DuckDBPyConnection | None = duck
        self._source: _Source | None = duck
        self._buffer: Sequence[Row] = ()
        self._next = 0
        self._started = False
        self._error: duckdb.Error | None = None

    def detach(self) -> duckdb.Error | None:
        """Make the rows that are left independent of the connection.

        An error of the query itself belongs to whoever fetches: it is given back, and
        raised by the next fetch, not by the innocent statement that made this necessary.
        """
        if self._duck is None or self._source is None:
            return None
        try:
            if self._started or any(map(_holds_variant, self.description)):
                self.detach_as_rows()
            else:
                self._detach_as_arrow(self._duck)
        except duckdb.Error as error:
            self.close()
            self._error = error
        return self._error

    def detach_as_rows(self) -> None:
        """Fetch the rows that are left now; cheaper than Arrow for few of them."""
        if self._source is not None:
            self._buffer, self._next = [*self._rest(), *self._source.fetchall()], 0
            self._source = self._duck = None

    def _detach_as_arrow(self, duck: duckdb.DuckDBPyConnection) -> None:
        # Another cursor of the instance, so that its reads end nobody's transaction.
        self._source = duck.cursor().from_arrow(duck.to_arrow_table())
        self._duck = None

    def fetchone(self) -> Row | None:
        """Give the next row, or None."""
        if self._next >= len(self._buffer) and not self._fill():
            return None
        row = self._buffer[self._next]
        self._next += 1
        return row

    def fetchmany(self, size: int) -> list[Row]:
        """Give at most ``size`` rows."""
        rows = list(self._buffer[self._next : self._next + size])
        self._next += len(rows)
        while len(rows) < size and (more := self._take(size - len(rows))):
            rows.extend(more)
        return rows

    def fetchall(self) -> list[Row]:
        """Give all the rows that are left."""
        rows = self._rest()
        self._raise_error()
        if self._source is not None:
            rows.extend(self._source.fetchall())
        self.close()
        return rows

    def arrow_reader(self, rows_per_batch: int) -> pa.RecordBatchReader:
        """Give the rows batch by batch.

        Raises NotSupportedError once rows were fetched one by one.
        """
        if self._started:
            raise duckdb.NotSupportedError(
                "rows of this result were fetched one by one already; run the query again "
                "and fetch all of it as Arrow"
            )
        self._raise_error()
        if self._source is None:
            return _from_rows(self.description, self.fetchall())
        self._started = True
        return self._source.to_arrow_reader(rows_per_batch)

    def close(self) -> None:
        """Forget the rows."""
        self._source = self._duck = None
        self._buffer, self._next = (), 0

    def _rest(self) -> list[Row]:
        rows = list(self._buffer[self._next :])
        self._buffer, self._next = (), 0
        return rows

    def _raise_error(self) -> None:
        if self._error is not None:
            raise self._error

    def _take(self, size: int) -> list[Row]:
        self._raise_error()
        if self._source is None:
            return []
        self._started = True
        rows = self._source.fetchmany(size)
        if not rows:
            self.close()
        return rows

    def _fill(self) -> bool:
        self._buffer, self._next = self._take(_CHUNK), 0
        return bool(self._buffer)


def _holds_variant(column: Column) -> bool:
    return "VARIANT" in str(column[1])


def _from_rows(description: Sequence[Column], rows: Sequence[Row]) -> pa.RecordBatchReader:
    names = [column[0] for column in description]
    columns: Iterator[Any] = iter(zip(*rows, strict=True)) if rows else iter([()] * len(names))
    return pa.Table.from_arrays([pa.array(column) for column in columns], names).to_reader()
