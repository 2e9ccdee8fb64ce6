"""Edge cases of keyed writes, by their numbers in the list of behaviours.

Numbers that are not here stand where they belong: 8, 9 and 15 in test_writer.py, 10 and 16
in test_trusted_keys.py, 12 in test_keys.py, 14 in test_create_table.py, 18 in
test_marks.py; 21 to 35 are about files and layout, 36 to 40 about the write scope.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from sqlalchemy import (
    URL,
    Column,
    Engine,
    Integer,
    MetaData,
    Numeric,
    PrimaryKeyConstraint,
    String,
    Table,
    create_engine,
    exc,
    insert,
    inspect,
    select,
    text,
)

from sqlalchemy_ducklake import (
    Delete,
    MergeResult,
    Upsert,
    begin_merge,
    delete_keys,
    errors,
    merge,
    merge_result,
    upsert,
)

Snapshots = Callable[[], int]
metadata = MetaData()
t = Table(
    "t",
    metadata,
    Column("b", String, primary_key=True),
    Column("a", String, primary_key=True),
    Column("v", Integer),
    Column("d", Numeric(38, 9)),
)
one = Table("one", metadata, Column("id", Integer, primary_key=True), Column("v", Integer))


@pytest.fixture
def lake(engine: Engine) -> Engine:
    metadata.create_all(engine)
    return engine


def run(engine: Engine, statement: Any) -> MergeResult:
    with engine.begin() as connection:
        return merge_result(connection.execute(statement))


def rows(engine: Engine, table: Table) -> list[Any]:
    with engine.connect() as connection:
        return list(map(tuple, connection.execute(select(table).order_by(*table.c))))


def test_s12_edge_01_a_key_that_goes_up_down_and_back_in_one_merge_is_unchanged(
    lake: Engine, snapshots: Snapshots
) -> None:
    run(lake, upsert(one, [{"id": 1, "v": 1}]))
    before = snapshots()
    there_and_back = [{"id": 1, "v": v} for v in (2, 3, 1)]
    assert run(lake, upsert(one, there_and_back)) == MergeResult(unchanged=1)
    with lake.begin() as connection, begin_merge(connection, one) as merging:
        merging.write([Upsert({"id": 1, "v": 5}), Delete({"id": 1}), Upsert({"id": 1, "v": 1})])
    assert merging.result == MergeResult(unchanged=1)
    assert snapshots() == before


def test_edge_02_deleting_from_a_table_that_was_never_written_is_nothing(
    lake: Engine, snapshots: Snapshots
) -> None:
    before = snapshots()
    assert run(lake, delete_keys(one, [{"id": 1}, {"id": 2}])) == MergeResult()
    assert snapshots() == before


def test_s7_edge_03_a_column_left_out_and_one_that_is_null_are_the_same(
    lake: Engine, snapshots: Snapshots
) -> None:
    key = {"b": "x", "a": "y"}
    assert run(lake, upsert(t, [key])) == MergeResult(inserted=1)
    before = snapshots()
    assert run(lake, upsert(t, [{**key, "v": None, "d": None}])) == MergeResult(unchanged=1)
    assert snapshots() == before


def test_s29_edge_04_composite_keys_with_text_that_looks_like_a_delimiter(lake: Engine) -> None:
    keys = [("a|b", "c"), ("a", "b|c"), ("a,b", ""), ("a", ",b"), ("", "a|b|c"), ("'", '"')]
    given = [{"b": b, "a": a, "v": n} for n, (b, a) in enumerate(keys)]
    assert run(lake, upsert(t, given)) == MergeResult(inserted=6)
    assert run(lake, upsert(t, given)) == MergeResult(unchanged=6)
    assert run(lake, delete_keys(t, [{"b": b, "a": a} for b, a in keys[:3]])).deleted == 3


def test_s11_s13_edge_05_a_later_call_touches_the_first_row_again_and_deletes_the_last(
    lake: Engine,
) -> None:
    with lake.begin() as connection, begin_merge(connection, one) as merging:
        merging.write(Upsert({"id": n, "v": n}) for n in range(1001))
        merging.write([Upsert({"id": 0, "v": -1}), Delete({"id": 1000})])
    assert merging.result == MergeResult(inserted=1000)
    with lake.connect() as connection:
        stored = connection.execute(text("SELECT id, v FROM one ORDER BY rowid")).all()
    assert stored == [(0, -1), *((n, n) for n in range(1, 1000))]


def test_s4_edge_06_of_two_writers_on_an_absent_base_one_wins(lake: Engine) -> None:
    with lake.connect() as first, lake.connect() as second:
        for connection in (first, second):
            expecting = {"expected_base": None}
            statement = upsert(one, [{"id": 1, "v": 1}])
            connection.execute(statement, execution_options=expecting)
        first.commit()
        with pytest.raises(exc.OperationalError) as caught:
            second.commit()
        assert isinstance(caught.value.orig, errors.SerializationFailure)
        second.rollback()
        with pytest.raises(exc.OperationalError) as caught:
            second.execute(statement, execution_options=expecting)
        assert isinstance(caught.value.orig, errors.StaleBase)
        second.rollback()
    assert rows(lake, one) == [(1, 1)]


def test_s58_edge_07_two_spellings_of_one_path_are_one_lake(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    plain = tmp_path / "x.ducklake"
    around = tmp_path / "a" / ".." / "x.ducklake"
    first, second = (
        create_engine(URL.create("ducklake", database=str(path))) for path in (plain, around)
    )
    metadata.create_all(first)
    with first.begin() as connection:
        connection.execute(insert(one), {"id": 1, "v": 1})
    assert rows(second, one) == [(1, 1)]
    first.dispose()
    second.dispose()


def test_s35_edge_13_the_order_of_a_key_survives_reopening_the_lake(
    engine: Engine, lake: Engine
) -> None:
    backwards = Table(
        "backwards",
        MetaData(),
        Column("a", String),
        Column("b", String),
        Column("v", Integer),
        PrimaryKeyConstraint("b", "a"),
    )
    backwards.create(engine)
    run(lake, upsert(backwards, [{"b": "x", "a": "y", "v": 1}]))
    lake.dispose()
    with engine.connect() as connection:
        key = inspect(connection).get_pk_constraint("backwards")
        assert key["constrained_columns"] == ["b", "a"]
        again = Table("backwards", MetaData(), autoload_with=connection)
        assert [each.name for each in again.primary_key] == ["b", "a"]
        assert [each.name for each in again.c][:2] == ["a", "b"]
        merged = connection.execute(upsert(again, [{"b": "x", "a": "y", "v": 2}]))
        assert merge_result(merged) == MergeResult(updated=1)


def test_s18_edge_11_an_insert_that_fails_after_the_delete_restores_everything(
    lake: Engine, snapshots: Snapshots
) -> None:
    run(lake, upsert(one, [{"id": 1, "v": 1}, {"id": 2, "v": 2}]))
    before = snapshots()
    with lake.connect() as connection:
        # The engine itself refuses the insert, when delete and update are done.
        connection.execute(text("ALTER TABLE one ALTER v SET NOT NULL"))
        connection.commit()
        changed = snapshots()
        feed = pa.table(
            {"id": [1, 2, 3], "v": [9, None, None], "k": ["upsert", "delete", "upsert"]}
        )
        with pytest.raises(exc.DBAPIError):
            connection.execute(merge(one).changes(feed, kind="k"))
        connection.rollback()
        left = "SELECT count(*) FROM duckdb_tables() WHERE temporary"
        assert connection.scalar(text(left)) == 0
    assert rows(lake, one) == [(1, 1), (2, 2)]
    assert (snapshots(), before + 1) == (changed, changed)


def test_s11_edge_17_a_column_may_be_called_like_one_of_ours_or_the_engines(
    engine: Engine,
) -> None:
    names = ["kind", "sequence", "excluded", "source", "seq", "rank", "first", "effect"]
    columns = [Column(name, String) for name in names]
    odd = Table("rows", MetaData(), Column("id", Integer, primary_key=True), *columns)
    odd.create(engine)
    given = [{"id": 1, **dict.fromkeys(names, "x")}, {"id": 2, **dict.fromkeys(names)}]
    assert run(engine, upsert(odd, given)) == MergeResult(inserted=2)
    given[1]["excluded"] = "y"
    assert run(engine, upsert(odd, given)) == MergeResult(updated=1, unchanged=1)
    with engine.begin() as connection, begin_merge(connection, odd) as merging:
        merging.delete({"id": 1})
    assert rows(engine, odd) == [(2, *(["y" if n == "excluded" else None for n in names]))]


def test_edge_17_a_column_called_rowid_is_the_users_and_never_taken_for_the_engines(
    engine: Engine,
) -> None:
    odd = Table(
        "odd",
        MetaData(),
        Column("id", Integer, primary_key=True),
        Column("rowid", Integer),
        Column("v", Integer),
    )
    odd.create(engine)
    with engine.begin() as connection:
        connection.execute(insert(odd), [{"id": n, "rowid": 7, "v": n} for n in range(3)])
        given = {"id": 1, "rowid": 7, "v": 9}
        assert merge_result(connection.execute(upsert(odd, [given]))).updated == 1
        connection.execute(odd.update().where(odd.c.id == 2).values(v=5))
        returning = odd.update().values(v=0).returning(odd.c.id)
        with pytest.raises(exc.CompileError, match="called 'rowid'"):
            connection.execute(returning)
    assert rows(engine, odd) == [(0, 7, 0), (1, 7, 9), (2, 7, 5)]


def test_edge_19_the_message_of_a_commit_that_changes_nothing_leaves_no_trace(
    lake: Engine, snapshots: Snapshots
) -> None:
    run(lake, upsert(one, [{"id": 1, "v": 1}]))
    before = snapshots()
    with lake.begin() as connection:
        say = "CALL lake.set_commit_message('me', 'nothing', extra_info => '')"
        connection.execute(text(say))
        connection.execute(upsert(one, [{"id": 1, "v": 1}]))
    assert snapshots() == before
    with lake.connect() as connection:
        query = text("SELECT count(*) FROM lake.snapshots() WHERE commit_message = 'nothing'")
        assert connection.scalar(query) == 0


def test_s76_edge_20_a_decimal_is_stored_to_its_last_digit_or_refused(lake: Engine) -> None:
    limit = Decimal("9" * 29 + "." + "9" * 9)
    key = {"b": "x", "a": "y", "v": None}
    assert run(lake, upsert(t, [{**key, "d": limit}])) == MergeResult(inserted=1)
    assert rows(lake, t)[0][3] == limit
    for value in (Decimal("1e29"), Decimal("0.0000000001"), limit + Decimal("1e-9")):
        with pytest.raises(exc.DataError) as caught:
            run(lake, upsert(t, [{**key, "d": value}]))
        assert isinstance(caught.value.orig, errors.ValueRefused)
