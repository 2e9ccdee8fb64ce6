"""table_writer: what it takes, what it refuses, and that nothing is half done.

Of the behaviours D1 to D37 some cannot apply: D4's multipart uploads and D11's path of the
caller's own (the engine names and uploads its files, and removes those of a failed commit:
see D24; ``add_files`` registers others); D57, since a transaction is the pin of its reader;
D58, since the lake's URL says catalog, encryption and store.  D13: no batches at all are
nothing to write, like empty ones.  D26: the error names the table and its base, in any
mode.  D35's promotions are operations of a migration, D37's names are checked when a table
is made.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any, cast
from uuid import UUID

import pyarrow as pa
import pytest
from sqlalchemy import (
    ARRAY,
    JSON,
    Column,
    Date,
    DateTime,
    Engine,
    Float,
    Integer,
    LargeBinary,
    MetaData,
    Numeric,
    String,
    Table,
    Uuid,
    create_engine,
    exc,
    func,
    insert,
    select,
    text,
)
from sqlalchemy.orm import Session

from sqlalchemy_ducklake import (
    Commit,
    MergeResult,
    WriteOptions,
    driver,
    errors,
    snapshots,
    table_writer,
    versions,
    write_table,
)
from sqlalchemy_ducklake.lake.config import LakeConfig

Snapshots = Callable[[], int]
metadata = MetaData()
heap = Table("heap", metadata, Column("a", Integer), Column("b", String))
keyed = Table(
    "keyed",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("v", String, nullable=False),
    Column("n", Numeric(6, 2)),
)


# The stubs of pyarrow take large_string() for no type.
_large: Any = {"a": pa.int64(), "b": pa.large_string()}
LARGE = pa.schema(_large)


@pytest.fixture
def lake(engine: Engine) -> Engine:
    metadata.create_all(engine)
    return engine


@pytest.fixture
def data_files(tmp_path: Path) -> Callable[[], int]:
    """Tell how many data files there are, of the lake or not."""
    return lambda: sum(1 for _ in tmp_path.rglob("*.parquet"))


def numbers(first: int, rows: int = 1000) -> pa.Table:
    values = range(first, first + rows)
    return pa.table({"a": pa.array(values, pa.int32()), "b": [f"v{n}" for n in values]})


def fail_after(_: object, error: Exception) -> None:
    raise error


def count(lake: Engine, table: Table = heap) -> int:
    with lake.connect() as connection:
        return connection.scalar(select(func.count()).select_from(table)) or 0


def test_d1_any_number_of_batches_and_files_is_one_snapshot(
    lake: Engine, snapshots: Snapshots, data_files: Callable[[], int]
) -> None:
    before = snapshots()
    with lake.begin() as connection:
        with table_writer(connection, heap, target_file_size=1, row_group_rows=2048) as w:
            for place in range(10):
                assert w.write(numbers(place * 1000)) == 1000
            assert (data_files(), count(lake)) == (0, 0)
        assert (w.result.rows, w.result.snapshot_id, w.result.files) == (10_000, None, ())
    result = w.result
    assert result.snapshot_id == snapshots() == before + 1
    # D30: ids and files are those that were committed.
    assert len(result.files) == data_files() > 5
    assert (result.table_id, result.schema_id) == (2, 0)
    with lake.connect() as connection:
        rows = connection.execute(text("SELECT a FROM heap ORDER BY rowid")).scalars().all()
    assert rows == list(range(10_000))


@pytest.mark.parametrize(
    "make",
    [
        lambda t: t,
        lambda t: t.to_batches()[0],
        lambda t: t.to_batches(max_chunksize=300),
        lambda t: t.to_reader(max_chunksize=300),
        lambda t: t.to_pandas(),
        lambda t: t.to_pylist(),
        lambda t: iter(t.to_pylist()),
        lambda t: t.select(["b", "a"]),
        lambda t: t.cast(LARGE),
        lambda t: t.set_column(1, "b", t["b"].dictionary_encode()),
    ],
)
def test_rows_come_in_every_form(lake: Engine, make: Callable[[Any], Any]) -> None:
    with lake.begin() as connection, table_writer(connection, heap) as w:
        w.write(make(numbers(5)))
    with lake.connect() as connection:
        rows = connection.execute(select(heap).order_by(heap.c.a)).all()
    assert rows == [(n, f"v{n}") for n in range(5, 1005)]


def test_d2_edge34_an_abandoned_writer_leaves_nothing_and_its_transaction_goes_on(
    lake: Engine, snapshots: Snapshots, data_files: Callable[[], int]
) -> None:
    before = snapshots()
    with lake.begin() as connection:
        gone = OSError("the source is gone")
        with pytest.raises(OSError, match="gone"), table_writer(connection, heap) as w:
            fail_after(w.write(numbers(0, 50_000)), gone)
        dropped = table_writer(connection, heap)
        dropped.write(numbers(0))
        del dropped
        gc.collect()
        aborted = table_writer(connection, heap)
        aborted.write(numbers(0))
        aborted.abort()
        aborted.abort()
    assert (snapshots(), data_files(), count(lake)) == (before, 0, 0)


def test_d2_a_rolled_back_writer_leaves_no_file(
    lake: Engine, snapshots: Snapshots, data_files: Callable[[], int]
) -> None:
    before = snapshots()
    with lake.connect() as connection:
        with table_writer(connection, heap) as w:
            w.write(numbers(0))
        assert data_files() == 1
        connection.rollback()
    assert (snapshots(), data_files()) == (before, 0)
    assert w.result.snapshot_id is None


def test_a_source_that_breaks_is_named_and_what_came_before_stays(lake: Engine) -> None:
    def breaking() -> Iterator[pa.RecordBatch]:
        yield from numbers(0).to_batches()
        raise OSError("the source is gone")

    schema = numbers(0).schema
    with lake.begin() as connection, table_writer(connection, heap) as w:
        with pytest.raises(OSError, match="gone"):
            w.write(pa.RecordBatchReader.from_batches(schema, breaking()))
        assert w.write(numbers(1000)) == 1000
    assert count(lake) == 2000


def test_d9_d13_batches_without_rows_open_no_file(
    lake: Engine, snapshots: Snapshots, data_files: Callable[[], int]
) -> None:
    before = snapshots()
    with lake.begin() as connection, table_writer(connection, heap) as w:
        for _ in range(3):
            assert w.write(numbers(0, 0)) == 0
        w.write([])
    assert (snapshots(), data_files(), w.result.rows) == (before, 0, 0)


def test_d12_d22_edge26_edge28_nothing_appended_is_no_snapshot_and_nothing_replaced_truncates(
    lake: Engine, snapshots: Snapshots
) -> None:
    with lake.begin() as connection, table_writer(connection, heap) as w:
        w.write(numbers(0))
    before = snapshots()
    with lake.begin() as connection:
        assert table_writer(connection, heap).finish(deletes=[]).rows == 0
    assert snapshots() == before
    with lake.begin() as connection:
        result = table_writer(connection, heap, "replace").finish()
    assert (result.deleted, count(lake), snapshots()) == (1000, 0, before + 1)


BAD = [
    (
        pa.table({"a": ["x"], "b": ["y"]}),
        errors.BatchRefused,
        "'a' .at position 0. .*INTEGER.*string",
    ),
    (
        pa.table({"a": [1], "b": [2]}),
        errors.BatchRefused,
        "'b' .at position 1. .*VARCHAR.*int64",
    ),
    (pa.table({"a": [1], "c": ["y"]}), errors.BatchRefused, "'c'"),
    (pa.table({"a": [1 << 40]}), errors.ValueRefused, "out of range"),
    (pa.table({"a": [1.5]}), errors.ValueRefused, "whole number"),
    (pa.table([[1], [2]], ["a", "a"]), errors.BatchRefused, "'a', 'a'"),
    ([{"a": 1}, {"b": 2}], errors.ValueRefused, "keys of the first"),
    ([1, 2], errors.ValueRefused, "named columns"),
    ("text", errors.ValueRefused, "no source"),
    (pa.table({"a": [1], "zzz": [1]}).to_pandas(), errors.BatchRefused, "zzz"),
]


@pytest.mark.parametrize(("data", "error", "says"), BAD)
def test_d14_d15_a_bad_batch_is_refused_whole_and_the_next_good_one_works(
    lake: Engine, data: Any, error: type[Exception], says: str
) -> None:
    with lake.begin() as connection, table_writer(connection, heap) as w:
        w.write(numbers(0, 5))
        with pytest.raises(error, match=says):
            w.write(data)
        w.write(numbers(5, 5))
        assert connection.scalar(select(func.count()).select_from(keyed)) == 0
    assert count(lake) == 10


def test_d14_columns_that_must_have_a_value_are_checked_batch_by_batch(lake: Engine) -> None:
    with lake.begin() as connection, table_writer(connection, keyed) as w:
        with pytest.raises(errors.BatchRefused, match="'v' is to be in every batch"):
            w.write(pa.table({"id": [1]}))
        with pytest.raises(errors.NullsRefused) as caught:
            w.write(pa.table({"id": [1, 2], "v": ["a", None]}))
        assert (caught.value.table, caught.value.columns) == ("main.keyed", ("v",))
        with pytest.raises(errors.ValueRefused, match="rounded"):
            w.write([{"id": 1, "v": "a", "n": Decimal("0.001")}])
        w.write([{"id": 1, "v": "a", "n": Decimal("1.25")}])
    with lake.connect() as connection:
        assert connection.execute(select(keyed)).all() == [(1, "a", Decimal("1.25"))]


def test_edge20_decimals_of_too_many_digits_are_refused(engine: Engine) -> None:
    wide = Table("wide", MetaData(), Column("d", Numeric(38, 9)))
    wide.create(engine)
    with engine.begin() as connection, table_writer(connection, wide) as w:
        for digits in ("1" * 30, "0." + "1" * 10):
            with pytest.raises(errors.ValueRefused):
                w.write([{"d": Decimal(digits)}])
        w.write([{"d": Decimal("1" * 29 + "." + "1" * 9)}])
    with engine.connect() as connection:
        assert connection.scalar(select(wide.c.d)) == Decimal("1" * 29 + "." + "1" * 9)


def test_d16_a_closed_writer_says_so(lake: Engine) -> None:
    with lake.begin() as connection:
        with table_writer(connection, heap) as w:
            pass
        for use in (lambda: w.write(numbers(0)), w.finish, w.__enter__):
            with pytest.raises(errors.ClosedError, match="writer"):
                use()
        w.abort()
        unfinished = table_writer(connection, heap)
        with pytest.raises(exc.InvalidRequestError, match="not finished"):
            _ = unfinished.result
        unfinished.abort()


def test_d21_rows_and_deletes_are_one_snapshot(lake: Engine, snapshots: Snapshots) -> None:
    with lake.begin() as connection, table_writer(connection, keyed) as w:
        w.write([{"id": n, "v": "old"} for n in range(100)])
    before = snapshots()
    with lake.begin() as connection:
        w = table_writer(connection, keyed, target_file_size=1, row_group_rows=1)
        w.write({"id": n, "v": "new"} for n in range(50, 5050))
        result = w.finish(deletes=[{"id": n} for n in (*range(40, 100), 40, 77_777)])
    assert (result.rows, result.deleted) == (5000, 60)
    assert (snapshots(), result.snapshot_id) == (before + 1, before + 1)
    assert len(result.files) > 1
    assert count(lake, keyed) == 5040


def test_d20_edge25_a_replacement_takes_no_deletes_and_a_heap_has_no_keys(
    lake: Engine, snapshots: Snapshots, data_files: Callable[[], int]
) -> None:
    before = snapshots()
    with lake.begin() as connection:
        for table, mode in ((keyed, "replace"), (heap, "append")):
            w = table_writer(connection, table, mode)  # type: ignore[arg-type]
            with pytest.raises(exc.ArgumentError):
                w.finish(deletes=[{"id": 1}])
            with pytest.raises(errors.ClosedError):
                w.finish()
    assert (snapshots(), data_files()) == (before, 0)


def test_keys_hold_over_all_batches_and_files(lake: Engine, snapshots: Snapshots) -> None:
    before = snapshots()
    with lake.begin() as connection:
        w = table_writer(connection, keyed)
        w.write([{"id": n, "v": "a"} for n in range(10)])
        w.write([{"id": 5, "v": "again", "n": 1}])
        with pytest.raises(exc.IntegrityError) as caught:
            w.finish()
        assert isinstance(caught.value.orig, errors.KeyViolation)
        assert caught.value.orig.examples == ((5,),)
        connection.rollback()
    assert snapshots() == before


@pytest.mark.parametrize("deletes", [[], [{"id": 1}]])
def test_a_part_of_a_writer_cannot_be_committed(
    lake: Engine, snapshots: Snapshots, deletes: list[Any]
) -> None:
    with lake.begin() as connection:
        connection.execute(insert(keyed), [{"id": n, "v": "a"} for n in (1, 7000)])
    before = snapshots()
    with lake.connect() as connection:
        w = table_writer(connection, keyed, target_file_size=1)
        w.write([{"id": n, "v": "a"} for n in range(2 if deletes else 2000, 8000)])
        with pytest.raises(exc.IntegrityError):
            w.finish(deletes)
        with pytest.raises(exc.OperationalError) as caught:
            connection.commit()
        assert isinstance(caught.value.orig, errors.TransactionAborted)
    assert (snapshots(), count(lake, keyed)) == (before, 2)


def test_d32_a_column_that_is_left_out_becomes_null_or_its_default(engine: Engine) -> None:
    table = Table(
        "d",
        MetaData(),
        Column("a", Integer),
        Column("b", Integer),
        Column("c", Integer, server_default="7"),
    )
    table.create(engine)
    with engine.begin() as connection, table_writer(connection, table) as w:
        w.write(pa.table({"a": [1]}))
        w.write(pa.table({"b": [2], "a": [1]}))
        w.write(pa.table({"c": [3]}))
    with engine.connect() as connection:
        rows = connection.execute(select(table)).all()
    assert sorted(rows, key=repr) == [(1, 2, 7), (1, None, 7), (None, None, 3)]


def test_d33_edge32_new_nullable_columns_join_the_table_if_asked_for(
    lake: Engine, snapshots: Snapshots
) -> None:
    before = snapshots()
    more = numbers(0, 3).append_column("when", pa.array([1.5, None, 2.5]))
    with lake.begin() as connection:
        with pytest.raises(errors.BatchRefused, match="when"):
            table_writer(connection, heap).write(more)
        with table_writer(connection, heap, evolve=True) as w:
            w.write(numbers(10, 2))
            w.write(more)
            w.write(more.append_column("tags", pa.array([["x"], [], None])))
    assert snapshots() == before + 1
    wide = Table("heap", MetaData(), autoload_with=lake)
    assert [(c.name, c.nullable) for c in wide.c][2:] == [("when", True), ("tags", True)]
    assert isinstance(wide.c.when.type, Float)
    with lake.connect() as connection:
        rows = connection.execute(select(wide).order_by(wide.c.a, wide.c.tags)).all()
    assert len(rows) == 8
    assert (0, "v0", 1.5, ["x"]) in rows


def test_d33_a_type_that_no_lake_stores_is_no_new_column(lake: Engine) -> None:
    with lake.begin() as connection:
        w = table_writer(connection, heap, evolve=True)
        w.write(pa.table({"a": [1], "fine": pa.array([b"x"], pa.binary(1))}))
        odd = pa.table({"a": [1], "run": pa.array([[1]], pa.list_(pa.int32(), 1))})
        w.write(odd)
        with pytest.raises(errors.BatchRefused, match="'run' is to be of a type that a lake"):
            w.finish()
        connection.rollback()


@pytest.mark.parametrize("mode", ["append", "replace"])
def test_d34_a_type_that_differs_is_refused_and_another_spelling_is_none(
    lake: Engine, mode: Any
) -> None:
    with lake.begin() as connection, table_writer(connection, heap, mode) as w:
        with pytest.raises(errors.BatchRefused):
            w.write(pa.table({"a": [b"x"]}))
        w.write(pa.table({"a": pa.array([1], pa.int64())}))
        w.write(pa.table({"a": pa.array([2], pa.uint8())}))
    assert count(lake) == 2


def test_replace_puts_the_batches_in_place_of_all_rows(
    lake: Engine, snapshots: Snapshots
) -> None:
    for table, rows in (
        (heap, [{"a": n, "b": "x"} for n in range(5)]),
        (keyed, [{"id": n, "v": "x"} for n in range(5)]),
    ):
        for _ in range(2):
            with lake.begin() as connection, table_writer(connection, table, "replace") as w:
                w.write(rows[:2])
                w.write(rows[2:])
        assert count(lake, table) == 5
        before = snapshots()
        with lake.begin() as connection, table_writer(connection, table, "replace") as w:
            w.write(rows)
        assert snapshots() == before
        with lake.connect() as connection:
            assert next(versions(connection, table)).mode == "replace"


def test_d27_the_snapshot_says_what_the_writer_was_told(lake: Engine) -> None:
    said = Commit(author="me", message="nightly load", extra={"job": 5})
    with lake.begin() as connection, table_writer(connection, heap, commit=said) as w:
        w.write(numbers(0))
    with lake.connect() as connection:
        newest = next(snapshots(connection))
    assert (newest.author, newest.message, newest.extra) == ("me", "nightly load", {"job": 5})
    with lake.begin() as connection:
        connection.execute(insert(heap), {"a": 1})
    with lake.connect() as connection:
        assert next(snapshots(connection)).message == "insert main.heap"


def test_d23_d24_edge24_a_stale_base_writes_nothing_and_the_head_works(
    lake: Engine, snapshots: Snapshots, data_files: Callable[[], int]
) -> None:
    with lake.begin() as connection, table_writer(connection, keyed, expected_base=None) as w:
        w.write([{"id": n, "v": "a"} for n in range(3000)])
    base = w.result.snapshot_id
    with lake.begin() as connection:
        connection.execute(insert(heap), {"a": 1})  # another table does not count
    with lake.begin() as connection:
        connection.execute(insert(keyed), {"id": 9999, "v": "x"})
    head, files = snapshots(), data_files()

    def publish(expected: int | None) -> None:
        with lake.begin() as connection:
            w = table_writer(connection, keyed, expected_base=expected, target_file_size=1)
            w.write([{"id": n, "v": "b"} for n in range(20_000, 30_000)])
            w.finish(deletes=[{"id": 1}, {"id": 2}])

    for stale in (base, None):
        with pytest.raises(errors.StaleBase) as caught:
            publish(stale)
        assert (caught.value.table, caught.value.base) == ("main.keyed", stale)
        assert (snapshots(), data_files()) == (head, files)
    publish(head)
    assert count(lake, keyed) == 3001 + 10_000 - 2


def test_d25_a_replacement_heeds_the_expected_base(lake: Engine, snapshots: Snapshots) -> None:
    with lake.begin() as connection, table_writer(connection, heap) as w:
        w.write(numbers(0))
    base = w.result.snapshot_id
    with lake.begin() as connection, table_writer(connection, heap) as w:
        w.write(numbers(1000))
    for expected, works in ((base, False), (snapshots(), True)):
        with lake.begin() as connection:
            w = table_writer(connection, heap, "replace", expected_base=expected)
            w.write(numbers(5, 7))
            if works:
                w.finish()
                continue
            with pytest.raises(errors.StaleBase, match=r"main\.heap"):
                w.finish()
    assert count(lake) == 7


def test_d28_two_replacements_never_unite(lake: Engine) -> None:
    with lake.connect() as one, lake.connect() as two:
        for connection, first in ((one, 0), (two, 1000)):
            with table_writer(connection, heap, "replace") as w:
                w.write(numbers(first))
        one.commit()
        with pytest.raises(exc.OperationalError) as caught:
            two.commit()
        assert isinstance(caught.value.orig, errors.SerializationFailure)
    assert count(lake) == 1000


def test_d29_appends_of_threads_all_survive(lake: Engine) -> None:
    failed: list[BaseException] = []

    def load(first: int) -> None:
        try:
            with lake.begin() as connection, table_writer(connection, heap) as w:
                for place in range(3):
                    w.write(numbers(first + place * 100, 100))
        except BaseException as error:  # noqa: BLE001 - the test tells it
            failed.append(error)

    threads = [threading.Thread(target=load, args=(n * 1000,)) for n in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert failed == []
    assert count(lake) == 1200


def test_d44_edge27_a_layout_that_changed_meanwhile_is_a_conflict(
    lake: Engine, snapshots: Snapshots, data_files: Callable[[], int]
) -> None:
    for change in ("SET PARTITIONED BY (a)", "RESET PARTITIONED BY"):
        with lake.connect() as slow, lake.connect() as other:
            writer = table_writer(slow, heap)
            writer.write(numbers(0))
            other.execute(text(f"ALTER TABLE heap {change}"))
            other.commit()
            head = snapshots()
            writer.finish()
            with pytest.raises(exc.OperationalError):
                slow.commit()
        assert (snapshots(), data_files(), count(lake)) == (head, 0, 0)


def test_d35_edge31_an_append_that_races_a_promotion_conflicts_and_loses_nothing(
    lake: Engine,
) -> None:
    with lake.connect() as slow, lake.connect() as other:
        writer = table_writer(slow, heap)
        writer.write(numbers(0))
        other.execute(text("ALTER TABLE heap ALTER a TYPE BIGINT"))
        other.commit()
        writer.finish()
        with pytest.raises(exc.OperationalError):
            slow.commit()
    with lake.begin() as connection, table_writer(connection, heap) as w:
        w.write(numbers(0))
    assert count(lake) == 1000


def test_sessions_and_every_catalog_can_write(any_lake: LakeConfig) -> None:
    lake = create_engine("ducklake://", creator=lambda: driver.connect(any_lake))
    metadata.create_all(lake)
    with Session(lake) as session:
        options = WriteOptions(target_file_size=1, row_group_rows=2048, compression="zstd")
        with table_writer(session, heap, options=options) as w:
            for place in range(5):
                w.write(numbers(place * 1000))
        session.commit()
        assert session.scalar(select(func.count()).select_from(heap)) == 5000
        assert len(w.result.files) > 3
        with table_writer(session, keyed, "replace") as w:
            w.write([{"id": 1, "v": "a"}])
            w.write([{"id": 2, "v": "b", "n": 1}])
        session.commit()
        assert session.scalar(select(func.count()).select_from(keyed)) == 2
    lake.dispose()


@pytest.mark.parametrize(
    "make",
    [
        lambda c: table_writer(c, heap, cast("Any", "merge")),
        lambda c: table_writer(c, "heap"),
        lambda c: table_writer(c.execution_options(isolation_level="AUTOCOMMIT"), heap),
    ],
)
def test_wrong_use_is_refused_at_once(lake: Engine, make: Callable[[Any], Any]) -> None:
    with lake.connect() as connection, pytest.raises(exc.ArgumentError):
        make(connection)
    with lake.connect() as connection:
        for wrong in ({"sort": ["zzz"]}, {"nonsense": 1}, {"row_group_rows": 0}):
            with pytest.raises(errors.OptionError):
                table_writer(connection, heap, **wrong)
        with pytest.raises(errors.OptionError, match="sort"):
            table_writer(connection, heap, "replace", sort=["a"])


def test_write_table_takes_the_options_of_a_writer(lake: Engine, snapshots: Snapshots) -> None:
    rows = ({"a": n, "b": "x"} for n in range(20_000))
    with lake.begin() as connection:
        before = snapshots()
        result = write_table(connection, heap, rows, target_file_size=20_000, sort=["a"])
        assert result == MergeResult(inserted=20_000)
        with pytest.raises(exc.ArgumentError, match="merge"):
            write_table(connection, keyed, [{"id": 1, "v": "a"}], "merge", sort=["id"])
    assert (snapshots(), count(lake)) == (before + 1, 20_000)


def typed() -> Table:
    return Table(
        "typed",
        MetaData(),
        Column("u", Uuid),
        Column("j", JSON),
        Column("l", ARRAY(Integer)),
        Column("d", Date),
        Column("z", DateTime(timezone=True)),
        Column("b", LargeBinary),
        Column("h", Numeric(38, 0)),
    )


def test_values_of_python_are_stored_as_their_types_say(engine: Engine) -> None:
    table = typed()
    table.create(engine)
    row = {
        "u": UUID(int=5),
        "j": {"a": [1, None]},
        "l": [1, None, 3],
        "d": date(2024, 1, 1),
        "z": datetime(2024, 1, 1, tzinfo=UTC),
        "b": b"\0",
        "h": Decimal(10**37),
    }
    with engine.begin() as connection, table_writer(connection, table) as w:
        w.write([row, dict.fromkeys(row)])
        w.write(pa.table({"l": pa.array([[7]], pa.large_list(pa.int64()))}))
        w.write(pa.table({"u": pa.array([UUID(int=6).bytes], pa.uuid())}))
    with engine.connect() as connection:
        rows = [tuple(each) for each in connection.execute(select(table))]
    assert tuple(row.values()) in rows
    assert sum(each.count(None) for each in rows) == 7 + 6 + 6
    assert [7] in [each[2] for each in rows]
    assert UUID(int=6) in [each[0] for each in rows]


@pytest.mark.parametrize(
    ("column", "values", "kind"),
    [
        ("z", [datetime.combine(date(2024, 1, 1), time())], errors.ValueRefused),
        ("d", [datetime.combine(date(2024, 1, 1), time(5))], errors.ValueRefused),
        ("l", [["a"]], errors.BatchRefused),
        ("l", [[1 << 40]], errors.ValueRefused),
        ("l", [5], errors.BatchRefused),
        ("b", ["text"], errors.BatchRefused),
        ("j", [5], errors.BatchRefused),
    ],
)
def test_what_arrow_would_change_without_a_word_is_refused(
    engine: Engine, column: str, values: list[Any], kind: type[Exception]
) -> None:
    table = typed()
    table.create(engine)
    with engine.begin() as connection, table_writer(connection, table) as w:
        with pytest.raises(kind):
            w.write(pa.table({column: values}))
        w.write(pa.table({"u": [None]}))


def test_dictionaries_of_several_batches_come_together(lake: Engine) -> None:
    batches = [
        pa.table({"b": pa.array([first, "x"] * 50).dictionary_encode()}) for first in "abc"
    ]
    with lake.begin() as connection, table_writer(connection, heap) as w:
        w.write(iter(batches))
    with lake.connect() as connection:
        assert connection.scalar(select(func.count()).where(heap.c.b == "x")) == 150
        assert connection.scalar(select(func.count()).where(heap.c.b == "c")) == 50


def test_an_aborted_transaction_says_so(lake: Engine) -> None:
    with lake.connect() as connection:
        w = table_writer(connection, heap)
        w.write(numbers(0))
        with pytest.raises(exc.DBAPIError):
            connection.execute(text("SELECT CAST('x' AS INTEGER)"))
        with pytest.raises(errors.TransactionAborted):
            w.finish()
        connection.rollback()
    assert count(lake) == 0
