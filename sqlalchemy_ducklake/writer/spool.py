"""Batches that wait for the end of a writer: in memory while few, else in a file.

The file has no name, so it is gone with its process however that ends; and nothing of it
is in the lake.  Batches of one schema after another are a *segment*, which is inserted by
one statement; most writers have one.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

#: Bytes that are kept in memory before the file is used.
IN_MEMORY = 64 << 20


@dataclass(slots=True)
class Segment:
    """Batches of one schema: those in memory come first, then those in the file."""

    schema: pa.Schema
    batches: list[pa.RecordBatch] = field(default_factory=list)
    spilled: bool = False
    begin: int = 0
    rows: int = 0
    size: int = 0


class Spool:
    """An append-only store of batches."""

    def __init__(self, in_memory: int = IN_MEMORY) -> None:
        self.segments: list[Segment] = []
        self._left = in_memory
        self._file: Any = None
        self._writer: Any = None

    @property
    def rows(self) -> int:
        """The number of rows."""
        return sum(each.rows for each in self.segments)

    @property
    def size(self) -> int:
        """The bytes of all batches, as Arrow has them in memory."""
        return sum(each.size for each in self.segments)

    def add(self, batch: pa.RecordBatch) -> None:
        """Keep a batch; one without rows is forgotten."""
        if not batch.num_rows:
            return
        if not self.segments or self.segments[-1].schema != batch.schema:
            self._end_file()
            self.segments.append(Segment(batch.schema))
        segment = self.segments[-1]
        size = batch.nbytes
        segment.rows += batch.num_rows
        segment.size += size
        if size <= self._left and not segment.spilled:
            self._left -= size
            segment.batches.append(batch)
        else:
            self._writer_of(segment).write_batch(batch)

    def read(self, segment: Segment) -> Iterator[pa.RecordBatch]:
        """Give the batches of a segment, in their order; not for two at once."""
        self._end_file()
        yield from segment.batches
        if segment.spilled and self._file is not None:
            self._file.seek(segment.begin)
            with pa.ipc.open_stream(self._file) as reader:
                yield from reader

    def close(self) -> None:
        """Forget everything; doing it again is no error."""
        self._writer = None
        self.segments.clear()
        if self._file is not None:
            self._file.close()
            self._file = None

    def _writer_of(self, segment: Segment) -> Any:
        if self._writer is None:
            if self._file is None:
                self._file = tempfile.TemporaryFile(prefix="ducklake-spool-")  # noqa: SIM115
            segment.begin, segment.spilled = self._file.seek(0, 2), True
            self._writer = pa.ipc.new_stream(self._file, segment.schema)
        return self._writer

    def _end_file(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None
