"""How long a statement may take: it is stopped, told by class, and the connection goes on."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import URL, Engine, create_engine, text
from sqlalchemy.exc import ArgumentError, OperationalError

from sqlalchemy_ducklake import driver, errors
from sqlalchemy_ducklake.dialect.url import connect_options

ENDLESS = "SELECT count(*) FROM range(1000000000) a, range(1000000000) b"
# Its rows are made while they are fetched.
STREAM = "SELECT range FROM range(100000000000)"


def long_one(connection: driver.Connection) -> Any:
    return connection.cursor().execute(ENDLESS).fetchall()


def rest_of_a_stream(connection: driver.Connection) -> Any:
    cursor = connection.cursor().execute(STREAM)
    assert len(cursor.fetchmany(10)) == 10
    return cursor.fetch_arrow_table()


def many_rows(connection: driver.Connection) -> Any:
    return connection.cursor().executemany(f"CREATE TABLE t AS {ENDLESS} WHERE ? > 0", [(1,)])


@pytest.mark.parametrize("work", [long_one, rest_of_a_stream, many_rows])
@pytest.mark.parametrize("autocommit", [False, True])
def test_a_statement_that_takes_too_long_is_stopped(
    connection: driver.Connection,
    work: Callable[[driver.Connection], Any],
    autocommit: bool,
) -> None:
    connection.autocommit = autocommit
    connection.statement_timeout = 0.3
    with pytest.raises(errors.StatementTimeout, match=r"0\.3 s") as caught:
        work(connection)
    assert caught.value.seconds == 0.3
    meaning = errors.classify(caught.value)
    assert (meaning.kind, meaning.may_have_published) == ("interrupted", False)
    assert meaning.connection_usable
    assert connection.aborted is not autocommit
    connection.rollback()
    assert connection.cursor().execute("SELECT 1").fetchall() == [(1,)]


def test_nothing_of_a_transaction_that_was_stopped_is_committed(
    connection: driver.Connection,
) -> None:
    cursor = connection.cursor()
    cursor.execute("CREATE TABLE t (a INTEGER)")
    connection.statement_timeout = 0.2
    with pytest.raises(errors.StatementTimeout):
        long_one(connection)
    with pytest.raises(errors.TransactionAborted) as caught:
        connection.commit()
    assert isinstance(caught.value.cause, errors.StatementTimeout)
    assert cursor.execute("FROM duckdb_tables()").fetchall() == []


def test_steps_of_a_script_share_the_time(connection: driver.Connection) -> None:
    connection.statement_timeout = 0.3
    connection.autocommit = True
    step = "CREATE OR REPLACE TABLE t AS SELECT sum(a.range) FROM range(4000) a, range(4000) b"
    with pytest.raises(errors.StatementTimeout):
        connection.cursor().execute(";".join([step] * 400))
    assert not connection.in_transaction


def test_quick_statements_are_not_touched(connection: driver.Connection) -> None:
    connection.statement_timeout = 30
    before = threading.active_count()
    cursor = connection.cursor()
    for number in range(20):
        assert cursor.execute("SELECT ?", [number]).fetchone() == (number,)
    assert threading.active_count() == before


@pytest.mark.parametrize("where", ["statement", "connection", "engine"])
def test_the_time_as_an_execution_option(engine: Engine, where: str) -> None:
    statement, limit = text(ENDLESS), {"ducklake_timeout": 0.3}
    if where == "engine":
        engine = engine.execution_options(**limit)
    with engine.connect() as connection:
        if where == "connection":
            connection = connection.execution_options(**limit)
        if where == "statement":
            statement = statement.execution_options(**limit)
        with pytest.raises(OperationalError) as caught:
            connection.execute(statement).all()
        assert isinstance(caught.value.orig, errors.StatementTimeout)
        connection.rollback()
        assert connection.scalar(text("SELECT 1")) == 1


@pytest.mark.parametrize("seconds", [0, -1, "5", True, float("nan"), float("inf")])
def test_what_is_no_time_is_refused(engine: Engine, seconds: Any) -> None:
    with engine.connect() as connection, pytest.raises(ArgumentError, match="ducklake_timeout"):
        connection.execute(text("SELECT 1").execution_options(ducklake_timeout=seconds))


@pytest.mark.parametrize("place", ["url", "connect_args"])
def test_the_times_of_an_engine(lake_url: URL, place: str) -> None:
    if place == "url":
        query = {"statement_timeout": "0.3", "lock_timeout": "5"}
        engine = create_engine(lake_url.update_query_dict(query))
    else:
        engine = create_engine(
            lake_url, connect_args={"statement_timeout": 0.3, "lock_timeout": 5.0}
        )
    with engine.connect() as connection:
        own: Any = connection.connection.dbapi_connection
        assert own.lock_timeout == 5
        with pytest.raises(OperationalError):
            connection.execute(text(ENDLESS)).all()
        connection.rollback()
        unlimited = text("SELECT 1").execution_options(ducklake_timeout=None)
        assert connection.scalar(unlimited) == 1
    engine.dispose()


@pytest.mark.parametrize("seconds", ["0", "-1", "x", "nan", "inf", "1e400"])
def test_a_url_with_no_such_time_is_refused(lake_url: URL, seconds: str) -> None:
    with pytest.raises(errors.OptionError) as caught:
        connect_options(lake_url.update_query_dict({"lock_timeout": seconds}))
    assert caught.value.option == "lock_timeout"
