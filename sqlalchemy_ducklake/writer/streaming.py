"""A writer for data of any size: batches come in, files of one snapshot come out.

Measured on DuckDB 1.5.5, two cores, ten million rows of eight columns from an Arrow reader
(``tests/benchmarks/bench_writer.py`` prints the ratios): the engine's own
``INSERT … SELECT`` from a stream takes 0.9 to 1.05 times as long as its ``COPY`` of the
same data to one Parquet file; by month of five years 1.3 to 1.5 times that.  Memory grows
with the largest file, not with the stream: 0.7 GB for one file of 220 MB, 0.36 GB with
files of 32 MB, for ten million rows as for forty.  It knows every transform of a
partition, writes field ids and statistics (also of NaN), encrypts, and removes its files
when the transaction fails.  So the engine writes all files, and nothing here makes Parquet.

What it cannot do decides the rest.  A statement pulls its data and holds the connection
meanwhile, so batches that are pushed wait in a :class:`Spool <sqlalchemy_ducklake.writer.
spool.Spool>` of this process (0.1 times a COPY) until ``finish``: an abandoned writer has
touched nothing, and its transaction goes on.  Files that the engine rolls by itself are
numbered in any order, and in a partitioned table it does not roll at all; so one statement
writes one file (of each partition), whose size is estimated from a sample, and the next
goes on behind it.  Within a file the engine does not keep the order of a stream either,
since it reads several batches at once; what fits in memory (64 MiB) is given as one batch
and keeps it.  (A window that numbers the rows would keep all, for 1.45 times the work.)
Only what is to be sorted is one statement, and then the files do not overlap.  Compression
and row groups are options of a table, which can be set and not unset: they are set for the
transaction, and then to what holds without them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any, Literal, Self

import pyarrow as pa
from sqlalchemy import Connection, Table, exc, insert, select
from sqlalchemy.orm import Session

from sqlalchemy_ducklake.constructs.merge import ANY_BASE, delete_keys
from sqlalchemy_ducklake.constructs.source import Batch
from sqlalchemy_ducklake.errors import ClosedError, OptionError
from sqlalchemy_ducklake.lake.changes import pinned_snapshot
from sqlalchemy_ducklake.lake.marks import table_label
from sqlalchemy_ducklake.snapshots.asking import (
    core_connection,
    driver_connection,
    name_of,
    target_of,
)
from sqlalchemy_ducklake.writer.evolving import add_columns
from sqlalchemy_ducklake.writer.fitting import Fitting, fitting_of
from sqlalchemy_ducklake.writer.laying import Laying, prepared
from sqlalchemy_ducklake.writer.options import WriteOptions
from sqlalchemy_ducklake.writer.results import WriteResult
from sqlalchemy_ducklake.writer.spool import Spool
from sqlalchemy_ducklake.writer.tables import write_table

WriterMode = Literal["append", "replace"]


def table_writer(
    connection: Connection | Session,
    table: Any,
    mode: WriterMode = "append",
    options: WriteOptions | None = None,
    **changes: Any,
) -> TableWriter:
    """Begin to write a table or mapped class, batch by batch.

    ``options``, or keywords of :class:`WriteOptions`, say how.  Use it as a context
    manager: at the end it writes all batches in the connection's transaction, or forgets
    them on an error.  From here on the transaction reads one snapshot, and its commit fails
    if the layout of the table is changed meanwhile.

    Raises ArgumentError for another mode or a connection that commits by itself,
    OptionError for bad options.
    """
    core = core_connection(connection)
    target = target_of(table)
    wanted = (options or WriteOptions()).changed(**changes)
    if wanted.sort and mode == "replace":
        raise OptionError("sort", "goes with mode='append'; a replacement keeps what is there")
    for name in wanted.sort:
        if name not in {each.name for each in target.c}:
            raise OptionError("sort", f"names {name!r}, which is no column of {target}")
    if mode not in ("append", "replace"):
        raise exc.ArgumentError(f"mode is 'append' or 'replace', not {mode!r}")
    if driver_connection(core).autocommit:
        raise exc.ArgumentError("a writer needs a transaction; this connection commits itself")
    return TableWriter(core, target, mode, wanted)


class TableWriter:
    """Batches on their way into a table; :func:`table_writer` makes it."""

    def __init__(
        self, connection: Connection, target: Table, mode: WriterMode, options: WriteOptions
    ) -> None:
        self.target = target
        self.options = options
        self.mode = mode
        self._connection = connection
        self._name = name_of(connection, target)
        self._result: WriteResult | None = None
        self._begun = False
        self._spool: Spool | None = Spool()
        self._fitting = self._fitting_of(target)
        # So that the commit notices whatever happens to the table from here on.
        pinned_snapshot(*self._own.reading())

    @property
    def result(self) -> WriteResult:
        """What was written; raises InvalidRequestError before ``finish``."""
        if self._result is None:
            raise exc.InvalidRequestError("the writer has not finished, so it has no result")
        return self._result

    def write(self, data: Any) -> int:
        """Take rows, and give their number.

        ``data`` is an Arrow table, batch or reader, anything with ``__arrow_c_stream__``
        (pandas and polars DataFrames), or an iterable of batches or of dictionaries.
        Columns are matched by name; what is left out becomes its default, or NULL.

        Raises BatchRefused, ValueRefused and NullsRefused for what does not fit: no row of
        that batch is taken, those before it are, and the next good one is welcome.
        """
        spool = self._opened()
        before = spool.rows
        for batch in self._fitting.batches(data):
            spool.add(batch)
        return spool.rows - before

    def finish(self, deletes: Any = ()) -> WriteResult:
        """Write what was taken into the table, in the connection's transaction.

        ``deletes`` are keys, as :func:`delete_keys` takes them, of rows that are deleted
        before the others are added.  The writer is closed in any case.  After an error that
        came when a part was written there is nothing left but a rollback, which removes
        all files.
        """
        spool = self._opened()
        given = not isinstance(deletes, list | tuple) or bool(deletes)
        self._begun = False
        try:
            self._refuse_deletes(given=given)
            if self.options.expected_base is not ANY_BASE:
                self._own.require_base(self._name, self.options.expected_base)
            deleted = self._delete(deletes) if given else 0
            self._result = self._written(spool, deleted)
        except BaseException as error:
            # Nobody may commit a part of what was to be written.
            if self._begun:
                self._own.abort(error)
            raise
        finally:
            self.abort()
        return self._result

    def abort(self) -> None:
        """Forget what was not written; doing it again, or after the end, is no error."""
        if self._spool is not None:
            self._spool.close()
            self._spool = None

    def __enter__(self) -> Self:
        self._opened()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is not None:
            self.abort()
        elif self._spool is not None:
            self.finish()

    @property
    def _own(self) -> Any:
        return driver_connection(self._connection)

    def _fitting_of(self, target: Table) -> Fitting:
        label = table_label(*self._name)
        dialect = self._connection.dialect
        return fitting_of(target, label, dialect, evolve=self.options.evolve)

    def _opened(self) -> Spool:
        if self._spool is None:
            raise ClosedError("writer")
        return self._spool

    def _refuse_deletes(self, *, given: bool) -> None:
        if not given:
            return
        if self.mode == "replace":
            raise exc.ArgumentError("a replacement deletes every row; it takes no deletes")
        if not list(self.target.primary_key):
            raise exc.ArgumentError(f"{self.target} has no primary key to delete rows by")

    def _delete(self, keys: Any) -> int:
        deleted = self._connection.execute(delete_keys(self.target, keys)).rowcount
        self._begun = True
        return deleted

    def _written(self, spool: Spool, deleted: int) -> WriteResult:
        if self.options.commit is not None:
            self._own.work.info = self.options.commit
        wider = add_columns(self._connection, self.target, spool.segments)
        self._begun = self._begun or wider is not self.target
        self.target = wider
        spilled = any(each.spilled for each in spool.segments)
        plan = Laying(self.options, spool.size / max(spool.rows, 1), spilled)
        with prepared(self._connection, self._name, plan):
            if self.mode == "replace":
                counts = write_table(self._connection, self.target, _whole(spool), "replace")
                rows, deleted = counts.inserted + counts.updated, counts.deleted
            else:
                rows = self._append(spool, plan)
        return WriteResult(self._own, self._name, rows, deleted)

    def _append(self, spool: Spool, plan: Laying) -> int:
        rows = 0
        for segment in list(spool.segments):
            for part in plan.parts(spool, segment):
                reader = pa.RecordBatchReader.from_batches(segment.schema, part)
                rows += self._insert(reader)
                self._begun = True
        return rows

    def _insert(self, reader: pa.RecordBatchReader) -> int:
        source = Batch(reader)
        columns = [self.target.c[_key(self.target, name)] for name in reader.schema.names]
        rows = select(*(source.c[each.name] for each in columns))
        order = [source.c[name] for name in self.options.sort]
        statement = insert(self.target).from_select(columns, rows.order_by(*order))
        return self._connection.execute(statement).rowcount


def _key(target: Table, name: str) -> str:
    return next(each.key for each in target.c if each.name == name)


def _whole(spool: Spool) -> Any:
    """Give all batches as one source, whatever columns each of them has."""
    fields: Mapping[str, Any] = {f.name: f for each in spool.segments for f in each.schema}
    if not spool.segments:
        return []
    schema = pa.schema(list(fields.values()))
    return pa.RecordBatchReader.from_batches(schema, _widened(spool, schema))


def _widened(spool: Spool, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for segment in list(spool.segments):
        for batch in spool.read(segment):
            columns = [
                batch.column(f.name).cast(f.type)
                if f.name in batch.schema.names
                else pa.nulls(batch.num_rows, f.type)
                for f in schema
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)
