"""INTERVAL in Arrow, which counts the time of day in nanoseconds.

The engine multiplies its microseconds by 1000 and does not look whether the product fits
64 bits: 293 years of them come out as 291 years before (measured on 1.5.5).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from sqlalchemy_ducklake.errors import IntervalTooLong

#: So many milliseconds of a day's time and more have no room in Parquet, which has 32 bits.
MILLISECONDS = 1 << 32

_PARTS = np.dtype([("months", "i4"), ("days", "i4"), ("nanoseconds", "i8")])


def refuse_overflow(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Give a batch back; raises IntervalTooLong if one of its intervals overflowed."""
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if any(map(_overflowed, _intervals(column))):
            raise IntervalTooLong(name)
    return batch


def _intervals(array: Any) -> Iterator[Any]:
    """Give the arrays of intervals in an array, which may be nested."""
    if pa.types.is_interval(array.type):
        yield array.drop_null()
    elif pa.types.is_struct(array.type):
        for field in array.flatten():
            yield from _intervals(field)
    elif pa.types.is_map(array.type):
        yield from _intervals(array.keys)
        yield from _intervals(array.items)
    elif pa.types.is_nested(array.type):
        yield from _intervals(array.flatten())


def _overflowed(array: Any) -> bool:
    """Tell whether one is no whole number of microseconds, as all were before.

    What 2 to the power of 64 nanoseconds leave over shows that they were lost; only 125
    times as much, or 73,000 years, leave nothing.
    """
    if not len(array):
        return False
    parts = np.frombuffer(array.buffers()[1], _PARTS)[array.offset : array.offset + len(array)]
    return bool((parts["nanoseconds"] % 1000).any())
