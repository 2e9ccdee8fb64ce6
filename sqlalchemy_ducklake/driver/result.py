"""A result that its cursor owns, whatever the connection does next.

A DuckDB connection has one live result: another execute, a commit or a rollback cuts it,
silently.  So a :class:`Result` streams while nothing else happens, and *detaches* before
anything else does: what is left then moves into memory, as Arrow batches if it can.
Without the need to detach nothing is kept but one batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Self

import duckdb
import pyarrow as pa

from sqlalchemy_ducklake.driver.rows import Row, Source, source
from sqlalchemy_ducklake.driver.types import Column

# Rows made at once when they are fetched singly: few at first, as only one may be wanted.
_FEWEST, _MOST = 32, 8192


class Result:
    """The rows of one query, streamed until they have to be detached."""

    __slots__ = (
        "__weakref__",
        "_ahead",
        "_buffer",
        "_error",
        "_next",
        "_source",
        "description",
    )

    def __init__(self, description: list[Column], rows: Source) -> None:
        self.description = description
        self._source: Source | None = rows
        self._buffer: Sequence[Row] = ()
        self._next = 0
        self._ahead = _FEWEST
        self._error: duckdb.Error | None = None

    @classmethod
    def of(cls, duck: duckdb.DuckDBPyConnection) -> Self:
        """Give the result of the last statement of a connection, which goes on streaming."""
        description = duck.description
        return cls(description, source(duck, description))

    def detach(self) -> duckdb.Error | None:
        """Make the rows that are left independent of the connection.

        An error of the query itself belongs to whoever fetches: it is given back, and
        raised by the next fetch, not by the innocent statement that made this necessary.
        """
        if self._source is None:
            return None
        try:
            self._source.detach()
        except duckdb.Error as error:
            self.close()
            self._error = error
        return self._error

    def fetchone(self) -> Row | None:
        """Give the next row, or None."""
        if self._next >= len(self._buffer) and not self._fill(1):
            return None
        row = self._buffer[self._next]
        self._next += 1
        return row

    def fetchmany(self, size: int) -> list[Row]:
        """Give at most ``size`` rows."""
        rows = self._buffered(size)
        while len(rows) < size and self._fill(size - len(rows)):
            rows.extend(self._buffered(size - len(rows)))
        return rows

    def fetchall(self) -> list[Row]:
        """Give all the rows that are left."""
        rows = self._buffered(len(self._buffer))
        self._raise_error()
        if self._source is not None:
            rest = self._source.rest()
            rows = [*rows, *rest] if rows else rest
        self.close()
        return rows

    def arrow_reader(self, rows_per_batch: int) -> pa.RecordBatchReader:
        """Give the rows that are left batch by batch, each when it is wanted.

        The reader too stays whole, whatever the connection does meanwhile.
        Raises NotSupportedError for a result with VARIANT or INTERVAL of which rows were
        fetched already.
        """
        self._raise_error()
        if self._source is None:
            raise duckdb.NotSupportedError(
                "all rows of this result were fetched; run the query again to get them as Arrow"
            )
        unread = len(self._buffer) - self._next
        schema, batches = self._source.batches(unread, rows_per_batch)
        self._buffer, self._next = (), 0
        return pa.RecordBatchReader.from_batches(schema, self._held(batches))

    def _held(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Let whoever reads the batches hold this result, so that it can be detached."""
        yield from batches

    def close(self) -> None:
        """Forget the rows."""
        self._source = None
        self._buffer, self._next = (), 0

    def _buffered(self, size: int) -> list[Row]:
        rows = list(self._buffer[self._next : self._next + size])
        self._next += len(rows)
        return rows

    def _fill(self, wanted: int) -> bool:
        """Make at least ``wanted`` rows, or as many as the batch at hand has."""
        self._raise_error()
        if self._source is None:
            return False
        self._buffer, self._next = self._source.take(max(wanted, self._ahead)), 0
        self._ahead = min(2 * self._ahead, _MOST)
        return bool(self._buffer)

    def _raise_error(self) -> None:
        if self._error is not None:
            raise self._error
