"""Writer, history, report and upkeep in each kind of catalog: the small same story."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sqlalchemy import (
    Column,
    Engine,
    Integer,
    MetaData,
    String,
    Table,
    create_engine,
    delete,
    exc,
    func,
    inspect,
    select,
)

from sqlalchemy_ducklake import (
    MergeResult,
    add_files,
    describe,
    diff,
    driver,
    errors,
    restore,
    snapshots,
    table_writer,
    undo_appends_since,
)
from sqlalchemy_ducklake.lake.config import LakeConfig

metadata = MetaData()
heap = Table("heap", metadata, Column("n", Integer), Column("s", String))
parted = Table(
    "parted",
    metadata,
    Column("n", Integer, primary_key=True, autoincrement=False),
    Column("k", Integer),
    ducklake_partition_by=["k"],
    ducklake_sort_by=["n"],
)


@pytest.fixture
def lake(any_lake: LakeConfig) -> Engine:
    engine = create_engine("ducklake://", creator=lambda: driver.connect(any_lake))
    metadata.create_all(engine)
    return engine


def head(lake: Engine) -> int:
    with lake.connect() as connection:
        return next(snapshots(connection)).id


def test_a_table_is_written_described_and_brought_back(lake: Engine, tmp_path: Path) -> None:
    with lake.begin() as connection, table_writer(connection, parted) as w:
        w.write({"n": n, "k": n % 3} for n in range(300))
    first = head(lake)
    assert (w.result.snapshot_id, len(w.result.files)) == (first, 3)
    with lake.begin() as connection:
        connection.execute(delete(parted).where(parted.c.n < 100))
        report = describe(connection, parted)
        assert (len(report.files), report.partitions, report.rows) == (3, 3, 300)
    with lake.connect() as connection:
        report = describe(connection, parted)
        assert (report.deleted, report.keys[0].column) == (100, "n")
        assert report.plot(tmp_path / "files.svg").read_text(encoding="utf-8")
        assert diff(connection, parted, first, head(lake)).deleted == 100
    with lake.begin() as connection:
        assert restore(connection, parted, first) == MergeResult(inserted=100, unchanged=200)


def test_files_are_adopted_and_appends_taken_back(lake: Engine, tmp_path: Path) -> None:
    path = tmp_path / "elsewhere.parquet"
    rows = pa.table({"n": pa.array(range(100), pa.int32()), "s": ["x"] * 100})
    pq.write_table(rows, path)
    with lake.begin() as connection:
        assert add_files(connection, heap, str(path)) == 100
    base = head(lake)
    with lake.begin() as connection:
        with pytest.raises(errors.FileRefused, match="already"):
            add_files(connection, heap, str(path))
        with table_writer(connection, heap, compression="zstd", row_group_rows=2048) as w:
            w.write(rows)
    with lake.begin() as connection:
        assert undo_appends_since(connection, heap, base) == 100
        assert connection.scalar(select(func.count()).select_from(heap)) == 100


def test_a_connection_that_reads_the_past_can_be_inspected(lake: Engine) -> None:
    with lake.begin() as connection, table_writer(connection, heap) as w:
        w.write([{"n": 1, "s": "x"}])
    past = lake.execution_options(ducklake_snapshot=head(lake) - 1)
    with past.connect() as connection:
        assert connection.scalar(select(func.count()).select_from(heap)) == 0
        assert [each["name"] for each in inspect(connection).get_columns("heap")] == ["n", "s"]
        assert inspect(connection).get_pk_constraint("parted")["constrained_columns"] == ["n"]


def test_a_key_is_known_that_nobody_declares(lake: Engine) -> None:
    bare = Table("parted", MetaData(), Column("n", Integer), Column("k", Integer))
    with lake.begin() as connection:
        connection.execute(bare.insert(), {"n": 1, "k": 1})
    with lake.begin() as connection:
        with pytest.raises(exc.IntegrityError):
            connection.execute(bare.insert(), {"n": 1, "k": 2})
        assert connection.execute(select(bare)).all() == [(1, 1)]
