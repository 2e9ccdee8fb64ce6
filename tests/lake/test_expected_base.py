"""A writer that expects a table as it was at a snapshot is told if it changed."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from sqlalchemy import Column, Engine, Integer, MetaData, Table, exc, text

from sqlalchemy_ducklake import driver, errors, merge_result, upsert

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


def test_a_table_that_was_never_written_is_expected_by_none(
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


def test_only_changes_of_the_table_itself_count(
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


def test_statements_take_the_base_as_an_option(engine: Engine) -> None:
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
