"""INSERT of many dicts against the sum of what nobody can save.

That is SQLAlchemy's own work on the parameters (the same execute, with the rows thrown
away where the driver would take them), pyarrow's on the dicts, and the engine's INSERT.
"""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pyarrow as pa
from sqlalchemy import URL, Engine, create_engine

from benchmarks.data import SCHEMA, Rows, count, data_files, new_table, rows
from benchmarks.measure import Report, Timing, driver_stub, medians, timed
from sqlalchemy_ducklake import driver, insert

TARGET = "target"
SQLALCHEMY = "SQLAlchemy alone"
ARROW = "from_pylist and INSERT SELECT"


def run(directory: Path, size: int = 100_000, runs: int = 5) -> Report:
    """Measure on a new lake in ``directory``."""
    url = URL.create("ducklake", database=str(directory / "insert.ducklake"))
    engine, stub = create_engine(url), driver_stub(url)
    batch, facts = rows(range(size)), {}

    def insert_and_count(name: str, *, keyed: bool) -> Timing:
        timing = insert_rows(engine, batch, keyed=keyed)
        facts[f"rows in the {name}"] = count(engine, TARGET)
        facts[f"data files of the {name}"] = data_files(engine, TARGET)
        return timing

    try:
        times = medians(
            {
                SQLALCHEMY: lambda: insert_rows(stub, batch, keyed=False),
                ARROW: lambda: insert_arrow(engine, batch),
                "unkeyed table": lambda: insert_and_count("unkeyed table", keyed=False),
                "keyed table": lambda: insert_and_count("keyed table", keyed=True),
            },
            runs,
        )
    finally:
        engine.dispose()
        stub.dispose()
    title = f"INSERT of {size:,} dicts; ratios to the sum of the first two"
    return Report(title, times, times[SQLALCHEMY] + times[ARROW], facts)


def insert_rows(engine: Engine, batch: Rows, *, keyed: bool) -> Timing:
    """Insert dicts through SQLAlchemy, and commit."""
    table = new_table(engine, TARGET, keyed=keyed)

    def work() -> None:
        with engine.begin() as connection:
            connection.execute(insert(table), batch)

    return timed(work)


def insert_arrow(engine: Engine, batch: Rows) -> Timing:
    """Insert dicts by Arrow and the engine alone, and commit."""
    new_table(engine, TARGET, keyed=False)
    connection = engine.raw_connection()
    duck = cast("driver.Connection", connection.driver_connection).duck

    def work() -> None:
        duck.register("batch", pa.Table.from_pylist(batch, SCHEMA))
        connection.cursor().execute(f"INSERT INTO {TARGET} SELECT * FROM batch")
        connection.commit()
        duck.unregister("batch")

    try:
        return timed(work)
    finally:
        connection.close()
