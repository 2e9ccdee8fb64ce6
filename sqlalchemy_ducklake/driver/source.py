"""Data in the program as a table that steps can read.

Rows of a source go into columns of a target by name.  Where Arrow's types differ from the
target's they are converted only if nothing changes; the engine's own cast would round.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa

from sqlalchemy_ducklake.driver.batch import column_of
from sqlalchemy_ducklake.driver.script import Parameter, Source
from sqlalchemy_ducklake.errors import ValueRefused

if TYPE_CHECKING:
    from sqlalchemy_ducklake.driver.connection import Connection


@contextlib.contextmanager
def known_as(
    connection: Connection, name: str, batch: pa.Table | pa.RecordBatchReader
) -> Iterator[None]:
    """Let the statements inside read a batch by its name."""
    connection.detach_live()
    connection.duck.register(name, _readable(batch))
    try:
        yield
    finally:
        # An aborted transaction refuses, and its rollback removes it.
        if not connection.aborted:
            connection.detach_live()
            connection.duck.unregister(name)


def _readable(data: pa.Table | pa.RecordBatchReader) -> Any:
    """Give what the engine is to read: a stream batch by batch, when it wants one.

    Of a reader it would let Arrow's own threads read ahead without bounds (measured).
    """
    stream: Any = data
    return stream.__arrow_c_stream__() if isinstance(data, pa.RecordBatchReader) else data


@contextlib.contextmanager
def registered(
    connection: Connection, sources: Sequence[Source], values: Sequence[Any]
) -> Iterator[None]:
    """Let the statements inside read the sources, whose data is among the parameters."""
    if not sources:
        yield
        return
    # Inside the transaction that reads them, so that its end takes them along.
    if not connection.autocommit:
        connection.begin()
    connection.detach_live()
    refused: list[ValueRefused] = []
    tables = [
        (each.name, fitted(values[each.index], each.columns, refused)) for each in sources
    ]
    for name, table in tables:
        connection.duck.register(name, _readable(table))
    try:
        yield
    except duckdb.Error as error:
        # What a stream refuses reaches us as an error of the engine that read it.
        if refused:
            raise refused[0] from error
        raise
    finally:
        connection.detach_live()
        for name, _ in tables:
            # An aborted transaction refuses, and its rollback removes them.
            with contextlib.suppress(duckdb.Error):
                connection.duck.unregister(name)


def fitted(
    data: Any, columns: Sequence[Parameter], refused: list[ValueRefused]
) -> pa.Table | pa.RecordBatchReader:
    """Give the data as Arrow with the types of the columns it goes to.

    Raises ValueRefused for a value that its column cannot hold exactly; a stream puts it
    into ``refused`` while it is read.
    """
    wanted = {each.column: each for each in columns}
    if isinstance(data, Sequence):
        return _from_dictionaries(data, wanted)
    if isinstance(data, pa.RecordBatch):
        data = pa.Table.from_batches([data])
    if isinstance(data, pa.Table):
        return _fitted_table(data, wanted)
    try:
        reader = pa.RecordBatchReader.from_stream(data)
    except pa.ArrowException as error:
        kind = type(data).__name__
        raise ValueRefused("data", "Arrow", kind, 0, str(error)) from error
    if not isinstance(data, pa.RecordBatchReader):
        return _fitted_table(reader.read_all(), wanted)
    schema = _fitted_schema(reader.schema, wanted)
    batches = _fitted_batches(reader, wanted, refused)
    return pa.RecordBatchReader.from_batches(schema, batches)


def _fitted_batches(
    reader: pa.RecordBatchReader, wanted: Mapping[str, Parameter], refused: list[ValueRefused]
) -> Iterator[pa.RecordBatch]:
    for batch in reader:
        try:
            yield _fitted_batch(batch, wanted)
        except ValueRefused as error:
            refused.append(error)
            raise


def _from_dictionaries(
    rows: Sequence[Mapping[str, Any]], wanted: Mapping[str, Parameter]
) -> pa.Table:
    names = list(rows[0])
    for position, row in enumerate(rows):
        if row.keys() != rows[0].keys():
            differing = ", ".join(sorted(map(str, row.keys() ^ rows[0].keys())))
            reason = f"every row has the keys of the first; this one differs in {differing}"
            raise ValueRefused(differing, "row", dict(row), position, reason)
    columns = [
        _column(wanted.get(name, Parameter(0, name, name)), [row[name] for row in rows])
        for name in names
    ]
    return pa.Table.from_arrays(columns, names)


def _column(parameter: Parameter, values: list[Any]) -> Any:
    convert = parameter.convert
    if convert is not None:
        values = [None if value is None else convert(value) for value in values]
    return column_of(parameter, values)


def _fitted_table(table: pa.Table, wanted: Mapping[str, Parameter]) -> pa.Table:
    columns = [
        _fitted_column(table.column(place), wanted.get(name))
        for place, name in enumerate(table.column_names)
    ]
    return pa.Table.from_arrays(columns, table.column_names)


def _fitted_batch(batch: pa.RecordBatch, wanted: Mapping[str, Parameter]) -> pa.RecordBatch:
    (fitted_batch,) = _fitted_table(pa.Table.from_batches([batch]), wanted).to_batches() or [
        batch.cast(_fitted_schema(batch.schema, wanted))
    ]
    return fitted_batch


def _fitted_schema(schema: pa.Schema, wanted: Mapping[str, Parameter]) -> pa.Schema:
    fields = [field.with_type(_type(field.type, wanted.get(field.name))) for field in schema]
    return pa.schema(fields)


def _type(found: pa.DataType, parameter: Parameter | None) -> pa.DataType:
    """Convert plain values only: texts and nested ones the engine knows better."""
    if parameter is None or parameter.arrow is None:
        return found
    wanted = parameter.arrow
    numbers = _is_number(found) and _is_number(wanted)
    times = pa.types.is_temporal(found) and pa.types.is_temporal(wanted)
    return wanted if numbers or times else found


def _loses(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Tell whether Arrow would drop a time of day, or make up a time zone, without a word."""
    if not pa.types.is_timestamp(found):
        return False
    if pa.types.is_timestamp(wanted):
        return (found.tz is None) != (wanted.tz is None)
    return True


def _is_number(arrow: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(arrow) or pa.types.is_floating(arrow) or pa.types.is_decimal(arrow)
    )


def _fitted_column(column: Any, parameter: Parameter | None) -> Any:
    wanted = _type(column.type, parameter)
    if parameter is None:
        return column
    if pa.types.is_interval(wanted):
        # What of it a file would lose, only its values tell.
        return column_of(parameter, column.to_pylist())
    if wanted == column.type:
        return column
    try:
        if not pa.types.is_floating(column.type) and not _loses(column.type, wanted):
            return column.cast(wanted, safe=True)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        pass
    # Value by value, under the rules for single values: Arrow's own cast refuses whole
    # types that might not fit, and takes more digits of a float than were written.
    return column_of(parameter, column.to_pylist())
