"""Where the rows of a result come from: Arrow batches, or DuckDB's own fetch.

Arrow loses what two types hold: it has no VARIANT, and an INTERVAL of more than 292 years
overflows there without a word.  A result with either of them is fetched as DuckDB does it;
every other type survives (with ``arrow_lossless_conversion``; measured on 1.5.5).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol

import duckdb
import pyarrow as pa

from sqlalchemy_ducklake.driver.converters import converter
from sqlalchemy_ducklake.driver.intervals import refuse_overflow
from sqlalchemy_ducklake.driver.types import Column

Row = tuple[Any, ...]
Batches = tuple[pa.Schema, Iterator[pa.RecordBatch]]

# Rows in a batch: four of the engine's vectors.
_BATCH = 8192


class Source(Protocol):
    """Rows in order, which :meth:`detach` makes independent of their connection."""

    def take(self, size: int) -> list[Row]:
        """Give some of the next rows, at most ``size``; none at the end."""

    def rest(self) -> list[Row]:
        """Give all the rows that are left."""

    def detach(self) -> None:
        """Fetch what is left, so that the connection can do something else."""

    def batches(self, unread: int, rows_per_batch: int) -> Batches:
        """Give what is left as Arrow, beginning with the last ``unread`` rows taken."""


def source(duck: duckdb.DuckDBPyConnection, description: Sequence[Column]) -> Source:
    """Give the rows that the last statement of a connection answers."""
    kinds = " ".join(map(_kind, description))
    if any(name in kinds for name in _LOST):
        return EngineRows(duck, description)
    return ArrowRows(duck)


# Also as the name of a field, in which case the result is the same but slower.
_LOST = ("VARIANT", "INTERVAL")


def _kind(column: Column) -> str:
    return str(column[1])


class ArrowRows:
    """Rows made of Arrow batches, a few more of them each time."""

    __slots__ = ("_batch", "_converters", "_duck", "_reader", "_taken")

    def __init__(self, duck: duckdb.DuckDBPyConnection) -> None:
        self._duck = duck
        self._reader: pa.RecordBatchReader | None = None
        self._converters: list[Any] = []
        self._batch: Any = None
        self._taken: Any = None

    def take(self, size: int) -> list[Row]:
        """Give some of the next rows, at most ``size``; none at the end."""
        if self._batch is None or not self._batch.num_rows:
            self._batch = self._next_batch()
        if self._batch is None:
            return []
        self._taken, self._batch = self._batch[:size], self._batch[size:]
        return self._rows(self._taken)

    def rest(self) -> list[Row]:
        """Give all the rows that are left."""
        rows: list[Row] = []
        while more := self.take(_BATCH):
            rows.extend(more)
        return rows

    def detach(self) -> None:
        """Keep the batches that are left; they need no conversion for that."""
        reader = self._opened(_BATCH)
        try:
            batches = list(reader)
        except (OSError, pa.ArrowException) as error:
            raise engine_error(str(error)) from error
        self._reader = pa.RecordBatchReader.from_batches(reader.schema, batches)

    def batches(self, unread: int, rows_per_batch: int) -> Batches:
        """Give what is left as Arrow, beginning with the last ``unread`` rows taken."""
        schema = self._opened(rows_per_batch).schema
        taken, batch = self._taken, self._batch
        begun = [] if taken is None else [taken[taken.num_rows - unread :], batch]
        self._taken = self._batch = None
        left = (part for part in begun if part is not None and part.num_rows)
        return schema, itertools.chain(left, iter(self._next_batch, None))

    def _opened(self, rows_per_batch: int) -> pa.RecordBatchReader:
        if self._reader is None:
            self._reader = self._duck.to_arrow_reader(rows_per_batch)
            kinds = (field.type for field in self._reader.schema)
            self._converters = [converter(kind, self._read_by_engine) for kind in kinds]
        return self._reader

    def _next_batch(self) -> pa.RecordBatch | None:
        reader = self._opened(_BATCH)
        try:
            while True:
                batch = reader.read_next_batch()
                if batch.num_rows:
                    return batch
        except StopIteration:
            return None
        except (OSError, pa.ArrowException) as error:
            raise engine_error(str(error)) from error

    def _rows(self, batch: pa.RecordBatch) -> list[Row]:
        columns = [
            convert(column)
            for convert, column in zip(self._converters, batch.columns, strict=True)
        ]
        return list(zip(*columns, strict=True))

    def _read_by_engine(self, array: Any) -> list[Any]:
        # Another cursor of the instance, so that this ends nobody's transaction.
        with self._duck.cursor() as duck:
            zone = getattr(array.type, "tz", None)
            if zone is not None:
                duck.execute(f"SET TimeZone = {_quoted(zone)}")
            rows = duck.from_arrow(pa.table({"v": array})).fetchall()
        return [value for (value,) in rows]


class EngineRows:
    """Rows as DuckDB fetches them, the ones that are left in memory once detached."""

    __slots__ = ("_arrow", "_description", "_duck", "_kept", "_started")

    def __init__(self, duck: duckdb.DuckDBPyConnection, description: Sequence[Column]) -> None:
        self._description = description
        self._duck: duckdb.DuckDBPyConnection | None = duck
        self._kept: Iterator[Row] = iter(())
        self._arrow: ArrowRows | None = None
        self._started = False

    def take(self, size: int) -> list[Row]:
        """Give some of the next rows, at most ``size``; none at the end."""
        self._started = True
        if self._duck is None:
            return list(itertools.islice(self._kept, size))
        return self._duck.fetchmany(size)

    def rest(self) -> list[Row]:
        """Give all the rows that are left."""
        self._started = True
        return list(self._kept) if self._duck is None else self._duck.fetchall()

    def detach(self) -> None:
        """Fetch the rows that are left."""
        if self._arrow is not None:
            self._arrow.detach()
        elif self._duck is not None:
            self._kept, self._duck = iter(self._duck.fetchall()), None

    def batches(self, unread: int, rows_per_batch: int) -> Batches:
        """Give all as Arrow, beginning with no row.

        The batches raise IntervalTooLong for what Arrow has no room for.
        Raises NotSupportedError once rows were taken: DuckDB hands out whole vectors, and
        its Arrow reader would miss the rows of the vector that was begun.
        """
        if self._started:
            raise duckdb.NotSupportedError(
                "rows of this result were fetched one by one already, and it holds a VARIANT "
                "or an INTERVAL; run the query again and fetch all of it as Arrow"
            )
        if self._duck is None or any(
            "VARIANT" in _kind(column) for column in self._description
        ):
            return self._of_values()
        self._started = True
        self._arrow = ArrowRows(self._duck)
        schema, batches = self._arrow.batches(unread, rows_per_batch)
        return schema, map(refuse_overflow, batches)

    def _of_values(self) -> Batches:
        return _of_values(self.rest(), self._description)


class KnownRows:
    """Rows that nobody has to ask the engine for."""

    __slots__ = ("_description", "_left", "_rows")

    def __init__(self, rows: Sequence[Row], description: Sequence[Column]) -> None:
        self._rows, self._left = rows, iter(rows)
        self._description = description

    def take(self, size: int) -> list[Row]:
        """Give some of the next rows, at most ``size``; none at the end."""
        return list(itertools.islice(self._left, size))

    def rest(self) -> list[Row]:
        """Give all the rows that are left."""
        return list(self._left)

    def detach(self) -> None:
        """Do nothing: they are independent of any connection."""

    def batches(self, unread: int, rows_per_batch: int) -> Batches:
        """Give what is left as Arrow, beginning with the last ``unread`` rows taken."""
        del rows_per_batch
        rest = self.rest()
        first = len(self._rows) - len(rest) - unread
        return _of_values(self._rows[first:], self._description)


def _of_values(rows: Sequence[Row], description: Sequence[Column]) -> Batches:
    names = [column[0] for column in description]
    columns: Iterable[Any] = zip(*rows, strict=True) if rows else [()] * len(names)
    table = pa.Table.from_arrays([pa.array(list(column)) for column in columns], names)
    return table.schema, iter(table.to_batches())


def engine_error(text: str) -> duckdb.Error:
    """Give the error that DuckDB meant.

    Arrow's stream passes on a text alone; it begins with the name of the kind of error, as
    in ``Conversion Error: …``, which is that of the class.  An InterruptException carries
    a note, because it may stand for another error (see ``_CAUSE_LOST``).
    """
    words = text.partition(":")[0].removesuffix(" Error").split()
    error = _ERRORS.get("".join(words).lower(), duckdb.DatabaseError)(text)
    if isinstance(error, duckdb.InterruptException):
        error.add_note(_CAUSE_LOST)
    return error


# When one thread of a query fails, DuckDB stops the others, and now and then answers with
# their end instead of its cause (2 to 5 in 100 on 1.5.5, in its own fetch too).
_CAUSE_LOST = (
    "If nobody interrupted this query, one of its threads failed and the engine lost the "
    "cause; run the query again, after SET threads = 1 to be sure to see it."
)


_ERRORS: dict[str, type[duckdb.Error]] = {
    name.removesuffix("Exception").lower(): kind
    for name, kind in vars(duckdb).items()
    if isinstance(kind, type) and issubclass(kind, duckdb.Error)
}


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
