"""The texts by which errors of the engine are named, each from the real engine."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
from collections.abc import Iterator

import duckdb
import pytest
from sqlalchemy import URL, Connection, create_engine, text

from fixtures.catalogs import PostgresServer
from sqlalchemy_ducklake import driver, errors, run_transaction
from sqlalchemy_ducklake.errors import Classification, Kind, classify
from sqlalchemy_ducklake.lake.catalogs import SQLiteCatalog
from sqlalchemy_ducklake.lake.config import LakeConfig
from sqlalchemy_ducklake.lake.instances import Session, open_session

# Another process, because SQLite's locks do not exclude anybody inside one.
LOCK = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
for statement in sys.argv[2:]:
    connection.execute(statement)
print("locked", flush=True)
sys.stdin.read()
"""


@contextlib.contextmanager
def locked(lake: LakeConfig, *statements: str) -> Iterator[None]:
    assert isinstance(lake.catalog, SQLiteCatalog)
    command = [sys.executable, "-c", LOCK, lake.catalog.path, *statements]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe) as process:
        assert process.stdout is not None
        assert process.stdout.readline()
        yield


def test_a_sqlite_catalog_that_somebody_locks_is_called_locked(
    sqlite_lake: LakeConfig,
) -> None:
    session = open_session(sqlite_lake)
    session.duck.execute("CREATE TABLE t (id BIGINT)")
    with (
        locked(sqlite_lake, "PRAGMA journal_mode = DELETE", "BEGIN EXCLUSIVE"),
        pytest.raises(duckdb.Error) as caught,
    ):
        session.duck.execute("FROM t")
    assert type(caught.value) is duckdb.Error
    assert classify(caught.value) == Classification(Kind.LOCKED, retry=True)
    session.close()


def test_a_commit_into_a_locked_sqlite_catalog_fails_and_can_be_run_again(
    sqlite_lake: LakeConfig,
) -> None:
    with driver.connect(sqlite_lake) as connection:
        connection.cursor().execute("CREATE TABLE t (id BIGINT)")
        connection.commit()
        connection.cursor().execute("INSERT INTO t VALUES (1)")
        with locked(sqlite_lake, "BEGIN EXCLUSIVE"), pytest.raises(errors.CommitFailed):
            connection.commit()
        assert connection.cursor().execute("FROM t").fetchall() == []
        connection.autocommit = True
        connection.cursor().execute("INSERT INTO t VALUES (1)")
        assert connection.cursor().execute("FROM t").fetchall() == [(1,)]


def test_a_postgres_server_that_went_away_is_called_unavailable(
    postgres_lake: LakeConfig, postgres_server: PostgresServer
) -> None:
    session = open_session(postgres_lake)
    session.duck.execute("CREATE TABLE t (id BIGINT)")
    session.duck.begin()
    session.duck.execute("FROM t")
    assert postgres_server.end_connections()
    with pytest.raises(duckdb.Error) as caught:
        session.duck.execute("FROM ducklake_options('lake')")
    assert classify(caught.value).kind is Kind.UNAVAILABLE
    session.close()


# Puts the rows that the catalog keeps into a file, and drops the table they were in.
FLUSH = """
import sys
from sqlalchemy import create_engine, text
engine = create_engine(sys.argv[1])
for statement in (
    "CALL ducklake_flush_inlined_data('lake')",
    "ALTER TABLE t ADD COLUMN more INTEGER",
    "INSERT INTO t VALUES (2, 2)",
    "CALL ducklake_flush_inlined_data('lake')",
):
    with engine.begin() as connection:
        connection.execute(text(statement))
"""


def test_rows_that_move_while_a_transaction_reads_are_a_conflict(
    sqlite_lake: LakeConfig,
) -> None:
    """A SQLite catalog shows a transaction what others do meanwhile; it is run again."""
    assert isinstance(sqlite_lake.catalog, SQLiteCatalog)
    url = URL.create("ducklake+sqlite", database=sqlite_lake.catalog.path)
    with driver.connect(sqlite_lake) as connection:
        connection.cursor().execute("CREATE TABLE t (id BIGINT)")
        connection.commit()
        connection.cursor().execute("INSERT INTO t VALUES (1)")
        connection.commit()
    met: list[Classification] = []

    def read(connection: Connection) -> list[int]:
        found = connection.scalars(text("SELECT id FROM t ORDER BY id")).all()
        if not met:
            command = [sys.executable, "-c", FLUSH, url.render_as_string(hide_password=False)]
            subprocess.run(command, check=True)
            try:
                connection.execute(text("FROM t")).all()
            except Exception as error:
                met.append(classify(error))
                raise
        return list(found)

    engine = create_engine(url)
    assert run_transaction(engine, read) == [1, 2]
    assert met == [Classification(Kind.CONFLICT, retry=True)]
    engine.dispose()


@pytest.mark.parametrize("order", ["same", "crossed"])
def test_rows_of_a_postgresql_catalog_that_another_takes_away_are_a_conflict(
    postgres_lake: LakeConfig, order: str
) -> None:
    """Two flushes of one table, and two of two tables that wait for each other."""
    flush = "CALL ducklake_flush_inlined_data('{}', table_name => '{}')"
    first, second = open_session(postgres_lake), open_session(postgres_lake)
    for table in ("a", "b"):
        first.duck.execute(f"CREATE TABLE {table} (id BIGINT)")
        first.duck.execute(f"INSERT INTO {table} VALUES (1), (2)")
    alias = postgres_lake.alias
    for session in (first, second):
        session.duck.begin()
        session.duck.execute("FROM a").fetchall()
    first.duck.execute(flush.format(alias, "a"))
    caught: list[BaseException] = []
    if order == "same":
        first.duck.commit()
        with pytest.raises(duckdb.Error) as told:
            second.duck.execute(flush.format(alias, "a"))
        caught.append(told.value)
    else:
        second.duck.execute(flush.format(alias, "b"))
        crossing = [(first, "b"), (second, "a")]
        threads = [
            threading.Thread(target=flush_or_note, args=(session, alias, table, caught))
            for session, table in crossing
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert [classify(error) for error in caught] == [Classification(Kind.CONFLICT, retry=True)]
    for session in (first, second):
        with contextlib.suppress(duckdb.Error):
            session.duck.rollback()
        session.close()


def flush_or_note(
    session: Session, alias: str, table: str, caught: list[BaseException]
) -> None:
    try:
        session.duck.execute(
            f"CALL ducklake_flush_inlined_data('{alias}', table_name => '{table}')"
        )
        session.duck.commit()
    except duckdb.Error as error:
        caught.append(error)
        with contextlib.suppress(duckdb.Error):
            session.duck.rollback()
