"""A pool of connections whose server, instance or process is another one than it was."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sqlalchemy import (
    Column,
    Connection,
    Engine,
    Integer,
    MetaData,
    Table,
    create_engine,
    func,
    insert,
    select,
    text,
)
from sqlalchemy.exc import DBAPIError

from fixtures.catalogs import PostgresServer
from fixtures.keyboard import press_ctrl_c
from sqlalchemy_ducklake import errors, run_transaction
from sqlalchemy_ducklake.dialect.url import url_from_config
from sqlalchemy_ducklake.lake.config import LakeConfig

table = Table("t", MetaData(), Column("id", Integer, primary_key=True, autoincrement=False))
_FATAL = "COMMENT ON COLUMN t.missing IS 'x'"


def rows(engine: Engine) -> int:
    with engine.connect() as connection:
        return int(connection.scalar(select(func.count()).select_from(table)) or 0)


@pytest.fixture(params=[False, True], ids=["plain", "pre-ping"])
def make(request: pytest.FixtureRequest) -> Iterator[Callable[[LakeConfig], Engine]]:
    made: list[Engine] = []

    def engine_of(lake: LakeConfig) -> Engine:
        made.append(create_engine(url_from_config(lake), pool_pre_ping=request.param))
        table.create(made[0])
        return made[0]

    yield engine_of
    made[0].dispose()


def test_a_server_that_ended_all_connections_is_connected_to_again(
    make: Callable[[LakeConfig], Engine],
    postgres_lake: LakeConfig,
    postgres_server: PostgresServer,
) -> None:
    engine = make(postgres_lake)
    for number in range(3):
        with engine.begin() as connection:
            connection.execute(insert(table), {"id": number})
        assert postgres_server.end_connections()
        assert rows(engine) == number + 1


def test_a_transaction_whose_server_went_away_is_told_and_can_be_run_again(
    make: Callable[[LakeConfig], Engine],
    postgres_lake: LakeConfig,
    postgres_server: PostgresServer,
) -> None:
    engine = make(postgres_lake)
    with engine.connect() as connection:
        connection.execute(insert(table), {"id": 1})
        postgres_server.end_connections()
        with pytest.raises(DBAPIError) as caught:
            connection.commit()
        meaning = errors.classify(caught.value)
        assert (meaning.retry, meaning.may_have_published) == (True, False)
        connection.rollback()
        connection.execute(insert(table), {"id": 1})
        connection.commit()
    killed: list[int] = []

    def work(connection: Connection) -> None:
        connection.execute(insert(table), {"id": 2})
        if not killed:
            killed.append(postgres_server.end_connections())
        connection.execute(insert(table), {"id": 3})

    run_transaction(engine, work)
    assert rows(engine) == 3


def test_an_instance_that_died_is_replaced(
    make: Callable[[LakeConfig], Engine], sqlite_lake: LakeConfig
) -> None:
    """Connections in the pool know nothing of it until they are used, or asked."""
    engine = make(sqlite_lake)
    with engine.connect() as first, engine.connect() as second:
        for each in (first, second):
            each.execute(text("SELECT 1")).all()
        own: Any = first.connection.dbapi_connection
        with pytest.raises(Exception, match="INTERNAL Error"):
            own.duck.execute(_FATAL)
    refused = 0
    for number in range(3):
        try:
            with engine.begin() as connection:
                connection.execute(insert(table), {"id": number})
        except DBAPIError as error:
            assert error.connection_invalidated  # noqa: PT017
            assert errors.classify(error).kind == "lost"  # noqa: PT017
            refused += 1
    assert refused == (0 if engine.pool._pre_ping else 1)
    assert rows(engine) == 3 - refused


FORK = """
import os, sys
from sqlalchemy import create_engine, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy_ducklake import errors

engine = create_engine(sys.argv[1], pool_pre_ping=sys.argv[2] == "True")
with engine.begin() as connection:
    connection.execute(text("CREATE TABLE t (a INTEGER)"))
with engine.connect() as open_one, engine.connect() as pooled:
    open_one.execute(text("SELECT 1")), pooled.execute(text("SELECT 1"))
open_one = engine.connect()
open_one.execute(text("INSERT INTO t VALUES (1)"))
child = os.fork()
if child == 0:
    told = 0
    for _ in range(2):
        try:
            with engine.begin() as connection:
                connection.execute(text("INSERT INTO t VALUES (2)"))
        except DBAPIError as error:
            assert errors.classify(error).kind in {"lost", "unavailable"}, error
            told += 1
    try:
        open_one.execute(text("SELECT 1"))
    except DBAPIError as error:
        assert isinstance(error.orig, errors.ForkedError), error
    else:
        sys.exit("the connection of the parent was used")
    sys.exit(10 + told)
_, status = os.waitpid(child, 0)
open_one.rollback()
open_one.execute(text("INSERT INTO t VALUES (1)"))
open_one.commit()
open_one.close()
with engine.connect() as connection:
    found = connection.execute(text("SELECT a FROM t ORDER BY a")).scalars().all()
print(os.waitstatus_to_exitcode(status), found)
"""


@pytest.mark.parametrize(
    ("kind", "pre_ping"),
    [("duckdb", False), ("sqlite", False), ("sqlite", True), ("postgres", False)],
)
def test_a_forked_child_gets_an_instance_of_its_own_or_a_clear_error(
    request: pytest.FixtureRequest, kind: str, pre_ping: bool
) -> None:
    lake = request.getfixturevalue(f"{kind}_lake")
    url = url_from_config(lake).render_as_string(hide_password=False)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORK, url, str(pre_ping)],
        check=False,
        capture_output=True,
        encoding="utf-8",
        timeout=100,
    )
    alone = kind == "duckdb"
    # The file of a DuckDB catalog stays the parent's.
    told = 2 if alone else 0 if pre_ping else 1
    expected = [1] + [2] * (2 - told)
    assert (done.stdout, done.stderr) == (f"{10 + told} {expected}\n", "")


EXIT = """
import sys
from sqlalchemy import create_engine, text

engine = create_engine(sys.argv[1])
with engine.begin() as connection:
    connection.execute(text("CREATE TABLE t (a INTEGER)"))
writer, reader = engine.connect(), engine.connect()
writer.execute(text("INSERT INTO t SELECT range FROM range(5000)"))
stream = reader.execution_options(stream_results=True).execute(text("FROM range(10000000)"))
stream.fetchmany(5)
"""


def test_python_exits_with_open_transactions_and_writes_nothing(any_lake: LakeConfig) -> None:
    url = url_from_config(any_lake).render_as_string(hide_password=False)
    done = subprocess.run(
        [sys.executable, "-c", EXIT, url], check=False, capture_output=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, b"")
    engine = create_engine(url)
    with engine.connect() as connection:
        assert connection.scalar(text("SELECT count(*) FROM t")) == 0
    engine.dispose()


def test_an_interrupt_from_the_keyboard_leaves_a_pool_that_works(
    sqlite_lake: LakeConfig,
) -> None:
    engine = create_engine(url_from_config(sqlite_lake))
    table.create(engine)
    long = text("SELECT sum(a.range * b.range) FROM range(200000) a, range(200000) b")
    with engine.connect() as connection:
        connection.execute(insert(table), {"id": 1})
        connection.execute(text("SET threads = 1"))
        with pytest.raises(KeyboardInterrupt):
            press_ctrl_c(lambda: connection.execute(long).all())
    assert rows(engine) == 0
    engine.dispose()
