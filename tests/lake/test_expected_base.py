"""A writer that expects a table as it was at a snapshot is told if it changed."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from sqlalchemy import Column, Engine, Integer, MetaData, Table, exc, select, text

from sqlalchemy_ducklake import (
    MergeResult,
    begin_merge,
    delete_keys,
    driver,
    errors,
    merge_result,
    upsert,
)

T, OTHER = ("main", "t"), ("main", "other")


@pytest.fixture
def lake(connect: Callable[[], driver.Connection]) -> Callable[[], driver.Connection]:
    with connect() as connection:
        cursor = connection.cursor()
        cursor.execute("CREATE TABLE t (id INTEGER); CREATE TABLE other (id INTEGER)")
        connection.commit()
    return connect


def write(lake: Callable[[], driver.Connection], statement: str) -> int:
    connection = lake()
    connection.cursor().execute(statement)
    connection.commit()
    found = connection.last_snapshot
    connection.close()
    assert found is not None
    return found


def test_s4_a_table_that_was_never_written_is_expected_by_none(
    lake: Callable[[], driver.Connection],
) -> None:
    connection = lake()
    connection.require_base(T, None)
    connection.rollback()
    write(lake, "INSERT INTO other VALUES (1)")
    connection.require_base(T, None)
    connection.rollback()
    number = write(lake, "INSERT INTO t VALUES (1)")
    with pytest.raises(errors.StaleBase) as caught:
        connection.require_base(T, None)
    assert (caught.value.table, caught.value.base, caught.value.found) == (
        "main.t",
        None,
        number,
    )


def test_s5_only_changes_of_the_table_itself_count(
    lake: Callable[[], driver.Connection],
) -> None:
    base = write(lake, "INSERT INTO t SELECT range FROM range(100)")
    write(lake, "INSERT INTO other VALUES (1)")
    write(lake, "INSERT INTO other SELECT range FROM range(100)")
    connection = lake()
    connection.cursor().execute("CALL ducklake_merge_adjacent_files('lake')")
    connection.commit()
    connection.require_base(T, base)
    connection.cursor().execute("DELETE FROM t WHERE id = 1")
    connection.commit()
    with pytest.raises(errors.StaleBase) as caught:
        connection.require_base(T, base)
    assert caught.value.sqlstate == "55000"
    assert caught.value.found == connection.last_snapshot


def test_nobody_comes_in_between_the_question_and_the_commit(
    lake: Callable[[], driver.Connection],
) -> None:
    base = write(lake, "INSERT INTO t VALUES (1)")
    connection = lake()
    connection.require_base(T, base)
    write(lake, "INSERT INTO t VALUES (2)")
    connection.cursor().execute("INSERT INTO t VALUES (3)")
    with pytest.raises(errors.SerializationFailure):
        connection.commit()


def test_a_base_from_the_future_is_refused(lake: Callable[[], driver.Connection]) -> None:
    with pytest.raises(errors.OptionError, match="expected_base"):
        lake().require_base(T, 999)


def test_s56_statements_take_the_base_as_an_option(engine: Engine) -> None:
    table = Table("t", MetaData(), Column("id", Integer, primary_key=True))
    table.create(engine)
    with engine.connect() as connection:
        first = connection.execute(upsert(table, [{"id": 1}]))
        assert merge_result(first).snapshot_id is None
        connection.commit()
        base = merge_result(first).snapshot_id
        assert base is not None
        expecting = {"expected_base": base}
        again = upsert(table, [{"id": 1}])
        same = connection.execute(again, execution_options=expecting)
        connection.commit()
        assert merge_result(same).snapshot_id is None
        connection.execute(table.insert(), [{"id": 2}], execution_options=expecting)
        connection.commit()
        with pytest.raises(exc.OperationalError) as caught:
            connection.execute(table.insert(), {"id": 3}, execution_options=expecting)
        assert isinstance(caught.value.orig, errors.StaleBase)
        connection.rollback()
        with pytest.raises(exc.ArgumentError, match="expected_base"):
            connection.execute(table.select(), execution_options=expecting)
    with engine.begin() as connection:
        result = connection.execute(upsert(table, [{"id": 7}]))
    assert merge_result(result).snapshot_id is not None  # the connection is closed by now
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        result = connection.execute(upsert(table, [{"id": 9}]))
        assert merge_result(result).snapshot_id == connection.scalar(
            text("SELECT max(snapshot_id) FROM lake.snapshots()")
        )
        with pytest.raises(exc.ArgumentError, match="transaction"):
            connection.execute(table.insert(), {"id": 3}, execution_options=expecting)


def test_s2_s5_a_merge_in_pieces_is_of_the_table_as_it_was_at_its_beginning(
    engine: Engine,
) -> None:
    metadata = MetaData()
    table, other = (
        Table(name, metadata, Column("id", Integer, primary_key=True)) for name in ("t", "o")
    )
    metadata.create_all(engine)
    with engine.connect() as slow, engine.connect() as quick:
        merging = begin_merge(slow, table)
        merging.upsert({"id": 1})
        quick.execute(upsert(other, [{"id": 1}]))
        quick.commit()
        assert merging.commit().inserted == 1
        slow.commit()
        late = begin_merge(slow, table)
        late.upsert({"id": 2})
        quick.execute(upsert(table, [{"id": 3}]))
        quick.commit()
        with pytest.raises(exc.OperationalError) as caught:
            late.commit()
        assert isinstance(caught.value.orig, errors.StaleBase)
        slow.rollback()
        assert sorted(slow.scalars(select(table.c.id))) == [1, 3]


def test_s3_a_merge_in_pieces_is_refused_at_its_beginning_on_another_base(
    engine: Engine,
) -> None:
    table = Table("t", MetaData(), Column("id", Integer, primary_key=True))
    table.create(engine)
    with engine.connect() as connection:
        with begin_merge(connection, table, expected_base=None) as merging:
            merging.upsert({"id": 1})
        connection.commit()
        for wrong in (None, 0):
            with pytest.raises(errors.StaleBase, match="expected"):
                begin_merge(connection, table, expected_base=wrong)
        connection.rollback()
        base = connection.scalar(text("SELECT max(snapshot_id) FROM lake.snapshots()"))
        with begin_merge(connection, table, expected_base=base) as again:
            again.delete({"id": 1})
        assert again.result == MergeResult(deleted=1)


def test_s2_a_transaction_that_read_before_somebody_wrote_is_of_what_it_read(
    engine: Engine,
) -> None:
    table = Table("t", MetaData(), Column("id", Integer, primary_key=True))
    table.create(engine)
    with engine.connect() as slow, engine.connect() as quick:
        assert slow.scalars(select(table.c.id)).all() == []
        quick.execute(upsert(table, [{"id": 1}]))
        quick.commit()
        with begin_merge(slow, table) as merging:
            merging.upsert({"id": 1})
        assert merging.result == MergeResult(inserted=1)
        with pytest.raises(exc.OperationalError) as caught:
            slow.commit()
        assert isinstance(caught.value.orig, errors.SerializationFailure)


def test_keyed_writes_take_the_base_and_the_level_themselves(engine: Engine) -> None:
    table = Table("t", MetaData(), Column("id", Integer, primary_key=True))
    table.create(engine)
    with engine.begin() as connection:
        connection.execute(upsert(table, [{"id": 1}], expected_base=None))
        connection.execute(upsert(table, [{"id": 2}], enforce_constraints="all"))
    with engine.connect() as connection:
        for stale in (
            upsert(table, [{"id": 1}], expected_base=None),
            delete_keys(table, [{"id": 1}], expected_base=1),
        ):
            with pytest.raises(exc.OperationalError) as caught:
                connection.execute(stale)
            assert isinstance(caught.value.orig, errors.StaleBase)
        with pytest.raises(exc.ArgumentError, match="enforce"):
            connection.execute(upsert(table, [{"id": 1}], enforce_constraints="some"))


def test_s80_a_transform_fits_by_name_and_type_and_is_refused_on_a_stale_head(
    engine: Engine,
) -> None:
    metadata = MetaData()
    source = Table("source", metadata, Column("n", Integer), Column("id", Integer))
    target = Table("target", metadata, Column("id", Integer), Column("n", Integer))
    metadata.create_all(engine)
    with engine.begin() as connection:
        connection.execute(source.insert(), [{"id": 1, "n": 10}])
    transform = target.insert().from_select(["n", "id"], select(source))
    with engine.begin() as connection:
        base = connection.scalar(text("FROM lake.current_snapshot()"))
    with engine.begin() as connection:
        connection.execute(transform, execution_options={"expected_base": base})
    with engine.connect() as connection:
        assert connection.execute(select(target.c.id, target.c.n)).all() == [(1, 10)]
        with pytest.raises(exc.DBAPIError) as caught:
            connection.execute(transform, execution_options={"expected_base": base})
        assert isinstance(caught.value.orig, errors.StaleBase)
        connection.rollback()
        wrong = target.insert().from_select(["n"], select(source.c.n, source.c.id))
        with pytest.raises(exc.DBAPIError):
            connection.execute(wrong)
        connection.rollback()
        assert connection.execute(select(target.c.id, target.c.n)).all() == [(1, 10)]
