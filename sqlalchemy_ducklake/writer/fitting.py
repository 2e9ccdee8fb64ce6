"""Making batches of what is given, with exactly the types of the table.

Refused here, a batch has not reached the engine: the writer and its transaction go on.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from sqlalchemy import Column, Table, exc
from sqlalchemy.engine.interfaces import Dialect

from sqlalchemy_ducklake.dialect.arrowtypes import arrow_type
from sqlalchemy_ducklake.dialect.types import duckdb_type
from sqlalchemy_ducklake.driver.script import Parameter
from sqlalchemy_ducklake.driver.source import fitted
from sqlalchemy_ducklake.errors import BatchRefused, NullsRefused, ValueRefused

_LISTS = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)

#: Dictionaries of an iterable that become one batch.
ROWS = 10_000


@dataclass(frozen=True, slots=True)
class Fitting:
    """The columns of a table, and how data becomes batches of them."""

    table: str
    parameters: tuple[Parameter, ...]
    required: frozenset[str]
    #: Columns that must have a value and get one by themselves if the data has none.
    filled: frozenset[str]
    #: What SQLAlchemy's types make of Python values, by column.
    processors: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)
    evolve: bool = False

    def batches(self, data: Any) -> Iterator[pa.RecordBatch]:
        """Give data as batches whose columns stand in the order of the table.

        Columns are matched by name, and those that are left out are left out.  Raises
        BatchRefused for a column that is unknown, missing or of a type that does not fit,
        ValueRefused for a value that its column cannot hold exactly, NullsRefused.
        """
        for part in _parts(data):
            yield from self._fit(part)

    def _fit(self, part: Any) -> Iterator[pa.RecordBatch]:
        table = _arrow_table(part)
        if table is None:
            part = [self._processed(row, place) for place, row in enumerate(part)]
        names = table.column_names if table is not None else list(part[0])
        self._check_names(names)
        found = fitted(part if table is None else table, self.parameters, [])
        assert isinstance(found, pa.Table)
        ordered = self._ordered(found)
        self._check_types(ordered)
        yield from ordered.to_batches()

    def _processed(self, row: dict[str, Any], place: int) -> dict[str, Any]:
        """Let the types of the columns say how their values are stored; None is NULL."""
        for name, process in self.processors.items():
            value = row.get(name)
            if value is not None:
                try:
                    row[name] = process(value)
                except (exc.SQLAlchemyError, LookupError, TypeError, ValueError) as error:
                    label = f"{self.table}.{name}"
                    raise ValueRefused(label, "column", value, place, str(error)) from error
        return row

    def _check_names(self, names: Sequence[str]) -> None:
        known = {each.column for each in self.parameters}
        extra = [name for name in names if name not in known]
        if len(set(names)) < len(names) or (extra and not self.evolve):
            raise BatchRefused(
                self.table, None, None, f"columns of {sorted(known)}", f"{list(names)}"
            )
        missing = sorted(self.required - self.filled - set(names))
        if missing:
            raise BatchRefused(self.table, missing[0], None, "in every batch", "left out")

    def _ordered(self, table: pa.Table) -> pa.Table:
        places = {each.column: place for place, each in enumerate(self.parameters)}
        names = sorted(table.column_names, key=lambda name: places.get(name, len(places)))
        return pa.table({name: self._typed(name, table.column(name)) for name in names})

    def _typed(self, name: str, column: Any) -> Any:
        """Give a column that says nothing but NULL the type of its column."""
        wanted = next((each.arrow for each in self.parameters if each.column == name), None)
        if wanted is None or not (
            pa.types.is_null(column.type) or _same_nesting(column.type, wanted)
        ):
            return column
        try:
            return column.cast(wanted, safe=True)
        except pa.ArrowInvalid as error:
            label = f"{self.table}.{name}"
            raise ValueRefused(label, str(wanted), "a nested value", 0, str(error)) from error

    def _check_types(self, table: pa.Table) -> None:
        wanted = {each.column: each for each in self.parameters}
        for position, name in enumerate(table.column_names):
            column, parameter = table.column(name), wanted.get(name)
            if parameter is not None and not _fits(column.type, parameter.arrow):
                raise BatchRefused(
                    self.table, name, position, parameter.type_name, str(column.type)
                )
        nulls = [
            name
            for name in table.column_names
            if name in self.required and table.column(name).null_count
        ]
        if nulls:
            raise NullsRefused(self.table, nulls)


def fitting_of(table: Table, label: str, dialect: Dialect, *, evolve: bool) -> Fitting:
    """Give what data must be like to go into a table."""
    parameters = []
    for each in table.c:
        name = duckdb_type(each.type.dialect_impl(dialect), dialect)
        parameters.append(Parameter(0, each.name, each.name, arrow_type(name), name))
    required = {each.name for each in table.c if not each.nullable}
    filled = {each.name for each in table.c if _fills_itself(each, table)}
    processors = {}
    for each in table.c:
        process = each.type.dialect_impl(dialect).bind_processor(dialect)
        if process is not None:
            processors[each.name] = process
    return Fitting(
        label, tuple(parameters), frozenset(required), frozenset(filled), processors, evolve
    )


def _fills_itself(column: Column[Any], table: Table) -> bool:
    return (
        column.server_default is not None
        or column.identity is not None
        or column.computed is not None
        or column is table.autoincrement_column
    )


def _same_nesting(found: Any, wanted: Any) -> bool:
    """Tell whether lists differ from those wanted in the width of their numbers at most."""
    if not pa.types.is_list(wanted):
        return False
    if not any(kind(found) for kind in _LISTS):
        return False
    inner, outer = found.value_type, wanted.value_type
    families = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
    alike = inner == outer or any(kind(inner) and kind(outer) for kind in families)
    return alike or _same_nesting(inner, outer)


def _parts(data: Any) -> Iterator[Any]:
    """Part data into pieces that fit in memory."""
    if isinstance(data, pa.Table | pa.RecordBatch):
        yield data
    elif hasattr(data, "__arrow_c_stream__"):
        yield from pa.RecordBatchReader.from_stream(data)
    elif isinstance(data, Iterable) and not isinstance(data, str | bytes | Mapping):
        rows = iter(data)
        while part := list(itertools.islice(rows, ROWS)):
            arrow = isinstance(part[0], pa.Table | pa.RecordBatch)
            yield from part if arrow else [_copied(part)]
    else:
        kind = type(data).__name__
        raise ValueRefused("data", "Arrow or rows", kind, 0, "it is no source of rows")


def _copied(rows: list[Any]) -> list[dict[str, Any]]:
    for position, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise ValueRefused("row", "dictionary", row, position, "a row has named columns")
    return [dict(row) for row in rows]


def _arrow_table(part: Any) -> pa.Table | None:
    if isinstance(part, pa.RecordBatch):
        return pa.Table.from_batches([part])
    return part if isinstance(part, pa.Table) else None


def _fits(found: Any, wanted: Any) -> bool:
    """Tell whether the engine stores a type as another without changing a value."""
    if wanted is None or found == wanted or pa.types.is_null(found):
        return True
    if pa.types.is_dictionary(found):
        return _fits(found.value_type, wanted)
    texts = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    blobs = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view)
    if pa.types.is_string(wanted):
        # UUID and JSON are texts here, and have Arrow types of their own elsewhere.
        return any(kind(found) for kind in texts) or isinstance(found, pa.BaseExtensionType)
    if pa.types.is_binary(wanted):
        return any(kind(found) for kind in (*blobs, pa.types.is_fixed_size_binary))
    return _nested_fits(found, wanted)


def _nested_fits(found: Any, wanted: Any) -> bool:
    if pa.types.is_list(wanted):
        listed = any(kind(found) for kind in _LISTS)
        return listed and _fits(found.value_type, wanted.value_type)
    if pa.types.is_map(wanted):
        return (
            pa.types.is_map(found)
            and _fits(found.key_type, wanted.key_type)
            and _fits(found.item_type, wanted.item_type)
        )
    if pa.types.is_struct(wanted):
        # The engine matches fields by name.
        return pa.types.is_struct(found) and {f.name for f in found} <= {f.name for f in wanted}
    return False
