"""Engines on one lake: shared instances, pools, threads, what an engine lets go of."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest
from sqlalchemy import URL, Engine, create_engine, make_url, text
from sqlalchemy.pool import NullPool, StaticPool


def test_twenty_threads_that_create_engines_on_one_lake_all_work(
    engine: Engine, lake_url: URL
) -> None:
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE t (a INTEGER)"))
    engine.dispose()
    done: list[int] = []

    def work(number: int) -> None:
        own = create_engine(lake_url)
        with own.begin() as connection:
            connection.execute(text("INSERT INTO t VALUES (:a)"), {"a": number})
        with own.connect() as connection:
            done.extend(connection.scalars(text("SELECT a FROM t WHERE a = :a"), {"a": number}))
        own.dispose()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(done) == list(range(20))


@pytest.mark.parametrize("pool", [NullPool, StaticPool, None])
def test_every_connection_of_every_pool_sees_the_lake(lake_url: URL, pool: type) -> None:
    engine = create_engine(lake_url, poolclass=pool)
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE t AS SELECT 1 AS a"))
    for _ in range(3):
        with engine.connect() as connection:
            assert connection.scalar(text("SELECT a FROM t")) == 1
    engine.dispose()


def test_a_disposed_engine_lets_another_process_have_the_file(lake_url: URL) -> None:
    engine = create_engine(lake_url)
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE t AS SELECT 7 AS a"))
    engine.dispose()
    program = (
        "import sys; from sqlalchemy import create_engine, text\n"
        "with create_engine(sys.argv[1]).connect() as connection:\n"
        "    print(connection.scalar(text('SELECT a FROM t')))"
    )
    address = lake_url.render_as_string(hide_password=False)
    ran = subprocess.run(
        [sys.executable, "-c", program, address], capture_output=True, text=True, check=False
    )
    assert (ran.stdout, ran.stderr) == ("7\n", "")
    with engine.connect() as connection:  # and comes back when it is used again
        assert connection.scalar(text("SELECT a FROM t")) == 7
    engine.dispose()


def test_an_engine_shows_no_secret(lake_url: URL) -> None:
    url = lake_url.set(query={"data_path": "s3://b/d/", "s3_secret": "canary"})
    engine = create_engine(url)
    assert "canary" not in repr(engine) + str(engine.url) + repr(engine.url)
    assert make_url(engine.url).query["s3_secret"] == "canary"


def test_autocommit_and_snapshot_are_the_isolation_levels(engine: Engine) -> None:
    with engine.connect() as connection:
        assert str(connection.get_isolation_level()) == "SNAPSHOT"
        connection.execute(text("CREATE TABLE t (a INTEGER)"))
        connection.rollback()
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("CREATE TABLE t (a INTEGER)"))
    with engine.connect() as connection:
        assert str(connection.get_isolation_level()) == "SNAPSHOT"
        assert connection.scalar(text("SELECT count(*) FROM t")) == 0


def test_a_closed_driver_connection_is_replaced_by_the_pool(lake_url: URL) -> None:
    engine = create_engine(lake_url, pool_pre_ping=True)
    with engine.connect() as connection:
        dbapi = connection.connection.driver_connection
    assert dbapi is not None
    dbapi.close()
    with engine.connect() as connection:
        assert connection.scalar(text("SELECT 1")) == 1
    engine.dispose()
