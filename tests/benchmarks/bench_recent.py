"""An upsert of recent keys: does its time grow with the table, or with the batch?

Both tables are in files of a million rows in key order, so the keys of a batch lie in the
last file; with a few keys from far back they lie between the first and the last one.
"""

from __future__ import annotations

from functools import partial
from itertools import count as numbers
from pathlib import Path

from sqlalchemy import URL, Engine, Table, create_engine

from benchmarks.data import data_files, filled_table, rows
from benchmarks.measure import Report, Timing, medians, timed
from sqlalchemy_ducklake import MergeResult, insert, merge_result

CHANGES = 1000
FAR_BACK = 5

# Each upsert brings other values, so that it never meets its own.
_versions = numbers(1)


def run(directory: Path, sizes: tuple[int, int] | None = None, runs: int = 5) -> Report:
    """Measure tables of two sizes on a new lake in ``directory``."""
    small, large = sizes or (1_000_000, 10_000_000)
    engine = create_engine(URL.create("ducklake", database=str(directory / "recent.ducklake")))
    facts: dict[str, object] = {}
    try:
        works = {}
        for name, size in (("small", small), ("large", large)):
            table = filled_table(engine, name, size)
            facts[f"data files for {size:,} rows"] = data_files(engine, name)
            recent = range(size - CHANGES // 2, size + CHANGES // 2)
            back = range(0, size, size // FAR_BACK)[:FAR_BACK]
            title = f"{size:,} rows"
            works[title] = partial(_upsert, engine, table, [*recent], title, facts)
            title += f", {FAR_BACK} keys from far back"
            works[title] = partial(
                _upsert, engine, table, [*back, *recent[FAR_BACK:]], title, facts
            )
        times = medians(works, runs)
    finally:
        engine.dispose()
    title = f"Upsert of {CHANGES:,} recent keys; ratios to the first"
    return Report(title, times, next(iter(times.values())), facts)


def _upsert(
    engine: Engine, table: Table, keys: list[int], name: str, facts: dict[str, object]
) -> Timing:
    batch = rows(keys, version=next(_versions))

    def work() -> MergeResult:
        with engine.begin() as connection:
            result = connection.execute(insert(table).on_conflict_do_update(), batch)
            return merge_result(result)

    results: list[MergeResult] = []
    timing = timed(lambda: results.append(work()))
    facts[name] = results[0]
    return timing
