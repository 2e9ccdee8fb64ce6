"""The writer's benchmark does what it is timed for."""

from __future__ import annotations

from pathlib import Path

from benchmarks import bench_writer


def test_streams_are_written_whole_and_by_month(tmp_path: Path) -> None:
    report = bench_writer.run(tmp_path, size=120_000, runs=1)
    assert report.facts["rows"] == 120_000
    assert (report.facts["files"], report.facts["files, by month"]) == (1, 60)
    assert set(report.times) == {
        "COPY to Parquet",
        "write_table(reader)",
        "table_writer, batch by batch",
        "the same, by month",
    }
