"""The benchmarks do what they are timed for; how fast they are is not asserted."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy import URL

from benchmarks import (
    bench_changes,
    bench_insert,
    bench_memory,
    bench_merge,
    bench_orm,
    bench_peers,
    bench_reading,
    bench_recent,
    bench_reflection,
    bench_update,
)
from benchmarks.measure import Report
from sqlalchemy_ducklake import MergeResult


def printed(report: Report, capsys: pytest.CaptureFixture[str]) -> str:
    report.print()
    return capsys.readouterr().out


def test_an_insert_of_many_dicts_writes_one_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = bench_insert.run(tmp_path, size=5000, runs=1)
    assert report.facts == {
        "rows in the unkeyed table": 5000,
        "data files of the unkeyed table": 1,
        "rows in the keyed table": 5000,
        "data files of the keyed table": 1,
    }
    assert "keyed table" in printed(report, capsys)


def test_an_upsert_writes_once_and_its_repetition_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = bench_merge.run(tmp_path, bench_merge.Sizes(target=20_000, changes=2000), runs=1)
    assert report.facts == {
        "upsert": MergeResult(inserted=1000, updated=1000),
        "snapshots of upsert": 1,
        "the same again": MergeResult(unchanged=2000),
        "snapshots of the same again": 0,
    }
    assert "the same again" in printed(report, capsys)


def test_the_memory_of_a_merge_is_measured_in_a_process_of_its_own(tmp_path: Path) -> None:
    cases = (bench_memory.Case(3000, 200), bench_memory.Case(3000, 200, streams=True))
    report = bench_memory.run(tmp_path, cases)
    for case in cases:
        assert "inserted=100, updated=100" in str(report.facts[f"{case.title}: result"])
        assert isinstance(report.facts[f"{case.title}: MB added"], int)


def test_recent_keys_are_merged_into_tables_of_two_sizes(tmp_path: Path) -> None:
    report = bench_recent.run(tmp_path, sizes=(4000, 8000), runs=1)
    merged = {name: fact for name, fact in report.facts.items() if "files" not in name}
    assert list(merged) == list(report.times)
    assert set(merged.values()) == {MergeResult(updated=1000)}  # the second time round


def test_an_update_with_many_parameter_sets_reaches_every_row(tmp_path: Path) -> None:
    report = bench_update.run(tmp_path, size=4000, sets=400, runs=1)
    assert report.facts == {"rows updated": 400}


def test_every_way_of_reading_gives_all_rows(tmp_path: Path) -> None:
    report = bench_reading.run(tmp_path, size=3000, runs=1)
    counted = [fact for name, fact in report.facts.items() if "peak" not in name]
    assert counted == ["3,000 rows"] * 5


def test_reflection_finds_what_the_bare_query_finds(any_url: URL, tmp_path: Path) -> None:
    report = bench_reflection.run_on(any_url, tmp_path, tables=3, runs=1)
    assert list(report.facts.values()) == [60, 60, 3 * 8, 3, 3, 20]


def test_one_row_is_read_many_times(tmp_path: Path) -> None:
    report = bench_reading.run_small(tmp_path, size=100, times=2, runs=1)
    assert [report.facts[name] for name in report.times] == ["1 row"] * 3


def test_every_way_to_merge_arrow_data_does_the_same(tmp_path: Path) -> None:
    sizes = bench_merge.Sizes(target=5000, changes=1000)
    facts = bench_changes.run(tmp_path, sizes, runs=1).facts
    merged = {name: fact for name, fact in facts.items() if "snapshots" not in name}
    assert merged.pop("Arrow again") == MergeResult(unchanged=1000)
    assert set(merged.values()) == {MergeResult(inserted=500, updated=500)}
    assert [fact for name, fact in facts.items() if "snapshots" in name] == [1, 0, 1, 1, 1, 1]


def test_objects_that_changed_are_flushed(tmp_path: Path) -> None:
    report = bench_orm.run(tmp_path, size=50, target=1000, runs=1)
    assert report.facts["rows that the flush changed"] == 50
    assert list(report.times) == [
        "unit of work alone",
        "one merge from Arrow",
        "flush and commit",
    ]


def test_peers_that_are_not_installed_are_named(tmp_path: Path) -> None:
    sizes = bench_merge.Sizes(target=2000, changes=200)
    report = bench_peers.run(tmp_path, sizes, runs=1)
    for name in ("delta-rs", "PyIceberg"):
        done: object = {"inserted": 100, "updated": 100}
        assert report.facts[name] in ("not installed", done)
        assert (name in report.times) is (report.facts[name] == done)


def test_the_benchmarks_are_a_program(tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error", str(Path(__file__).parent), "--help"]
    help_text = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, check=True
    )
    names = "changes, contention, insert, memory, merge, orm, one-row, peers, reading, recent,"
    assert names in " ".join(help_text.stdout.split())
