"""A large upsert, spread over the table, against the least that any merge has to do.

The floor is the join of the keys with the table and one Parquet file with the rows.  What
SQLAlchemy does with the parameters before anything is merged stands beside it, because of
many dicts it is most of the time.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
from sqlalchemy import URL, Engine, Insert, create_engine, text
from sqlalchemy.dialects import sqlite

from benchmarks.data import (
    SCHEMA,
    Rows,
    described,
    filled_table,
    new_table,
    newest_snapshot,
    rows,
)
from benchmarks.measure import Report, Timing, driver_stub, medians, timed
from sqlalchemy_ducklake import driver, insert, merge_result

TARGET = "target"


@dataclass(frozen=True, slots=True)
class Sizes:
    """How many rows the table has and the batch brings, half of them new."""

    target: int = 1_000_000
    changes: int = 100_000

    @property
    def keys(self) -> list[int]:
        """Give every so-many-th key of the table, and as many new ones."""
        half = self.changes // 2
        old = range(0, self.target, self.target // half)[:half]
        return [*old, *range(self.target, self.target + half)]


def run(directory: Path, sizes: Sizes | None = None, runs: int = 5) -> Report:
    """Measure on a new lake, and on SQLite, in ``directory``."""
    sizes = sizes or Sizes()
    url = URL.create("ducklake", database=str(directory / "merge.ducklake"))
    engine, stub = create_engine(url), driver_stub(url)
    merge = Merge(engine, stub, directory, sizes, rows(sizes.keys, version=1))
    try:
        times = medians(merge.works(), runs)
    finally:
        engine.dispose()
        stub.dispose()
    title = (
        f"Upsert of {sizes.changes:,} dicts, half of them new, into {sizes.target:,} rows; "
        "ratios to the floor"
    )
    return Report(title, times, times["floor"], merge.facts)


@dataclass(slots=True)
class Merge:
    """The works, which take turns on one lake."""

    engine: Engine
    stub: Engine
    directory: Path
    sizes: Sizes
    batch: Rows
    facts: dict[str, object] = field(default_factory=dict)

    def works(self) -> dict[str, Callable[[], Timing]]:
        """Name the works in their order: the floor fills the table, an upsert changes it."""
        upsert = insert(described(TARGET)).on_conflict_do_update()
        return {
            "floor": self.floor,
            "SQLAlchemy alone": lambda: timed(lambda: self.execute(self.stub, upsert)),
            "from_pylist": lambda: timed(lambda: pa.Table.from_pylist(self.batch, SCHEMA)),
            "upsert": lambda: self.upsert("upsert", upsert),
            "the same again": lambda: self.upsert("the same again", upsert),
            "SQLAlchemy on SQLite": self.sqlite,
        }

    def execute(self, engine: Engine, statement: Insert) -> Any:
        """Execute the statement with the batch, and commit."""
        with engine.begin() as connection:
            return connection.execute(statement, self.batch)

    def floor(self) -> Timing:
        """Join keys and write rows, on a table that is new and stays."""
        filled_table(self.engine, TARGET, self.sizes.target)
        file = self.directory / "floor.parquet"
        with closing(self.engine.raw_connection()) as connection:
            duck = cast("driver.Connection", connection.driver_connection).duck
            duck.register("batch", pa.Table.from_pylist(self.batch, SCHEMA))

            def work() -> None:
                duck.execute(f"SELECT count(*) FROM {TARGET} JOIN batch USING (id)").fetchall()
                duck.execute(f"COPY batch TO '{file}'")

            timing = timed(work)
            duck.unregister("batch")
        return timing

    def upsert(self, name: str, statement: Insert) -> Timing:
        """Upsert the batch; its result and its snapshots are facts."""
        before = newest_snapshot(self.engine)

        def work() -> None:
            self.facts[name] = merge_result(self.execute(self.engine, statement))

        timing = timed(work)
        self.facts[f"snapshots of {name}"] = newest_snapshot(self.engine) - before
        return timing

    def sqlite(self) -> Timing:
        """Do the same on a file of SQLite."""
        file = self.directory / "merge.sqlite"
        file.unlink(missing_ok=True)
        engine = create_engine(URL.create("sqlite", database=str(file)))
        table = new_table(engine, TARGET)
        with engine.begin() as connection:
            connection.execute(text(_FILL_SQLITE), {"size": self.sizes.target})
        statement = sqlite.insert(table)
        columns = {name: statement.excluded[name] for name in SCHEMA.names[1:]}
        statement = statement.on_conflict_do_update(["id"], set_=columns)
        try:
            with warnings.catch_warnings(action="ignore"):  # SQLite has no decimals
                return timed(lambda: self.execute(engine, statement))
        finally:
            engine.dispose()


_FILL_SQLITE = f"""
INSERT INTO {TARGET}
WITH RECURSIVE keys(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM keys WHERE i + 1 < :size)
SELECT i, 'customer ' || i, 'city ' || i % 500, i % 100000, i % 1000000 / 100.0, i / 7.0,
    '2024-01-01 00:00:00.000000', '2024-01-01 00:00:00.000000'
FROM keys
"""
