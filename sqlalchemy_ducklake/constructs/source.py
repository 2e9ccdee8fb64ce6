"""Rows from outside the database as a table of a statement.

A :class:`Batch` holds Arrow data, a DataFrame or rows as dictionaries.  Its data is a
parameter of the statement, so statements that differ in nothing but data share one place
in the cache.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from sqlalchemy import bindparam, column, exc
from sqlalchemy.sql.selectable import TableClause
from sqlalchemy.sql.visitors import InternalTraversal
from sqlalchemy.types import NullType


class Rows(NullType):
    """The type of a parameter that is a whole table; the driver registers it."""

    cache_ok = True


class Batch(TableClause):
    """A table whose rows are in the program: in ``FROM``, or as the source of a merge.

    ``data`` is an Arrow table, batch or reader (which can be read once), anything with
    ``__arrow_c_stream__`` (pandas and polars DataFrames), or a list of dictionaries with
    the keys of the first.
    """

    __visit_name__ = "ducklake_batch"

    _traverse_internals = [  # noqa: RUF012 - SQLAlchemy's own form
        *TableClause._traverse_internals,  # noqa: SLF001
        ("data", InternalTraversal.dp_clauseelement),
    ]

    def __init__(self, data: Any, name: str = "source") -> None:
        super().__init__(name, *(column(each) for each in column_names(data)))
        self.data = bindparam("data", data, type_=Rows(), unique=True)


def is_rows(data: Any) -> bool:
    """Tell whether a value is data that :class:`Batch` takes."""
    return (
        isinstance(data, pa.Table | pa.RecordBatch | pa.RecordBatchReader)
        or hasattr(data, "__arrow_c_stream__")
        or (isinstance(data, Sequence) and not isinstance(data, str | bytes))
    )


def column_names(data: Any) -> list[str]:
    """Give the names of the columns of such data.

    Raises ArgumentError if they cannot be told.
    """
    if isinstance(data, pa.Table | pa.RecordBatch | pa.RecordBatchReader):
        return list(data.schema.names)
    if isinstance(data, Sequence) and not isinstance(data, str | bytes):
        if data and isinstance(data[0], Mapping):
            return [str(name) for name in data[0]]
        raise exc.ArgumentError("rows are a list of dictionaries, at least one of them")
    if hasattr(data, "__arrow_c_schema__"):
        return list(pa.schema(data).names)
    if hasattr(data, "columns"):
        return [str(name) for name in data.columns]
    raise exc.ArgumentError(
        f"{type(data).__name__} is no source of rows: give a table, a select, Arrow data, a "
        "DataFrame or a list of dictionaries"
    )
