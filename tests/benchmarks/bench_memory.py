"""The memory that a merge adds: it grows with the batch, not with the table.

Each merge runs in a process of its own, whose largest resident size is compared with the
one before the merge.  A streaming source makes its batches while they are taken, so that
what stays resident is what the merge keeps.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from sqlalchemy import URL, create_engine

from benchmarks.data import SCHEMA, described, filled_table, rows
from benchmarks.measure import Report, Timing, timed
from sqlalchemy_ducklake import merge_result, upsert

_BATCH = 50_000


@dataclass(frozen=True, slots=True)
class Case:
    """A merge: rows of the table, changes (half of them new), and where they come from."""

    target: int
    changes: int
    streams: bool = False

    @property
    def title(self) -> str:
        """Say it in a line of the report."""
        source = "a stream" if self.streams else "an Arrow table"
        return f"{self.changes:,} changes from {source} into {self.target:,} rows"


CASES = (
    Case(1_000_000, 1_000_000),
    Case(1_000_000, 1_000_000, streams=True),
    Case(1_000_000, 10_000),
    Case(10_000_000, 10_000),
)


def run(directory: Path, cases: tuple[Case, ...] = CASES, runs: int = 1) -> Report:
    """Measure each case once on a lake in ``directory``; memory hardly differs between runs."""
    del runs
    times: dict[str, Timing] = {}
    facts: dict[str, object] = {}
    for case in cases:
        url = URL.create("ducklake", database=str(directory / f"{case.target}.ducklake"))
        engine = create_engine(url)
        filled_table(engine, "target", case.target)
        engine.dispose()
        found = _in_its_own_process(url, case)
        times[case.title] = Timing(found["wall"], found["cpu"])
        facts[f"{case.title}: MB added"] = round(found["added"] / 1e6)
        facts[f"{case.title}: result"] = found["result"]
    return Report("Memory that a merge adds", times, next(iter(times.values())), facts)


def _in_its_own_process(url: URL, case: Case) -> dict[str, Any]:
    asked = [str(case.target), str(case.changes), "stream" if case.streams else "table"]
    home = Path(__file__).resolve().parent.parent
    code = f"import sys; sys.path.insert(0, {str(home)!r}); import benchmarks.bench_memory as m"
    command = [sys.executable, "-c", f"{code}; m.measure(*sys.argv[1:])"]
    address = url.render_as_string(hide_password=False)
    done = subprocess.run([*command, address, *asked], check=True, capture_output=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def measure(address: str, target: str, changes: str, kind: str) -> None:
    """Merge, and print how much memory that took, in bytes, as JSON."""
    engine, table = create_engine(address), described("target")
    first = int(target) - int(changes) // 2
    batches = _batches(first, int(changes))
    source: Any = pa.RecordBatchReader.from_batches(SCHEMA, batches)
    if kind == "table":
        source = source.read_all()
    with engine.begin() as connection:
        connection.execute(upsert(table, rows([-1])))
    before = _largest()
    results = []

    def work() -> None:
        with engine.begin() as connection:
            results.append(merge_result(connection.execute(upsert(table, source))))

    timing = timed(work)
    engine.dispose()
    print(
        json.dumps(
            {
                "added": _largest() - before,
                "wall": timing.wall,
                "cpu": timing.cpu,
                "result": str(results[0]),
            }
        )
    )


def _largest() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _batches(first: int, size: int) -> Iterator[pa.RecordBatch]:
    for start in range(first, first + size, _BATCH):
        keys = range(start, min(start + _BATCH, first + size))
        yield pa.RecordBatch.from_pylist(rows(keys, version=1), SCHEMA)
