"""Run a benchmark and print its table: ``python tests/benchmarks insert``.

Ratios are what counts, and nothing is asserted about them; test_benchmarks_run.py
makes sure that the works do what they are timed for.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

# A directory that is run finds what lies inside it; the names here begin one higher.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import (
    bench_changes,
    bench_contention,
    bench_insert,
    bench_memory,
    bench_merge,
    bench_orm,
    bench_peers,
    bench_reading,
    bench_recent,
    bench_reflection,
    bench_scope,
    bench_small,
    bench_update,
    bench_writer,
)
from benchmarks.measure import Report

BENCHMARKS: dict[str, Callable[..., Report]] = {
    "changes": bench_changes.run,
    "contention": bench_contention.run,
    "insert": bench_insert.run,
    "memory": bench_memory.run,
    "merge": bench_merge.run,
    "orm": bench_orm.run,
    "one-row": bench_reading.run_small,
    "peers": bench_peers.run,
    "reading": bench_reading.run,
    "recent": bench_recent.run,
    "reflection": bench_reflection.run,
    "reflection-postgresql": bench_reflection.run_on_postgresql,
    "reflection-sqlite": bench_reflection.run_on_sqlite,
    "scope": bench_scope.run,
    "scope-cycles": bench_scope.run_cycles,
    "scope-point": bench_scope.run_point,
    "scope-small": bench_small.run,
    "update": bench_update.run,
    "writer": bench_writer.run,
}


def main() -> None:
    """Run the benchmarks that are asked for, each in a temporary directory."""
    parser = argparse.ArgumentParser(prog="python tests/benchmarks", description=__doc__)
    parser.add_argument("benchmark", nargs="*", help=f"of {', '.join(BENCHMARKS)} (all)")
    parser.add_argument("--runs", type=int, default=5, help="of each work (%(default)s)")
    asked = parser.parse_args()
    for name in asked.benchmark or BENCHMARKS:
        with tempfile.TemporaryDirectory() as directory:
            BENCHMARKS[name](Path(directory), runs=asked.runs).print()


if __name__ == "__main__":
    main()
