"""Writers in eight processes all finish, and what they wrote is there once."""

from __future__ import annotations

from pathlib import Path

from benchmarks import bench_contention


def test_every_process_finishes(tmp_path: Path) -> None:
    report = bench_contention.run(tmp_path, processes=(8,), turns=2)
    assert report.facts["every upsert is there once"] is True
    assert set(report.times) == {"8 on own keys", "8 on the same keys"}
