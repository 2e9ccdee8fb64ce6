"""What a writer asks of the engine while it writes, and takes back afterwards."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from sqlalchemy import Connection

from sqlalchemy_ducklake.dialect.options import default_of, normal_option, sendable
from sqlalchemy_ducklake.driver import Connection as DriverConnection
from sqlalchemy_ducklake.errors import OptionError
from sqlalchemy_ducklake.lake.changes import TableName, pinned_snapshot, table_id
from sqlalchemy_ducklake.lake.layouts import options_around
from sqlalchemy_ducklake.snapshots.asking import driver_connection
from sqlalchemy_ducklake.writer.options import WriteOptions
from sqlalchemy_ducklake.writer.rolling import rolled, shrinking
from sqlalchemy_ducklake.writer.spool import Segment, Spool

_SET = "CALL ducklake_set_option($1, $2, $3, schema => $4, table_name => $5)"

# Larger than any file; the engine has no word for "no limit".
_ENDLESS = 1 << 50


@dataclass(frozen=True, slots=True)
class Laying:
    """The options of a writer, how large its rows are, and whether they fit in memory."""

    options: WriteOptions
    bytes_per_row: float
    spilled: bool = False

    @property
    def target(self) -> int:
        """The bytes after which a file ends."""
        return self.options.target_file_size or _ENDLESS

    @property
    def in_one(self) -> bool:
        """Tell whether one statement writes everything."""
        options = self.options
        return options.single_file or options.target_file_size is None or bool(options.sort)

    def settings(self) -> dict[str, str | int]:
        """Give the settings of the engine that hold for the statements of the writer."""
        held: dict[str, str | int] = {
            "partitioned_write_max_open_files": self.options.max_open_partitions
        }
        if self.spilled and not self.options.sort:
            # The order of a stream is not kept anyway, and to try needs memory.
            held["preserve_insertion_order"] = "false"
        if self.options.single_file or not self.in_one:
            held["ducklake_target_file_size"] = f"{_ENDLESS} bytes"
        elif self.options.target_file_size is not None:
            held["ducklake_target_file_size"] = f"{self.target} bytes"
        return held

    def parts(self, spool: Spool, segment: Segment) -> Iterator[Iterator[pa.RecordBatch]]:
        """Part a segment into what one statement inserts; read each before the next."""
        if self.in_one:
            yield spool.read(segment)
            return
        sample = next(spool.read(segment), None)
        share = shrinking(sample, self.options.compression or "snappy")
        size_of = lambda each: each.nbytes * share  # noqa: E731 - what the sample told
        for part in rolled(spool.read(segment), size_of, self.target):
            yield part if segment.spilled else _as_one(segment, part)


def _as_one(segment: Segment, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Make one batch of several, in which the engine keeps the order of rows."""
    yield from pa.Table.from_batches(batches, segment.schema).combine_chunks().to_batches()


@contextlib.contextmanager
def prepared(connection: Connection, name: TableName, plan: Laying) -> Iterator[None]:
    """Let the engine write as planned meanwhile."""
    own = driver_connection(connection)
    duck, config = own.reading()
    identity = table_id(duck, config, name, pinned_snapshot(duck, config))
    options = plan.options.table_options(plan.options.rows_per_group(plan.bytes_per_row))
    if options and identity is None:
        raise OptionError(
            next(iter(options)),
            "a lake keeps it for a table that is committed; commit the new table first, or "
            "declare ducklake_options of the Table",
        )
    before = options_around(duck, config, identity) if identity is not None else {}
    with own.settings.hold(plan.settings()):
        _set(own, config.alias, name, options)
        yield
        _set(own, config.alias, name, {key: _before(key, before) for key in options})


def _before(option: str, before: dict[str, str]) -> str:
    return before.get(option) or default_of(option) or ""


def _set(own: DriverConnection, lake: str, name: TableName, options: dict[str, Any]) -> None:
    for option, value in options.items():
        told = sendable(option, normal_option(option, value))
        own.cursor().execute(_SET, [lake, option, told, *name])
