"""Writers and upkeep on PostgreSQL that wait for each other, and go on all the same."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import duckdb
import pytest
from sqlalchemy import (
    Column,
    Engine,
    Integer,
    MetaData,
    Table,
    create_engine,
    delete,
    func,
    insert,
    select,
    text,
)
from sqlalchemy.exc import OperationalError

from fixtures.catalogs import PostgresServer
from sqlalchemy_ducklake import errors, maintain, run_transaction
from sqlalchemy_ducklake.dialect.url import url_from_config
from sqlalchemy_ducklake.lake import locks
from sqlalchemy_ducklake.lake.catalogs import PostgresCatalog
from sqlalchemy_ducklake.lake.config import LakeConfig
from sqlalchemy_ducklake.lake.instances import open_session

metadata = MetaData()
table, other = (
    Table(
        name,
        metadata,
        Column("id", Integer, primary_key=True, autoincrement=False),
        Column("n", Integer),
    )
    for name in ("t", "other")
)
_WAITING = (
    "SELECT count(*) AS waiting FROM pg_locks WHERE locktype = 'relation' AND NOT granted;"
)


@pytest.fixture
def engine(postgres_lake: LakeConfig) -> Iterator[Engine]:
    """A lake with rows of two layouts in its catalog, so that a flush drops one table."""
    engine = create_engine(url_from_config(postgres_lake))
    metadata.create_all(engine)
    for number in (1, 2):
        with engine.begin() as connection:
            connection.execute(insert(table), [{"id": number, "n": 0}])
            connection.execute(text(f"ALTER TABLE t ADD COLUMN more{number} INTEGER"))
    yield engine
    engine.dispose()


@pytest.fixture
def aside() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as executor:
        yield executor


def wait_for_a_waiter(server: PostgresServer, aside: Future[Any]) -> None:
    """Wait until somebody waits for a table of the catalog."""
    while server.run(_WAITING).split()[2] == "0":
        assert not aside.done(), aside.result()
        time.sleep(0.05)


def count(engine: Engine) -> int:
    with engine.connect() as connection:
        return int(connection.scalar(select(func.count()).select_from(table)) or 0)


def test_upkeep_and_a_transaction_that_wait_for_each_other_both_come_to_an_end(
    engine: Engine, postgres_server: PostgresServer, aside: ThreadPoolExecutor
) -> None:
    """Which of the two was first decides; neither waits for its timeout."""
    with engine.connect() as connection:
        assert len(connection.execute(select(table)).all()) == 2
        connection.execute(insert(table), {"id": 3, "n": 0})
        upkeep = aside.submit(maintain, engine)
        wait_for_a_waiter(postgres_server, upkeep)
        refused = None
        try:
            connection.commit()
        except OperationalError as error:
            refused = error.orig
        assert isinstance(refused, errors.SerializationFailure | None)
    assert "flush_inlined" in [each.step for each in upkeep.result()]
    assert count(engine) == (3 if refused is None else 2)


def test_who_reads_what_the_locks_holder_waits_for_goes_on_without_the_lock(
    engine: Engine,
    postgres_lake: LakeConfig,
    postgres_server: PostgresServer,
    aside: ThreadPoolExecutor,
) -> None:
    holder = open_session(postgres_lake)
    catalog = postgres_lake.metadata_catalog
    statement = "lock table ducklake_table in access exclusive mode"

    def wait_for_the_reader() -> None:
        holder.duck.begin()
        holder.duck.execute("CALL postgres_execute($1, $2)", [catalog, statement])
        holder.duck.rollback()

    # A write scope's commit ends what it read before it waits, so nobody waits for it.
    unscoped = engine.execution_options(ducklake_write_scope=False)
    with unscoped.connect() as connection, locks.lake_lock(holder):
        connection.execute(insert(table), {"id": 3, "n": 0})
        waiting = aside.submit(wait_for_the_reader)
        wait_for_a_waiter(postgres_server, waiting)
        connection.commit()
        waiting.result()
    holder.close()
    assert count(engine) == 3


def test_a_reader_who_stays_holds_up_upkeep_but_no_writer(
    engine: Engine,
    postgres_server: PostgresServer,
    aside: ThreadPoolExecutor,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(locks, "_PATIENCE", 0.3)
    with engine.connect() as reader:
        reader.execute(select(table)).all()
        upkeep = aside.submit(maintain, engine)
        wait_for_a_waiter(postgres_server, upkeep)
        # Of the table that is to be dropped the server lets nobody read any more.
        row = {"id": 1, "n": 0}
        run_transaction(engine, lambda connection: connection.execute(insert(other), row))
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as writer:
            assert writer.execute(delete(other)).rowcount == 1
        assert not upkeep.done()
    assert [each.step for each in upkeep.result()] == ["flush_inlined"]


def test_waiting_in_vain_is_an_error_of_sqlalchemy(postgres_lake: LakeConfig) -> None:
    engine = create_engine(url_from_config(postgres_lake))
    metadata.create_all(engine)
    ran: list[int] = []

    def work(connection: Any) -> None:
        ran.append(1)

    with engine.connect() as connection:
        raw: Any = connection.connection.dbapi_connection
        raw.lock_timeout = 0.2
    holder = open_session(postgres_lake)
    with locks.lake_lock(holder), pytest.raises(OperationalError) as caught:
        run_transaction(engine, work, alone=True)
    holder.close()
    assert isinstance(caught.value.orig, errors.LockTimeout)
    meaning = errors.classify(caught.value)
    assert (meaning.kind, meaning.may_have_published) == ("locked", False)
    assert ran == []
    run_transaction(engine, work, alone=True)
    assert ran == [1]
    engine.dispose()


def test_upkeep_waits_for_a_reader_no_longer_than_the_server_says(
    engine: Engine, postgres_lake: LakeConfig, postgres_server: PostgresServer
) -> None:
    catalog = postgres_lake.catalog
    assert isinstance(catalog, PostgresCatalog)
    postgres_server.run(f"ALTER DATABASE {catalog.database} SET lock_timeout = '300ms';")
    postgres_server.end_connections()
    with engine.connect() as reader:
        assert len(reader.execute(select(table)).all()) == 2
        # If it cannot have what it wants it says so, and the reader is not disturbed.
        with contextlib.suppress(OperationalError, duckdb.Error):
            maintain(engine)
        assert len(reader.execute(select(table)).all()) == 2
    maintain(engine)
    assert count(engine) == 2
