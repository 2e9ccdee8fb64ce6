"""begin_merge and write_table on a lake: S48 to S54, and S1 to S28 of a merge in pieces.

S55 to S60 (retries, guards, locks, the own snapshot found again) are in ``test_commits.py``,
``test_expected_base.py`` and ``test_locks.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from sqlalchemy import (
    Column,
    Engine,
    Integer,
    MetaData,
    Numeric,
    String,
    Table,
    exc,
    select,
    text,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from sqlalchemy_ducklake import (
    Delete,
    MergeResult,
    Patch,
    Upsert,
    begin_merge,
    errors,
    write_table,
)

Snapshots = Callable[[], int]
metadata = MetaData()
t = Table(
    "t",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", String, nullable=False),
    Column("rank", Numeric(10, 2)),
)
heap = Table("heap", metadata, Column("a", Integer), Column("b", String))


class Base(DeclarativeBase):
    pass


class Thing(Base):
    __tablename__ = "things"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str]


@pytest.fixture
def lake(engine: Engine) -> Engine:
    metadata.create_all(engine)
    return engine


def rows(engine: Engine, table: Table) -> list[Any]:
    with engine.connect() as connection:
        return sorted(map(tuple, connection.execute(select(table))), key=repr)


def temporary_tables(engine: Engine) -> int:
    with engine.connect() as connection:
        query = text("SELECT count(*) FROM duckdb_tables() WHERE temporary")
        return connection.scalar(query) or 0


def test_s11_s13_s22_changes_that_come_in_pieces_are_one_merge_and_one_snapshot(
    lake: Engine, snapshots: Snapshots
) -> None:
    before = snapshots()
    with lake.begin() as connection:
        with begin_merge(connection, t) as merging:
            merging.write(Upsert({"id": n, "name": f"n{n}"}) for n in range(1001))
            merging.write([Upsert({"id": 0, "name": "again"}), Delete({"id": 1000})])
            merging.delete({"id": 77_777})
            merging.upsert({"id": 5000, "name": "last", "rank": Decimal("1.5")})
        assert merging.result == MergeResult(inserted=1001)
    assert snapshots() == before + 1
    with lake.connect() as connection:
        order = connection.scalars(text("SELECT name FROM t ORDER BY rowid")).all()
    assert order[:2] == ["again", "n1"]
    assert order[-1] == "last"


def test_s23_edge_08_a_caller_may_use_its_row_again(lake: Engine) -> None:
    def reusing() -> Iterator[Upsert]:
        row = {"id": 0, "name": ""}
        for number in range(5):
            row["id"], row["name"] = number, f"n{number}"
            yield Upsert(row)

    with lake.begin() as connection, begin_merge(connection, t) as merging:
        merging.write(reusing())
    assert [row[:2] for row in rows(lake, t)] == [(n, f"n{n}") for n in range(5)]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (Upsert({"id": 1}), "name"),
        (Upsert({"id": 1, "name": "a", "nope": 1}), "nope"),
        (Delete({"id": 1, "name": "a"}), "name"),
        (Delete({}), "id"),
        ({"id": 1}, "Patch or a Delete"),
        (Patch({"n": 1}), "id"),
        (Patch({"id": 1, "nope": 1}), "nope"),
    ],
)
def test_s7_s8_s9_a_change_with_columns_missing_or_too_many_is_refused(
    lake: Engine, snapshots: Snapshots, change: Any, says: str
) -> None:
    before = snapshots()
    refused = pytest.raises(exc.ArgumentError, match=says)
    with lake.begin() as connection, refused, begin_merge(connection, t) as merging:
        merging.write([Upsert({"id": 5, "name": "good"}), change])
    assert (rows(lake, t), snapshots(), temporary_tables(lake)) == ([], before, 0)


def test_s20_a_source_that_breaks_leaves_nothing(lake: Engine, snapshots: Snapshots) -> None:
    def breaking() -> Iterator[Upsert]:
        yield from (Upsert({"id": n, "name": "x"}) for n in range(1500))
        raise OSError("the source is gone")

    before = snapshots()
    refused = pytest.raises(OSError, match="gone")
    with lake.begin() as connection, refused, begin_merge(connection, t) as merging:
        merging.write(breaking())
    assert (rows(lake, t), snapshots(), temporary_tables(lake)) == ([], before, 0)


def test_s26_edge_09_a_merge_is_closed_after_commit_and_abort_may_be_repeated(
    lake: Engine,
) -> None:
    with lake.begin() as connection:
        merging = begin_merge(connection, t)
        merging.upsert({"id": 1, "name": "a"})
        assert merging.commit() == MergeResult(inserted=1)
        merging.abort()
        merging.abort()
        for use in (merging.commit, lambda: merging.delete({"id": 1})):
            with pytest.raises(errors.ClosedError, match="merge is closed"):
                use()
        failing = begin_merge(connection, t)
        failing.upsert({"id": 2, "name": "a", "rank": Decimal(1)})
        with pytest.raises(exc.DataError):
            failing.upsert({"id": 3, "name": "b", "rank": Decimal("0.001")})
        failing.abort()
    assert temporary_tables(lake) == 0
    assert rows(lake, t) == [(1, "a", None)]


def test_s27_a_call_that_fails_stages_nothing_and_the_merge_goes_on(lake: Engine) -> None:
    bad: list[Any] = [{"id": 9}, "no change"]
    with lake.begin() as connection, begin_merge(connection, t) as merging:
        merging.upsert({"id": -1, "name": "before"})
        for last in bad:
            rows_and_one = [*(Upsert({"id": n, "name": "x"}) for n in range(1500)), last]
            with pytest.raises(exc.ArgumentError):
                merging.write(rows_and_one)
        merging.upsert({"id": -2, "name": "after"})
    assert merging.result == MergeResult(inserted=2)
    assert [row[0] for row in rows(lake, t)] == [-1, -2]


def test_s21_changes_that_a_rollback_took_away_are_missed(
    lake: Engine, snapshots: Snapshots
) -> None:
    before = snapshots()
    with lake.connect() as connection:
        merging = begin_merge(connection, t)
        merging.upsert({"id": 1, "name": "a"})
        connection.rollback()
        with pytest.raises(errors.ChangesLost) as caught:
            merging.commit()
        assert (caught.value.table, caught.value.expected, caught.value.found) == ("t", 1, 0)
        connection.commit()
    assert (rows(lake, t), snapshots()) == ([], before)


def test_without_a_key_there_is_nothing_to_merge_on(lake: Engine) -> None:
    with lake.connect() as connection:
        with pytest.raises(exc.ArgumentError, match="no primary key"):
            begin_merge(connection, heap)
        with pytest.raises(exc.ArgumentError, match="no primary key"):
            begin_merge(connection, "t")


def test_a_mapped_class_is_a_table_too(engine: Engine) -> None:
    Base.metadata.create_all(engine)
    with engine.begin() as connection:
        with begin_merge(connection, Thing) as merging:
            merging.upsert({"id": 1, "name": "a"})
        assert write_table(connection, Thing, [{"id": 2, "name": "b"}]).inserted == 1
        assert connection.scalars(select(Thing.name).order_by(Thing.id)).all() == ["a", "b"]


def test_s51_s53_s54_append_adds_rows_and_keeps_keys(
    lake: Engine, snapshots: Snapshots
) -> None:
    with lake.begin() as connection:
        source = pa.table({"a": [1, 1], "b": ["x", "x"]})
        assert write_table(connection, heap, source).inserted == 2
        assert write_table(connection, heap, source.to_reader()).inserted == 2
        assert write_table(connection, t, [{"id": 1, "name": "a"}]).inserted == 1
        for twice in ([{"id": 1, "name": "b"}], [{"id": 2, "name": "b"}] * 2):
            with pytest.raises(exc.IntegrityError):
                write_table(connection, t, twice)
    assert rows(lake, heap) == [(1, "x")] * 4
    before = snapshots()
    with lake.begin() as connection:
        assert write_table(connection, heap, source.slice(0, 0)) == MergeResult()
    assert snapshots() == before


@pytest.mark.parametrize("make", [lambda table: table, lambda table: table.to_reader()])
def test_s49_s50_s52_edge_15_replace_compares_rows_and_how_often_they_come(
    lake: Engine, snapshots: Snapshots, make: Callable[[Any], Any]
) -> None:
    def replace(a: list[int | None], b: list[str | None] | None = None) -> MergeResult:
        columns: dict[str, Any] = {"a": pa.array(a, pa.int64())}
        if b is not None:
            columns["b"] = pa.array(b, pa.string())
        with lake.begin() as connection:
            return write_table(connection, heap, make(pa.table(columns)), "replace")

    assert replace([1, 1, 2], ["x", "x", None]) == MergeResult(inserted=3)
    before = snapshots()
    assert replace([2, 1, 1], [None, "x", "x"]) == MergeResult(unchanged=3)
    assert snapshots() == before
    assert replace([1, 2, 2], ["x", None, None]) == MergeResult(inserted=3, deleted=3)
    assert snapshots() == before + 1
    assert replace([1, 2, 2]) == MergeResult(inserted=3, deleted=3)
    assert replace([1, 2, 2], [None] * 3) == MergeResult(unchanged=3)
    assert replace([]) == MergeResult(deleted=3)
    assert rows(lake, heap) == []


def test_replace_by_key_writes_only_what_differs(lake: Engine, snapshots: Snapshots) -> None:
    given = [{"id": n, "name": f"n{n}", "rank": n} for n in range(4)]
    with lake.begin() as connection:
        assert write_table(connection, t, given, "replace").inserted == 4
        given[1] = {"id": 9, "name": "nine", "rank": None}
        given[2]["name"] = "two"
        result = write_table(connection, t, given, "replace")
    assert result == MergeResult(inserted=1, updated=1, deleted=1, unchanged=2)
    before = snapshots()
    with lake.begin() as connection:
        assert write_table(connection, t, given, "replace").unchanged == 4
        assert write_table(connection, t, given, "merge").unchanged == 4
    assert snapshots() == before
    assert [row[0] for row in rows(lake, t)] == [0, 2, 3, 9]


@pytest.mark.parametrize(
    ("source", "mode", "says"),
    [
        ([{"id": 1, "nope": 2}], "append", "no column"),
        ([{"id": 1, "nope": 2}], "replace", "no column"),
        ([{"id": 1, "name": "a"}], "upsert", "not 'upsert'"),
    ],
)
def test_wrong_columns_and_modes_are_named(
    lake: Engine, source: Any, mode: Any, says: str
) -> None:
    with lake.connect() as connection, pytest.raises(exc.ArgumentError, match=says):
        write_table(connection, t, source, mode)


def test_data_of_the_program_can_stand_in_a_from(lake: Engine) -> None:
    from sqlalchemy_ducklake import Batch

    batch = Batch(pa.table({"a": [1, 2, 3], "b": ["x", "y", "z"]}))
    with lake.begin() as connection:
        query = select(batch.c.b).where(batch.c.a > 1).order_by(batch.c.a.desc())
        assert connection.scalars(query).all() == ["z", "y"]
        write_table(connection, heap, batch.select().where(batch.c.a == 2))
        joined = select(heap.c.a, batch.c.b).join(batch, batch.c.a == heap.c.a)
        assert connection.execute(joined).all() == [(2, "y")]
