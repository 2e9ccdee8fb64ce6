"""A batch of Arrow data, half of it new, merged in every way there is.

The floor is the join of the keys with the table and one Parquet file with the rows.  DuckDB's
own MERGE stands beside it: it neither compares rows, nor counts what it did to them, nor
notices a key that comes twice.  The table is described once, as in a program, so a statement
is compiled in its first run only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, cast

import duckdb
import pyarrow as pa
from sqlalchemy import URL, Engine, Table, create_engine

from benchmarks.bench_merge import TARGET, Sizes
from benchmarks.data import SCHEMA, described, filled_table, newest_snapshot, rows
from benchmarks.measure import Report, Timing, medians, timed
from sqlalchemy_ducklake import driver, merge_result, upsert

_MERGE = f"""
MERGE INTO {TARGET} USING batch ON {TARGET}.id = batch.id
WHEN MATCHED THEN UPDATE SET {", ".join(f"{name} = batch.{name}" for name in SCHEMA.names[1:])}
WHEN NOT MATCHED THEN INSERT ({", ".join(SCHEMA.names)})
VALUES ({", ".join(f"batch.{name}" for name in SCHEMA.names)})
"""


def run(directory: Path, sizes: Sizes | None = None, runs: int = 5) -> Report:
    """Measure on a new lake in ``directory``; each work finds the table as it was filled."""
    sizes = sizes or Sizes()
    engine = create_engine(URL.create("ducklake", database=str(directory / "changes.ducklake")))
    changed = rows(sizes.keys, version=1)
    changes = Changes(engine, directory, sizes, changed, pa.Table.from_pylist(changed, SCHEMA))
    try:
        times = medians(changes.works(), runs)
    finally:
        engine.dispose()
    title = (
        f"Upsert of {sizes.changes:,} rows, half of them new, into {sizes.target:,} rows; "
        "ratios to the floor"
    )
    return Report(title, times, times["floor"], changes.facts)


@dataclass(slots=True)
class Changes:
    """The works, on one table that is filled anew for each."""

    engine: Engine
    directory: Path
    sizes: Sizes
    batch: list[dict[str, Any]]
    arrow: pa.Table
    table: Table = field(default_factory=lambda: described(TARGET))
    facts: dict[str, object] = field(default_factory=dict)

    def works(self) -> dict[str, Callable[[], Timing]]:
        """Name the works; "again" finds the table as the one before it left it."""
        bare = {"unconditional": True, "preserve_row_ids": False}
        upserts: dict[str, Callable[[str], Timing]] = {
            "Arrow": lambda name: self.upsert(name, self.arrow),
            "Arrow again": lambda name: self.upsert(name, self.arrow, fill=False),
            "Arrow, compare=": lambda name: self.upsert(name, self.arrow, compare=["seen"]),
            "Arrow, unconditional": lambda name: self.upsert(
                name, self.arrow, unconditional=True
            ),
            "Arrow, unconditional, new row ids": lambda name: self.upsert(
                name, self.arrow, **bare
            ),
            "dicts": lambda name: self.upsert(name, self.batch),
        }
        named = {name: partial(work, name) for name, work in upserts.items()}
        return {"floor": self.floor, "DuckDB's own MERGE": self.native, **named}

    def fill(self) -> None:
        """Fill the table; prove its key, which is done once in the life of a table."""
        table = filled_table(self.engine, TARGET, self.sizes.target)
        with self.engine.begin() as connection:
            connection.execute(upsert(table, rows([-1])))

    @contextmanager
    def registered(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """Give DuckDB's own connection, to which the batch is a table."""
        with closing(self.engine.raw_connection()) as connection:
            duck = cast("driver.Connection", connection.driver_connection).duck
            duck.register("batch", self.arrow)
            yield duck
            duck.unregister("batch")

    def floor(self) -> Timing:
        """Join keys and write rows."""
        self.fill()
        file = self.directory / "floor.parquet"
        with self.registered() as duck:

            def work() -> None:
                duck.execute(f"SELECT count(*) FROM {TARGET} JOIN batch USING (id)").fetchall()
                duck.execute(f"COPY batch TO '{file}'")

            return timed(work)

    def native(self) -> Timing:
        """Let DuckDB merge, in a transaction that commits by itself."""
        self.fill()
        with self.registered() as duck:
            return timed(lambda: duck.execute(_MERGE).fetchall())

    def upsert(self, name: str, data: Any, *, fill: bool = True, **options: Any) -> Timing:
        """Upsert the batch; its result and its snapshots are facts."""
        if fill:
            self.fill()
        statement = upsert(self.table, data, **options)
        before = newest_snapshot(self.engine)

        def work() -> None:
            with self.engine.begin() as connection:
                self.facts[name] = merge_result(connection.execute(statement))

        timing = timed(work)
        self.facts[f"snapshots of {name}"] = newest_snapshot(self.engine) - before
        return timing
