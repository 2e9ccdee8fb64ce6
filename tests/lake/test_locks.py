"""Locks between writers, on each kind of catalog: one at a time, in time, and always let go."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Iterator

import duckdb
import pytest

from fixtures.catalogs import PostgresServer
from sqlalchemy_ducklake import errors
from sqlalchemy_ducklake.lake.config import LakeConfig
from sqlalchemy_ducklake.lake.instances import Session, open_session
from sqlalchemy_ducklake.lake.locks import fence, lake_lock, table_lock

spawn = multiprocessing.get_context("spawn")


@contextlib.contextmanager
def sessions(lake: LakeConfig) -> Iterator[tuple[Session, Session]]:
    first, second = open_session(lake), open_session(lake)
    try:
        yield first, second
    finally:
        second.close()
        first.close()


def is_free(session: Session) -> bool:
    try:
        with lake_lock(session, timeout=0.2):
            return True
    except errors.LockTimeout:
        return False


def test_one_holds_the_lake_and_the_other_is_told_how_long_it_waited(
    any_lake: LakeConfig,
) -> None:
    with sessions(any_lake) as (first, second):
        with lake_lock(first):
            began = time.monotonic()
            with pytest.raises(errors.LockTimeout) as caught, lake_lock(second, timeout=0.3):
                pass
            assert time.monotonic() - began >= 0.3
            assert caught.value.seconds == 0.3
            assert errors.classify(caught.value).kind == "locked"
        assert is_free(second)
        assert is_free(first)


def test_who_waits_gets_the_lock_when_it_is_let_go(any_lake: LakeConfig) -> None:
    with sessions(any_lake) as (first, second):
        order = []

        def wait() -> None:
            with lake_lock(second, timeout=20):
                order.append("second")

        thread = threading.Thread(target=wait)
        with lake_lock(first):
            thread.start()
            time.sleep(0.3)
            order.append("first")
        thread.join()
        assert order == ["first", "second"]


def test_an_error_inside_lets_go(any_lake: LakeConfig) -> None:
    with sessions(any_lake) as (first, second):
        with pytest.raises(ZeroDivisionError), lake_lock(first):
            raise ZeroDivisionError
        assert is_free(second)


def test_locks_of_tables_exclude_the_same_table_only(any_lake: LakeConfig) -> None:
    a, b, c = ("main", "a"), ("main", "b"), ("main", "c")
    with sessions(any_lake) as (first, second), table_lock(first, b, a):
        with table_lock(second, c, timeout=0.3):
            assert is_free(second)
        with pytest.raises(errors.LockTimeout) as caught, table_lock(second, c, a, timeout=0.3):
            pass
        assert caught.value.locks == ("main.a", "main.c")
        with table_lock(second, c, timeout=0.3):
            pass


def test_locks_in_any_order_never_wait_for_each_other(any_lake: LakeConfig) -> None:
    a, b = ("main", "a"), ("main", "b")
    with sessions(any_lake) as pair:

        def work(session: Session, tables: tuple[tuple[str, str], ...]) -> None:
            for _ in range(20):
                with table_lock(session, *tables, timeout=30):
                    done.append(1)

        done: list[int] = []
        orders = ((a, b), (b, a))
        threads = [
            threading.Thread(target=work, args=each) for each in zip(pair, orders, strict=True)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(done) == 40


def hold(lake: LakeConfig, held: threading.Event) -> None:
    with lake_lock(open_session(lake)):
        held.set()
        time.sleep(60)


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_a_killed_process_lets_go(request: pytest.FixtureRequest, kind: str) -> None:
    lake: LakeConfig = request.getfixturevalue(f"{kind}_lake")
    with sessions(lake) as (session, _):
        held = spawn.Event()
        process = spawn.Process(target=hold, args=(lake, held))
        process.start()
        assert held.wait(60)
        assert not is_free(session)
        assert process.pid is not None
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        with lake_lock(session, timeout=10):
            pass


def test_a_forked_child_holds_nothing_of_its_parent(sqlite_lake: LakeConfig) -> None:
    with sessions(sqlite_lake) as (first, second):
        with lake_lock(first):
            child = os.fork()
            if child == 0:
                time.sleep(5)
                os._exit(0)
        assert is_free(second)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_a_dead_server_while_a_lock_is_held_kills_nobody(
    postgres_lake: LakeConfig, postgres_server: PostgresServer
) -> None:
    with sessions(postgres_lake) as (first, second):
        with lake_lock(first):
            assert postgres_server.end_connections()
        with contextlib.suppress(duckdb.Error):
            is_free(second)  # the first use of a dead connection fails
        assert is_free(second)


def test_lakes_in_one_database_have_locks_of_their_own(
    postgres_lake: LakeConfig, tmp_path: object
) -> None:
    other = LakeConfig(
        postgres_lake.catalog, data_path=f"{tmp_path}/other", metadata_schema='o"ther'
    )
    with sessions(postgres_lake) as (first, _), sessions(other) as (second, third):
        with lake_lock(first):
            assert is_free(second)
        with fence(second, timeout=1):
            pass
        with lake_lock(second):
            assert not is_free(third)
