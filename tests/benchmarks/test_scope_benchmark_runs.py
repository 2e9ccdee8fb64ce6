"""The benchmarks of the write scope do what they are timed for."""

from __future__ import annotations

from pathlib import Path

from benchmarks import bench_scope, bench_small


def test_a_session_of_many_changes_is_one_snapshot_and_one_file(tmp_path: Path) -> None:
    report = bench_scope.run(tmp_path, size=300, runs=1)
    assert report.facts == {
        "data files of the lake with a scope": 1,
        "its snapshots of the last run, and of emptying it before": 2,
    }


def test_reads_and_cycles_run(tmp_path: Path) -> None:
    assert len(bench_scope.run_point(tmp_path, size=5000, runs=1).times) == 2
    report = bench_scope.run_cycles(tmp_path, cycles=30)
    assert report.facts == {"cycles in one transaction": 30}
    assert len(bench_small.run(tmp_path, size=30, runs=1).times) == 4
