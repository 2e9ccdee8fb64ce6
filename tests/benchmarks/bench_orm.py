"""Objects changed one by one in a Session, which flushes them as one UPDATE.

The floor is SQLAlchemy's own unit of work, measured with a driver that takes its parameters
and does nothing, and the same changes as one merge of Arrow data.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
from sqlalchemy import URL, Engine, Table, create_engine, select
from sqlalchemy.orm import Session, registry

from benchmarks.data import SCHEMA, filled_table, rows
from benchmarks.measure import Report, Timing, driver_stub, medians, timed
from sqlalchemy_ducklake import merge_result, upsert


class Thing:
    """A row of the table."""

    amount: int
    weight: float


def run(directory: Path, size: int = 10_000, target: int = 1_000_000, runs: int = 5) -> Report:
    """Measure ``size`` updates in a table of ``target`` rows on a new lake."""
    url = URL.create("ducklake", database=str(directory / "orm.ducklake"))
    engine, stub = create_engine(url), driver_stub(url)
    # The driver that does nothing cannot tell how many rows it reached.
    stub.dialect.supports_sane_multi_rowcount = False
    table = filled_table(engine, "things", target)
    mapping = registry()
    mapping.map_imperatively(Thing, table)
    changes = Updates(engine, table, range(0, target, target // size)[:size])
    try:
        times = medians(
            {
                "unit of work alone": lambda: changes.flush(stub),
                "one merge from Arrow": changes.merge,
                "flush and commit": lambda: changes.flush(engine),
            },
            runs,
        )
    finally:
        mapping.dispose()
        engine.dispose()
        stub.dispose()
    floor = times["unit of work alone"] + times["one merge from Arrow"]
    title = f"{size:,} objects of {target:,} changed in a Session; ratios to the first two"
    return Report(title, times, floor, changes.facts)


@dataclass(slots=True)
class Updates:
    """The works, each of which changes all rows of the keys to values that are new."""

    engine: Engine
    table: Table
    keys: range
    versions: Iterator[int] = field(default_factory=lambda: count(1))
    facts: dict[str, object] = field(default_factory=dict)

    def flush(self, engine: Engine) -> Timing:
        """Change objects one by one, then let a Session of this engine write them."""
        with Session(self.engine, expire_on_commit=False) as session:
            things = session.scalars(select(Thing).where(self.table.c.id.in_(self.keys))).all()
        version = next(self.versions)
        with Session(engine) as session:
            session.add_all(things)
            for thing in things:
                thing.amount, thing.weight = version, version / 7

            def work() -> None:
                session.flush()
                session.commit()

            timing = timed(work)
        if engine is self.engine:
            self.facts["rows that the flush changed"] = self.changed(version)
        return timing

    def merge(self) -> Timing:
        """Merge the same number of changed rows."""
        version = next(self.versions)
        changed: list[dict[str, Any]] = [{**row, "amount": version} for row in rows(self.keys)]
        data = pa.Table.from_pylist(changed, SCHEMA)

        def work() -> None:
            with self.engine.begin() as connection:
                result = connection.execute(upsert(self.table, data))
                self.facts["merge"] = merge_result(result)

        return timed(work)

    def changed(self, version: int) -> int:
        """Count the rows that hold the values of a version."""
        with self.engine.connect() as connection:
            own = self.table.c.id.in_(self.keys)
            found = select(self.table.c.id).where(self.table.c.amount == version, own)
            return len(connection.execute(found).all())
