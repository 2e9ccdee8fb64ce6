"""Where one file of a stream ends and the next begins.

A file takes whole batches, and the one that makes it larger than its target is its last;
a batch that is larger than a file by itself is cut first.  A file that is exactly as
large as its target goes on.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

#: Gives the bytes that a batch will have in its file.
SizeOf = Callable[[pa.RecordBatch], float]

_SAMPLE = 20_000


def rolled(
    batches: Iterable[pa.RecordBatch], size_of: SizeOf, target: float
) -> Iterator[Iterator[pa.RecordBatch]]:
    """Part batches into files of about ``target`` bytes; read each before the next."""
    pieces = iter(_cut(batches, size_of, target))
    for first in pieces:
        yield _one_file(first, pieces, size_of, target)


def _one_file(
    first: pa.RecordBatch, pieces: Iterator[pa.RecordBatch], size_of: SizeOf, target: float
) -> Iterator[pa.RecordBatch]:
    size = size_of(first)
    yield first
    while size <= target:
        more = next(pieces, None)
        if more is None:
            return
        size += size_of(more)
        yield more


def _cut(
    batches: Iterable[pa.RecordBatch], size_of: SizeOf, target: float
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        size = size_of(batch)
        if size <= target or batch.num_rows < 2:
            yield batch
            continue
        rows = max(int(batch.num_rows * target / size), 1)
        for place in range(0, batch.num_rows, rows):
            yield batch.slice(place, rows)


def shrinking(sample: pa.RecordBatch | None, codec: str = "snappy") -> float:
    """Tell how many bytes a byte in memory has in a Parquet file, from a sample of rows."""
    if sample is None or not sample.num_rows or not sample.nbytes:
        return 1.0
    rows = pa.Table.from_batches([sample.slice(0, _SAMPLE)])
    file = io.BytesIO()
    names: Any = {"uncompressed": "none", "lz4_raw": "lz4"}
    pq.write_table(rows, file, compression=names.get(codec, codec))
    return file.tell() / max(rows.nbytes, 1)
