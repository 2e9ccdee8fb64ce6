"""Files of a writer: sizes, partitions, order, options of the table.

Transforms of partitions are the engine's, bucket included (D39: it refuses those it cannot
make).  Here are the promises that a reader sees.  Not tested, because the engine breaks it
(1.5.5): a table that had rows before it is partitioned by ``bucket`` hides them from
searches by that column.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sqlalchemy import (
    Column,
    DateTime,
    Double,
    Engine,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    func,
    select,
    text,
    update,
)

from sqlalchemy_ducklake import table_changes, table_writer
from sqlalchemy_ducklake.writer import WriteResult

Snapshots = Callable[[], int]
metadata = MetaData()
heap = Table("heap", metadata, Column("n", Integer), Column("s", String))
events = Table(
    "events",
    metadata,
    Column("moment", DateTime),
    Column("n", Integer),
    ducklake_partition_by=[func.year(text("moment")), func.month(text("moment"))],
)
parted = Table(
    "parted",
    metadata,
    Column("k", String),
    Column("n", Integer),
    ducklake_partition_by=["k"],
)


@pytest.fixture
def lake(engine: Engine) -> Engine:
    metadata.create_all(engine)
    return engine


def scattered(rows: int, first: int = 0) -> pa.Table:
    values = [(first + n) * 7919 % 1_000_003 for n in range(rows)]
    return pa.table({"n": pa.array(values, pa.int32()), "s": [f"text {n}" for n in values]})


def write(lake: Engine, table: Table, *data: pa.Table, **options: Any) -> WriteResult:
    with lake.begin() as connection, table_writer(connection, table, **options) as w:
        for each in data:
            w.write(each)
    return w.result


def day(year: int, month: int, number: int) -> datetime:
    return datetime.combine(date(year, month, number), time())


def stored(tmp_path: Path) -> list[Path]:
    return sorted(tmp_path.rglob("*.parquet"))


def ranges(lake: Engine, table: str, column: int) -> list[tuple[int, int]]:
    """The smallest and largest value of a column in each live file."""
    query = f"""
        SELECT min_value::BIGINT, max_value::BIGINT
        FROM __ducklake_metadata_lake.ducklake_file_column_stats AS s
        JOIN __ducklake_metadata_lake.ducklake_data_file AS f USING (data_file_id)
        JOIN __ducklake_metadata_lake.ducklake_table AS t ON t.table_id = f.table_id
        WHERE t.table_name = '{table}' AND s.column_id = {column} AND f.end_snapshot IS NULL
        AND f.record_count > 0 ORDER BY 1"""
    with lake.connect() as connection:
        return [(low, high) for low, high in connection.execute(text(query))]


def test_d7_d8_a_file_grows_to_its_target_and_the_next_goes_on_behind_it(
    lake: Engine, tmp_path: Path
) -> None:
    rows = scattered(80_000)
    result = write(lake, heap, rows, target_file_size=100_000)
    sizes = sorted(path.stat().st_size for path in stored(tmp_path))
    assert len(sizes) == len(result.files) > 5
    assert all(70_000 < size < 160_000 for size in sizes[1:])


def test_d6_the_floor_holds_for_the_writer_too(lake: Engine, tmp_path: Path) -> None:
    write(lake, heap, scattered(100), target_file_size=1)
    assert len(stored(tmp_path)) == 1


def test_d10_a_single_file_never_rolls(lake: Engine, tmp_path: Path) -> None:
    write(
        lake,
        heap,
        *(scattered(9000, n * 9000) for n in range(3)),
        single_file=True,
        target_file_size=1,
        row_group_rows=2048,
    )
    assert len(stored(tmp_path)) == 1


def test_compression_and_row_groups_are_the_writers_alone(lake: Engine, tmp_path: Path) -> None:
    rows = scattered(20_000)
    write(lake, heap, rows, compression="zstd", row_group_rows=4096)
    (first,) = stored(tmp_path)
    write(lake, heap, rows, row_group_bytes=60_000, compression="uncompressed")
    write(lake, heap, rows)
    made = [pq.ParquetFile(each).metadata for each in stored(tmp_path)]
    codecs = {each.row_group(0).column(0).compression for each in made}
    assert codecs == {"ZSTD", "UNCOMPRESSED", "SNAPPY"}
    assert pq.ParquetFile(first).metadata.num_row_groups == 5
    groups = sorted(each.num_row_groups for each in made)
    assert groups[0] == 1
    assert groups[-1] >= 5
    reflected = Table("heap", MetaData(), autoload_with=lake)
    assert not reflected.dialect_options["ducklake"]["options"]


def test_options_of_the_table_are_there_again_afterwards(lake: Engine, tmp_path: Path) -> None:
    with lake.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        for option, value in (
            ("parquet_compression", "'gzip'"),
            ("parquet_row_group_size", "9000"),
        ):
            connection.execute(
                text(f"CALL lake.set_option('{option}', {value}, table_name => 'heap')")
            )
    rows = scattered(20_000)
    write(lake, heap, rows, compression="zstd", row_group_rows=4096)
    write(lake, heap, rows)
    second = max(stored(tmp_path), key=lambda path: path.stat().st_mtime_ns)
    made = pq.ParquetFile(second).metadata
    assert made.row_group(0).column(0).compression == "GZIP"
    assert made.num_row_groups == 2
    with lake.connect() as connection:
        settings = connection.execute(
            text(
                "SELECT current_setting('ducklake_target_file_size'), "
                "current_setting('partitioned_write_max_open_files')"
            )
        ).one()
    assert tuple(settings) == (None, 100)


def test_settings_are_let_go_of_after_a_failure(lake: Engine) -> None:
    checked = Table("heap", MetaData(), Column("n", Integer), Column("gone", Integer))
    with lake.connect() as connection:
        w = table_writer(connection, checked, target_file_size=1, max_open_partitions=3)
        w.write([{"n": 1, "gone": 1}])
        with pytest.raises(Exception, match="gone"):
            w.finish()
        connection.rollback()
        current = text("SELECT current_setting('partitioned_write_max_open_files')")
        assert connection.scalar(current) == 100


def test_d38_d40_rows_are_parted_by_calendar_values(lake: Engine, tmp_path: Path) -> None:
    first = day(2023, 12, 30)
    times = [first + timedelta(hours=6 * n) for n in range(200)]
    result = write(
        lake, events, pa.table({"moment": times, "n": pa.array(range(200), pa.int32())})
    )
    found = {tuple(p.parent.parts[-2:]) for p in stored(tmp_path)}
    assert found == {
        ("year=2023", "month=12"),
        ("year=2024", "month=1"),
        ("year=2024", "month=2"),
    }
    assert len(result.files) == 3
    with lake.connect() as connection:
        query = select(func.count()).where(events.c.moment >= day(2024, 2, 1))
        assert connection.scalar(query) == 200 - 8 - 124


def test_d41_d42_edge33_null_and_odd_values_have_partitions_of_their_own(
    lake: Engine, tmp_path: Path
) -> None:
    values = [None, "a/b", "a?b", "", "nul\0byte", "ü", "__HIVE_DEFAULT_PARTITION__", "a=b"]
    rows = pa.table({"k": values * 3, "n": pa.array(range(24), pa.int32())})
    write(lake, parted, rows)
    assert len(stored(tmp_path)) == len(values)
    with lake.connect() as connection:
        for value in values:
            same = parted.c.k.is_not_distinct_from(value)
            found = connection.scalars(select(parted.c.n).where(same)).all()
            assert sorted(found) == [n for n in range(24) if values[n % 8] == value]


def test_d45_edge21_one_open_partition_loses_no_row(lake: Engine, tmp_path: Path) -> None:
    rows = pa.table(
        {"k": [str(n % 7) for n in range(50_000)], "n": pa.array(range(50_000), pa.int32())}
    )
    write(
        lake,
        parted,
        *(rows.slice(n, 10_000) for n in range(0, 50_000, 10_000)),
        max_open_partitions=1,
    )
    with lake.connect() as connection:
        found = connection.execute(
            select(func.count(), func.count(func.distinct(parted.c.n)), func.sum(parted.c.n))
        ).one()
        keys = connection.scalars(select(parted.c.k).distinct()).all()
    assert tuple(found) == (50_000, 50_000, sum(range(50_000)))
    assert sorted(keys) == [str(n) for n in range(7)]
    assert len(stored(tmp_path)) >= 7


def test_d46_edge22_files_roll_inside_a_partition(lake: Engine, tmp_path: Path) -> None:
    rows = scattered(60_000)
    table = pa.table({"k": rows["s"].combine_chunks().cast(pa.string()), "n": rows["n"]})
    table = table.set_column(0, "k", pa.array(["x" if n % 2 else "y" for n in range(60_000)]))
    result = write(
        lake,
        parted,
        *(table.slice(n, 10_000) for n in range(0, 60_000, 10_000)),
        target_file_size=50_000,
    )
    by_partition = {
        name: [p for p in stored(tmp_path) if p.parent.name == name] for name in ("k=x", "k=y")
    }
    assert len(result.files) == sum(map(len, by_partition.values()))
    assert all(len(files) > 1 for files in by_partition.values())
    with lake.connect() as connection:
        ids = text(
            "SELECT count(DISTINCT partition_value) "
            "FROM __ducklake_metadata_lake.ducklake_file_partition_value"
        )
        assert connection.scalar(ids) == 2
        assert connection.scalar(select(func.count()).select_from(parted)) == 60_000


def test_d47_edge30_an_update_moves_rows_to_their_partition(
    lake: Engine, tmp_path: Path
) -> None:
    year_end = day(2023, 12, 31)
    write(
        lake,
        events,
        pa.table({"moment": [year_end] * 100, "n": pa.array(range(100), pa.int32())}),
    )
    with lake.begin() as connection:
        connection.execute(update(events).where(events.c.n < 40).values(moment=day(2024, 1, 1)))
    moved = [p for p in stored(tmp_path) if p.parent.parts[-2:] == ("year=2024", "month=1")]
    assert len(moved) == 1
    assert pq.ParquetFile(moved[0]).metadata.num_rows == 40


def test_d48_edge29_old_files_keep_their_layout_and_are_not_pruned_wrongly(
    lake: Engine, tmp_path: Path
) -> None:
    rows = pa.table({"k": ["a", "b"] * 50, "n": pa.array(range(100), pa.int32())})
    steps = ("RESET PARTITIONED BY", "SET PARTITIONED BY (n)", "SET PARTITIONED BY (k, n)")
    write(lake, parted, rows)
    counts = [len(stored(tmp_path))]
    for step in steps:
        with lake.begin() as connection:
            connection.execute(text(f"ALTER TABLE parted {step}"))
        write(lake, parted, rows.slice(0, 20))
        counts.append(len(stored(tmp_path)))
    assert counts == [2, 3, 23, 43]
    with lake.connect() as connection:
        for value, expected in (("a", 80), ("b", 80)):
            query = select(func.count()).where(parted.c.k == value)
            assert connection.scalar(query) == expected
        assert connection.scalar(select(func.count()).where(parted.c.n == 3)) == 4


def test_d48_a_layout_of_the_same_transaction_is_used(lake: Engine, tmp_path: Path) -> None:
    rows = pa.table({"n": pa.array([1, 2] * 20, pa.int32()), "s": ["x"] * 40})
    with lake.begin() as connection:
        connection.execute(text("ALTER TABLE heap SET PARTITIONED BY (n)"))
        with table_writer(connection, heap) as w:
            w.write(rows)
    assert [p.parent.name for p in stored(tmp_path)] == ["n=1", "n=2"]


def test_d49_edge35_sorted_files_do_not_overlap_and_roll_all_the_same(lake: Engine) -> None:
    parts = [scattered(10_000, n * 10_000) for n in range(5)]
    write(lake, heap, *parts, sort=["n"], target_file_size=50_000, row_group_rows=4096)
    found = ranges(lake, "heap", 1)
    assert len(found) > 3
    assert all(one[1] <= two[0] for one, two in itertools.pairwise(found))


def test_d49_a_stream_that_is_not_sorted_keeps_its_order(lake: Engine) -> None:
    parts = [scattered(5000, n * 5000) for n in range(4)]
    write(lake, heap, *parts, target_file_size=1, row_group_rows=2048)
    with lake.connect() as connection:
        rows = connection.scalars(text("SELECT n FROM heap ORDER BY rowid")).all()
    assert rows == [n for part in parts for n in part["n"].to_pylist()]


def test_d50_sorting_never_conflicts_with_a_writer(lake: Engine) -> None:
    with lake.begin() as connection:
        connection.execute(text("ALTER TABLE heap SET SORTED BY (n)"))
    write(lake, heap, scattered(5000))
    found = ranges(lake, "heap", 1)
    assert len(found) == 1
    with lake.connect() as connection:
        rows = connection.scalars(text("SELECT n FROM heap ORDER BY rowid")).all()
    assert rows == sorted(rows)


def test_d18_files_with_nan_are_found_whatever_is_asked(engine: Engine) -> None:
    table = Table("reals", MetaData(), Column("x", Double))
    table.create(engine)
    write(engine, table, pa.table({"x": [1.0, math.nan, 3.0] * 100}))
    write(engine, table, pa.table({"x": [math.nan] * 100}))
    with engine.connect() as connection:
        ask: Any = lambda where: connection.scalar(select(func.count()).where(where))  # noqa: E731
        assert ask(func.isnan(table.c.x)) == 200
        assert ask(table.c.x > 1000) == 200  # NaN is the largest number to the engine
        assert ask(table.c.x <= 3) == 200


def test_d17_d31_columns_renamed_after_writing_are_read_by_their_ids(lake: Engine) -> None:
    write(lake, heap, scattered(1000))
    with lake.begin() as connection:
        connection.execute(text("ALTER TABLE heap RENAME n TO m"))
        connection.execute(text("ALTER TABLE heap ADD COLUMN n INTEGER"))
    after = Table("heap", MetaData(), autoload_with=lake)
    with lake.connect() as connection:
        assert connection.scalar(select(func.count(after.c.m))) == 1000
        assert connection.scalar(select(func.count(after.c.n))) == 0


def test_d36_writing_moves_no_schema_version(lake: Engine) -> None:
    def version() -> int:
        with lake.connect() as connection:
            query = "SELECT max(schema_version) FROM __ducklake_metadata_lake.ducklake_snapshot"
            return connection.scalar(text(query)) or 0

    before = version()
    write(lake, heap, scattered(1000), compression="zstd")
    write(lake, heap, scattered(1000), mode="replace")
    assert version() == before
    write(lake, heap, scattered(10).append_column("more", pa.array(range(10))), evolve=True)
    assert version() == before + 1


def test_d19_d55_rows_of_a_writer_are_inserts_of_the_feed(lake: Engine) -> None:
    result = write(lake, heap, scattered(3000), target_file_size=1, row_group_rows=2048)
    number = result.snapshot_id
    assert number is not None
    feed = table_changes(heap, number, number)
    with lake.connect() as connection:
        rows = connection.execute(
            select(
                feed.c.change_type, func.count(), func.count(func.distinct(feed.c.rowid))
            ).group_by(feed.c.change_type)
        ).all()
    assert rows == [("insert", 3000, 3000)]


def test_bytes_and_wide_texts_take_the_writers_road(engine: Engine) -> None:
    table = Table("wide", MetaData(), Column("b", LargeBinary), Column("s", String))
    table.create(engine)
    row = {"b": b"\0\xff" * 1000, "s": "ü\0'\"" * 1000}
    with engine.begin() as connection, table_writer(connection, table) as w:
        w.write([row] * 20)
    with engine.connect() as connection:
        assert connection.execute(select(table).distinct()).all() == [(row["b"], row["s"])]
