"""UPDATE by key with many parameter sets, against DuckDB's own executemany.

DuckDB runs a statement for each set, so it gets few of them and its time is scaled up.
"""

from __future__ import annotations

from pathlib import Path
from typing import cast

from sqlalchemy import URL, Engine, Table, bindparam, create_engine, update

from benchmarks.data import filled_table
from benchmarks.measure import Report, Timing, medians, timed
from sqlalchemy_ducklake import driver

TARGET = "target"
ONE_BY_ONE = 20


def run(directory: Path, size: int = 1_000_000, sets: int = 10_000, runs: int = 3) -> Report:
    """Measure on a new lake in ``directory``."""
    engine = create_engine(URL.create("ducklake", database=str(directory / "update.ducklake")))
    try:
        table = filled_table(engine, TARGET, size)
        facts: dict[str, object] = {}
        times = medians(
            {
                "SQLAlchemy on a lake": lambda: _update(engine, table, size, sets, facts),
                "DuckDB's executemany": lambda: _one_by_one(engine, size, sets),
            },
            runs,
        )
    finally:
        engine.dispose()
    title = (
        f"UPDATE by key in {size:,} rows, {sets:,} parameter sets "
        f"(one by one: {ONE_BY_ONE}, scaled up); ratios to the first"
    )
    return Report(title, times, next(iter(times.values())), facts)


def _update(
    engine: Engine, table: Table, size: int, sets: int, facts: dict[str, object]
) -> Timing:
    statement = (
        update(table)
        .where(table.c.id == bindparam("key"))
        .values(amount=table.c.amount + bindparam("more"))
    )
    # Every tenth row has no amount: see data.py.
    parameters = [{"key": key, "more": 1} for key in range(1, size, size // sets)][:sets]

    def work() -> None:
        with engine.begin() as connection:
            facts["rows updated"] = connection.execute(statement, parameters).rowcount

    return timed(work)


def _one_by_one(engine: Engine, size: int, sets: int) -> Timing:
    connection = engine.raw_connection()
    duck = cast("driver.Connection", connection.driver_connection).duck
    statement = f"UPDATE {TARGET} SET amount = amount + ? WHERE id = ?"
    parameters = [(1, key) for key in range(2, size, size // ONE_BY_ONE)][:ONE_BY_ONE]

    def work() -> None:
        duck.begin()
        duck.executemany(statement, parameters)
        duck.commit()

    try:
        timing = timed(work)
    finally:
        connection.close()
    scale = sets / ONE_BY_ONE
    return Timing(timing.wall * scale, timing.cpu * scale)
