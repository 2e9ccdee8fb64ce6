"""The same upsert by other lakehouse libraries: delta-rs, PyIceberg, and SQLAlchemy on SQLite.

delta-rs and PyIceberg are not needed for anything else: ``pip install deltalake
'pyiceberg[sql-sqlite]'``.  One that is not installed is named and left out.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
from sqlalchemy import URL, create_engine

from benchmarks.bench_changes import Changes
from benchmarks.bench_merge import Merge, Sizes
from benchmarks.data import SCHEMA, rows
from benchmarks.measure import Report, Timing, driver_stub, medians, timed

_OURS = "this package, from Arrow"


def run(directory: Path, sizes: Sizes | None = None, runs: int = 3) -> Report:
    """Measure on new tables in ``directory``, with the same rows and changes."""
    sizes = sizes or Sizes()
    url = URL.create("ducklake", database=str(directory / "peers.ducklake"))
    engine, stub = create_engine(url), driver_stub(url)
    changed = rows(sizes.keys, version=1)
    arrow = pa.Table.from_pylist(changed, SCHEMA)
    ours = Changes(engine, directory, sizes, changed, arrow)
    lite = Merge(engine, stub, directory, sizes, changed)
    works: dict[str, Callable[[], Timing]] = {
        _OURS: lambda: ours.upsert(_OURS, arrow),
        "this package, from dicts": lambda: ours.upsert("this package, from dicts", changed),
        "SQLAlchemy on SQLite, from dicts": lite.sqlite,
    }
    facts: dict[str, object] = ours.facts
    target = pa.Table.from_pylist(rows(range(sizes.target)), SCHEMA)
    for name, (module, peer) in _PEERS.items():
        if importlib.util.find_spec(module) is None:
            facts[name] = "not installed"
        else:
            works[name] = Peer(name, peer, directory, target, arrow, facts)
    try:
        times = medians(works, runs)
    finally:
        engine.dispose()
        stub.dispose()
    title = (
        f"Upsert of {sizes.changes:,} rows, half of them new, into {sizes.target:,} rows; "
        f"ratios to {_OURS}"
    )
    return Report(title, times, times[_OURS], facts)


class Peer:
    """A work: fill a new table, and time the upsert."""

    def __init__(
        self,
        name: str,
        prepare: Callable[[Path, pa.Table], Callable[[pa.Table], object]],
        directory: Path,
        target: pa.Table,
        changes: pa.Table,
        facts: dict[str, object],
    ) -> None:
        self.name = name
        self.prepare = prepare
        self.directory = directory
        self.target = target
        self.changes = changes
        self.facts = facts
        self.number = 0

    def __call__(self) -> Timing:
        """Do it once more, in a directory of its own."""
        self.number += 1
        place = self.directory / self.name / str(self.number)
        place.mkdir(parents=True)
        upsert = self.prepare(place, self.target)
        answer: list[object] = []
        timing = timed(lambda: answer.append(upsert(self.changes)))
        self.facts[self.name] = answer[0]
        return timing


def _delta(place: Path, target: pa.Table) -> Callable[[pa.Table], object]:
    from deltalake import DeltaTable, write_deltalake

    write_deltalake(place, target)
    table = DeltaTable(place)

    def upsert(changes: pa.Table) -> object:
        merge = table.merge(
            changes, predicate="s.id = t.id", source_alias="s", target_alias="t"
        )
        done: Any = merge.when_matched_update_all().when_not_matched_insert_all().execute()
        return {
            "inserted": done["num_target_rows_inserted"],
            "updated": done["num_target_rows_updated"],
        }

    return upsert


def _iceberg(place: Path, target: pa.Table) -> Callable[[pa.Table], object]:
    from pyiceberg.catalog.sql import SqlCatalog

    catalog = SqlCatalog("peer", uri=f"sqlite:///{place}/catalog.db", warehouse=place.as_uri())
    catalog.create_namespace("lake")
    table = catalog.create_table("lake.target", schema=target.schema)
    table.append(target)

    def upsert(changes: pa.Table) -> object:
        done = table.upsert(changes, join_cols=["id"])
        return {"inserted": done.rows_inserted, "updated": done.rows_updated}

    return upsert


_PEERS = {"delta-rs": ("deltalake", _delta), "PyIceberg": ("pyiceberg", _iceberg)}
