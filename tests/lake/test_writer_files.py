"""add_files: Parquet files that are there already become part of a table (D43, D54)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sqlalchemy import Column, Engine, Integer, MetaData, String, Table, exc, func, select, text

from sqlalchemy_ducklake import add_files, errors, upsert, versions

Snapshots = Callable[[], int]
metadata = MetaData()
heap = Table("heap", metadata, Column("n", Integer), Column("s", String))
keyed = Table(
    "keyed",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("v", String, nullable=False),
)
parted = Table(
    "parted", metadata, Column("n", Integer), Column("k", Integer), ducklake_partition_by=["k"]
)


@pytest.fixture
def lake(engine: Engine) -> Engine:
    metadata.create_all(engine)
    return engine


@pytest.fixture
def file(tmp_path: Path) -> Callable[..., str]:
    """Write a Parquet file and give its path."""

    def write(name: str = "o'ne 1.parquet", **columns: Any) -> str:
        path = tmp_path / "elsewhere" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table(columns), path)
        return str(path)

    return write


def small(*values: int) -> Any:
    return pa.array(values, pa.int32())


def test_d54_files_become_part_of_a_table_in_one_snapshot(
    lake: Engine, snapshots: Snapshots, file: Callable[..., str]
) -> None:
    before = snapshots()
    paths = [file(f"{n}.parquet", s=["x", None], n=small(n, n + 1)) for n in range(3)]
    with lake.begin() as connection:
        assert add_files(connection, heap, paths) == 6
    assert snapshots() == before + 1
    with lake.connect() as connection:
        assert connection.scalar(select(func.sum(heap.c.n))) == 1 + 3 + 5
        assert next(versions(connection, heap)).mode == "insert"


def test_a_rolled_back_file_is_still_its_owners(
    lake: Engine, snapshots: Snapshots, file: Callable[..., str]
) -> None:
    before, path = snapshots(), file(n=small(1), s=["x"])
    with lake.connect() as connection:
        add_files(connection, heap, path)
        connection.rollback()
    assert snapshots() == before
    assert Path(path).is_file()


@pytest.mark.parametrize(
    ("name", "columns", "says"),
    [
        ("no such", {}, "no such file"),
        ("type", {"n": ["x"], "s": ["x"]}, "Failed to map"),
        ("missing", {"n": small(1)}, "was not found"),
        ("extra", {"n": small(1), "s": ["x"], "more": [1]}, "ignore_extra_columns"),
        ("text", None, "parquet"),
    ],
)
def test_a_file_that_does_not_fit_is_refused_by_name(
    lake: Engine,
    snapshots: Snapshots,
    file: Callable[..., str],
    name: str,
    columns: Any,
    says: str,
) -> None:
    before, path = snapshots(), "/no such/file.parquet"
    if columns:
        path = file(**columns)
    elif columns is None:
        path = file(n=small(1))
        Path(path).write_text("this is no Parquet", encoding="utf-8")
    with lake.connect() as connection:
        with pytest.raises(errors.FileRefused, match=f"(?i){says}") as caught:
            add_files(connection, heap, path)
        connection.rollback()
    assert (caught.value.table, caught.value.path) == ("main.heap", path)
    assert snapshots() == before


def test_a_file_is_added_once_only(lake: Engine, file: Callable[..., str]) -> None:
    path = file(n=small(1), s=["x"])
    with lake.begin() as connection:
        add_files(connection, heap, path)
    with lake.begin() as connection:
        for again in (path, [f"{Path(path).parent}/../elsewhere/{Path(path).name}"]):
            with pytest.raises(errors.FileRefused, match="already"):
                add_files(connection, heap, again)
        twin = Table("twin", MetaData(), Column("n", Integer), Column("s", String))
        twin.create(connection)
        with pytest.raises(errors.FileRefused, match="already"):
            add_files(connection, twin, path)
        other = file("other.parquet", n=small(2), s=["x"])
        with pytest.raises(errors.FileRefused, match="twice"):
            add_files(connection, heap, [other, other])
        with pytest.raises(errors.FileRefused, match="no file"):
            add_files(connection, heap, [])
    with lake.connect() as connection:
        assert connection.scalar(select(func.count()).select_from(heap)) == 1


def test_null_and_keys_are_checked_for_the_engine_does_not(
    lake: Engine, file: Callable[..., str]
) -> None:
    good = file("good.parquet", id=small(1, 2), v=["a", "b"])
    nulls = file("nulls.parquet", id=small(3, 4), v=["a", None])
    twice = file("twice.parquet", id=small(5, 5), v=["a", "b"])
    there = file("there.parquet", id=small(2, 6), v=["a", "b"])
    with lake.begin() as connection:
        add_files(connection, keyed, good)
    with lake.begin() as connection:
        with pytest.raises(errors.NullsRefused) as caught:
            add_files(connection, keyed, nulls)
        assert caught.value.columns == ("v",)
        for path, example in ((twice, 5), (there, 2)):
            with pytest.raises(errors.KeyViolation) as violated:
                add_files(connection, keyed, path)
            assert violated.value.examples == ((example,),)
        connection.execute(upsert(keyed, [{"id": 1, "v": "changed"}]))
    with lake.connect() as connection:
        rows = connection.execute(select(keyed).order_by(keyed.c.id)).all()
    assert rows == [(1, "changed"), (2, "b")]


def test_d43_edge23_a_partitioned_table_needs_files_laid_out_like_it(
    lake: Engine, snapshots: Snapshots, file: Callable[..., str]
) -> None:
    before = snapshots()
    flat = file("flat.parquet", n=small(1), k=small(1))
    with lake.begin() as connection:
        with pytest.raises(errors.FileRefused, match="hive_partitioning=True"):
            add_files(connection, parted, flat)
        wrong = file("k=x/one.parquet", n=small(1))
        with pytest.raises(errors.FileRefused):
            add_files(connection, parted, wrong, hive_partitioning=True)
        connection.rollback()
    assert snapshots() == before
    with lake.begin() as connection:
        laid = file("k=7/one.parquet", n=small(1, 2))
        assert add_files(connection, parted, laid, hive_partitioning=True) == 2
    with lake.connect() as connection:
        assert connection.scalar(select(func.sum(parted.c.n)).where(parted.c.k == 7)) == 3
        query = (
            "SELECT partition_value FROM __ducklake_metadata_lake.ducklake_file_partition_value"
        )
        assert connection.scalars(text(query)).all() == ["7"]


def test_columns_left_out_and_too_many_may_be_allowed(
    lake: Engine, file: Callable[..., str]
) -> None:
    with lake.begin() as connection:
        path = file("less.parquet", n=small(1))
        assert add_files(connection, heap, path, allow_missing=True) == 1
        path = file("more.parquet", n=small(2), s=["x"], more=[1])
        assert add_files(connection, heap, path, ignore_extra_columns=True) == 1
    with lake.connect() as connection:
        assert connection.execute(select(heap).order_by(heap.c.n)).all() == [
            (1, None),
            (2, "x"),
        ]
    with lake.connect() as connection, pytest.raises(exc.ArgumentError):
        add_files(connection, "heap", path)
