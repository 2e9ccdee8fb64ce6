"""Reading a million rows of eight columns, and one row many times, against DuckDB's own.

``fetchall`` of DuckDB's client is the floor that ratios are told by.  Core is compared with
the driver and what SQLAlchemy needs to make its rows of a list of tuples.
"""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from sqlalchemy import URL, Connection, Table, create_engine, select, text
from sqlalchemy.engine.result import IteratorResult, SimpleResultMetaData

from benchmarks.data import SCHEMA, filled_table
from benchmarks.measure import Report, Timing, medians, timed
from sqlalchemy_ducklake import driver

TABLE = "target"
FLOOR = "DuckDB's fetchall"
SMALL = text(f"SELECT * FROM {TABLE} WHERE id = :id")
BATCH = 10_000


def run(directory: Path, size: int = 1_000_000, runs: int = 3) -> Report:
    """Measure reading of many rows on a new lake in ``directory``."""
    engine = create_engine(URL.create("ducklake", database=str(directory / "read.ducklake")))
    try:
        table = filled_table(engine, TABLE, size)
        with engine.connect() as connection:
            works = _works(connection, table)
            times = medians(
                {name: _timing(work) for name, work in works.items()},
                runs,
            )
            facts: dict[str, object] = {
                name: f"{len(cast('list[Any]', work())):,} rows"
                for name, work in works.items()
                if "streamed" not in name
            }
            facts["peak of Python's memory, streamed"] = _peak(connection, table)
    finally:
        engine.dispose()
    title = f"SELECT of {size:,} rows of {len(SCHEMA)} columns; ratios to {FLOOR}"
    return Report(title, times, times[FLOOR], facts)


def _timing(work: Callable[[], object]) -> Callable[[], Timing]:
    return lambda: timed(work)


def _works(connection: Connection, table: Table) -> dict[str, Callable[[], object]]:
    own = _driver(connection)
    query = f"SELECT * FROM {TABLE}"
    tuples = own.cursor().execute(query).fetchall()
    return {
        FLOOR: lambda: own.duck.execute(query).fetchall(),
        "driver": lambda: own.cursor().execute(query).fetchall(),
        "Core": lambda: connection.execute(select(table)).all(),
        "Core, streamed": lambda: _stream(connection, table),
        "SQLAlchemy's rows alone": lambda: _only_rows(tuples),
        "Arrow": lambda: own.cursor().execute(query).fetch_arrow_table(),
    }


def _only_rows(tuples: list[Any]) -> object:
    return IteratorResult(SimpleResultMetaData(list(SCHEMA.names)), iter(tuples)).all()


def _stream(connection: Connection, table: Table) -> None:
    options = {"yield_per": BATCH}
    for part in connection.execute(select(table), execution_options=options).partitions():
        assert part


def _peak(connection: Connection, table: Table) -> str:
    tracemalloc.start()
    try:
        _stream(connection, table)
        return f"{tracemalloc.get_traced_memory()[1] / 1e6:.0f} MB"
    finally:
        tracemalloc.stop()


def run_small(directory: Path, size: int = 1000, times: int = 300, runs: int = 5) -> Report:
    """Measure reading of one row, many times, on a new lake in ``directory``.

    A single read takes turns with those of the others, because a busy machine changes more
    between two hundreds of them than what is measured.
    """
    engine = create_engine(URL.create("ducklake", database=str(directory / "one.ducklake")))
    facts: dict[str, object] = {}
    try:
        filled_table(engine, TABLE, size)
        with engine.connect() as connection:
            _driver(connection).begin()  # or DuckDB alone would begin each time
            works = _small_works(connection)
            for name, read in works.items():
                facts[name] = f"{len(read())} row"
            timings = {name: _single(read) for name, read in works.items()}
            measured = medians(timings, times * runs)
    finally:
        engine.dispose()
    for name in list(measured)[1:]:
        more = (measured[name].wall - measured[FLOOR].wall) * 1e6
        facts[f"{name}, more than DuckDB's own"] = f"{more:.0f} µs"
    title = f"SELECT of one row by key of {size:,}; ratios to {FLOOR}"
    return Report(title, measured, measured[FLOOR], facts)


def _single(read: Callable[[], object]) -> Callable[[], Timing]:
    def work() -> Timing:
        wall, cpu = time.perf_counter(), time.process_time()
        read()
        return Timing(time.perf_counter() - wall, time.process_time() - cpu)

    return work


def _small_works(connection: Connection) -> dict[str, Callable[[], list[Any]]]:
    query = f"SELECT * FROM {TABLE} WHERE id = $1"
    own = _driver(connection)
    return {
        FLOOR: lambda: own.duck.execute(query, [7]).fetchall(),
        "driver": lambda: own.cursor().execute(query, (7,)).fetchall(),
        "Core": lambda: list(connection.execute(SMALL, {"id": 7})),
    }


def _driver(connection: Connection) -> driver.Connection:
    return cast("driver.Connection", connection.connection.driver_connection)
