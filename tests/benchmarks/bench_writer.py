"""Streaming a table into a lake, against the engine's own COPY of the same data.

A reader gives one batch again and again, so that making data costs nothing.  The peak of
memory is that of a process of its own, run as ``python bench_writer.py <directory> <rows>``.
"""

from __future__ import annotations

import re
import subprocess
import sys
from datetime import datetime, timedelta
from functools import partial
from itertools import count as numbers
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
from sqlalchemy import (
    URL,
    BigInteger,
    Boolean,
    Column,
    DateTime,
    Double,
    Engine,
    Integer,
    MetaData,
    SmallInteger,
    String,
    Table,
    create_engine,
    func,
    text,
)

if __name__ == "__main__":
    # A file that is run finds what lies beside it; the names here begin one higher.
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.measure import Report, Timing, medians, timed
from sqlalchemy_ducklake import table_writer, write_table

BATCH = 100_000
_MINUTES = 5 * 365 * 24 * 60
_names = numbers()


def batch() -> pa.RecordBatch:
    """Make rows of eight columns whose times lie within five years."""
    places = [n * 7919 % 1_000_003 for n in range(BATCH)]
    start = datetime.fromisoformat("2020-01-01")
    return pa.record_batch(
        {
            "id": pa.array(range(BATCH), pa.int64()),
            "seen": pa.array(
                [start + timedelta(minutes=n * 26 % _MINUTES) for n in places],
                pa.timestamp("us"),
            ),
            "amount": pa.array(places, pa.int32()),
            "weight": pa.array([n / 7 for n in places]),
            "name": pa.array([f"name {n % 5003}" for n in places]),
            "city": pa.array([f"city {n % 211}" for n in places]),
            "kind": pa.array([n % 100 for n in places], pa.int16()),
            "open": pa.array([n % 3 == 0 for n in places]),
        }
    )


def reader(rows: pa.RecordBatch, size: int) -> pa.RecordBatchReader:
    """Give a stream of ``size`` rows."""
    parts = (rows.slice(0, min(BATCH, size - n)) for n in range(0, size, BATCH))
    return pa.RecordBatchReader.from_batches(rows.schema, parts)


def described(*, by_month: bool = False) -> Table:
    """Describe a new table, partitioned by month or not."""
    seen = Column("seen", DateTime)
    layout: Any = (
        {"ducklake_partition_by": [func.year(seen), func.month(seen)]} if by_month else {}
    )
    return Table(
        f"t{next(_names)}",
        MetaData(),
        Column("id", BigInteger),
        seen,
        Column("amount", Integer),
        Column("weight", Double),
        Column("name", String),
        Column("city", String),
        Column("kind", SmallInteger),
        Column("open", Boolean),
        **layout,
    )


def run(directory: Path, size: int = 10_000_000, runs: int = 3) -> Report:
    """Measure streams of ``size`` rows into new tables of a lake in ``directory``."""
    engine, rows = _lake(directory), batch()
    facts: dict[str, object] = {}
    works = {
        "COPY to Parquet": partial(_copy, directory, rows, size),
        "write_table(reader)": partial(_whole, engine, rows, size),
        "table_writer, batch by batch": partial(_pushed, engine, rows, size, facts),
        "the same, by month": partial(_pushed, engine, rows, size, facts, by_month=True),
    }
    try:
        times = medians(works, runs)
    finally:
        engine.dispose()
    facts["peak of memory, MB"] = peak(directory, size)
    title = f"Writing {size:,} rows of 8 columns; ratios to COPY"
    return Report(title, times, times["COPY to Parquet"], facts)


def peak(directory: Path, size: int) -> int:
    """Give the most memory, in MB, of a process that streams ``size`` rows."""
    command = [sys.executable, __file__, str(directory), str(size)]
    return int(subprocess.run(command, capture_output=True, check=True).stdout)


def _lake(directory: Path) -> Engine:
    path = directory / f"writer{next(_names)}.ducklake"
    return create_engine(URL.create("ducklake", database=str(path)))


def _copy(directory: Path, rows: pa.RecordBatch, size: int) -> Timing:
    target = directory / "copy.parquet"
    with duckdb.connect() as duck:
        duck.register("given", reader(rows, size))
        timing = timed(lambda: duck.execute(f"COPY (FROM given) TO '{target}' (CODEC snappy)"))
    target.unlink()
    return timing


def _whole(engine: Engine, rows: pa.RecordBatch, size: int) -> Timing:
    table = described()
    table.create(engine)

    def work() -> None:
        with engine.begin() as connection:
            write_table(connection, table, reader(rows, size))

    return _dropped(engine, table, timed(work))


def _pushed(
    engine: Engine,
    rows: pa.RecordBatch,
    size: int,
    facts: dict[str, object],
    *,
    by_month: bool = False,
) -> Timing:
    table = described(by_month=by_month)
    table.create(engine)

    def work() -> None:
        with engine.begin() as connection, table_writer(connection, table) as writer:
            for each in reader(rows, size):
                writer.write(each)
        facts[f"files{', by month' if by_month else ''}"] = len(writer.result.files)
        facts["rows"] = writer.result.rows

    return _dropped(engine, table, timed(work))


def _dropped(engine: Engine, table: Table, timing: Timing) -> Timing:
    """Make room for the next one."""
    table.drop(engine)
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("CALL ducklake_expire_snapshots('lake', older_than => now())"))
        connection.execute(text("CALL ducklake_cleanup_old_files('lake', cleanup_all => true)"))
    return timing


def main(directory: str, size: str) -> None:
    """Stream rows in this process and print the most memory it had."""
    engine, rows = _lake(Path(directory)), batch()
    _pushed(engine, rows, int(size), {})
    engine.dispose()
    # Not getrusage(): its peak begins with that of the process which started this one.
    status = Path("/proc/self/status").read_text(encoding="ascii")
    print(int(re.findall(r"VmHWM:\s*(\d+) kB", status)[0]) >> 10)


if __name__ == "__main__":
    main(*sys.argv[1:])
