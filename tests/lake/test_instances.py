"""How connections of one process share a lake, and how it closes."""

from __future__ import annotations

import gc
import random
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest

from fixtures.catalogs import PostgresServer
from sqlalchemy_ducklake.dialect.url import url_from_config
from sqlalchemy_ducklake.errors import (
    DataPathMismatch,
    LakeOpenedDifferently,
    SchemaNotFound,
)
from sqlalchemy_ducklake.lake.catalogs import DuckDBCatalog
from sqlalchemy_ducklake.lake.config import LakeConfig
from sqlalchemy_ducklake.lake.instances import Session, keep, open_session, temporary_lake


def rows(session: Session, sql: str) -> list[tuple[object, ...]]:
    return session.duck.execute(sql).fetchall()


def attached_from_elsewhere(lake: LakeConfig) -> bool:
    """Tell whether another process could open the catalog file."""
    program = "import duckdb, sys; duckdb.connect(sys.argv[1]).close()"
    command = [sys.executable, "-c", program, lake.catalog.title]
    return subprocess.run(command, check=False, capture_output=True).returncode == 0


def test_sessions_see_each_other_commit_but_not_before(any_lake: LakeConfig) -> None:
    first, second = open_session(any_lake), open_session(any_lake)
    first.duck.execute("CREATE TABLE t (a int)")
    first.duck.begin()
    first.duck.execute("INSERT INTO t VALUES (1)")
    assert rows(second, "FROM t") == []
    first.duck.commit()
    assert rows(second, "FROM t") == [(1,)]
    first.close()
    second.close()


def test_temporary_tables_and_current_schema_belong_to_one_session(
    any_lake: LakeConfig,
) -> None:
    first = open_session(any_lake)
    first.duck.execute('CREATE SCHEMA "o\'neil ""x"""')
    first.duck.execute("CREATE TEMP TABLE mine (a int)")
    second = open_session(replace(any_lake, schema='o\'neil "x"'))
    assert rows(second, "SELECT current_database(), current_schema()") == [
        ("lake", 'o\'neil "x"')
    ]
    assert rows(first, "SELECT current_schema()") == [("main",)]
    with pytest.raises(duckdb.CatalogException):
        second.duck.execute("FROM mine")
    first.close()
    second.close()


def test_every_session_is_in_utc_and_finds_no_python_variables(
    any_lake: LakeConfig,
) -> None:
    only_in_python = [1]
    with_session = open_session(any_lake)
    assert rows(with_session, "SELECT current_setting('TimeZone')") == [("UTC",)]
    with pytest.raises(duckdb.CatalogException):
        with_session.duck.execute("FROM only_in_python")
    with_session.close()
    assert only_in_python


def test_a_second_session_attaches_nothing(any_lake: LakeConfig) -> None:
    attached = "SELECT database_name, database_oid FROM duckdb_databases() WHERE NOT internal"
    first = open_session(any_lake)
    before = rows(first, attached)
    assert len(before) == 2
    for _ in range(20):
        second = open_session(any_lake)
        # Each ATTACH in an instance takes the next number.
        assert rows(second, attached) == before
        second.close()
    assert rows(first, attached) == before
    first.close()


def test_close_rolls_back_and_may_be_repeated(any_lake: LakeConfig) -> None:
    keeper, session = open_session(any_lake), open_session(any_lake)
    keeper.duck.execute("CREATE TABLE t (a int)")
    session.duck.begin()
    session.duck.execute("INSERT INTO t VALUES (1)")
    session.close()
    session.close()
    assert rows(keeper, "FROM t") == []
    keeper.close()


def test_the_last_one_out_lets_go_of_the_file(duckdb_lake: LakeConfig) -> None:
    first, second = open_session(duckdb_lake), open_session(duckdb_lake)
    first.close()
    assert not attached_from_elsewhere(duckdb_lake)
    second.close()
    assert attached_from_elsewhere(duckdb_lake)


def test_the_file_is_let_go_of_even_if_a_cursor_is_forgotten(duckdb_lake: LakeConfig) -> None:
    session = open_session(duckdb_lake)
    forgotten = session.duck.cursor()
    session.close()
    assert attached_from_elsewhere(duckdb_lake)
    forgotten.close()


def test_a_lost_session_counts_as_closed(duckdb_lake: LakeConfig) -> None:
    open_session(duckdb_lake)
    gc.collect()
    assert attached_from_elsewhere(duckdb_lake)


def test_a_kept_lake_stays_open_between_sessions(duckdb_lake: LakeConfig) -> None:
    hold = keep(duckdb_lake)
    open_session(duckdb_lake).close()
    assert not attached_from_elsewhere(duckdb_lake)
    hold.release()
    hold.release()
    assert attached_from_elsewhere(duckdb_lake)


def test_twenty_threads_open_one_lake_at_once(any_lake: LakeConfig) -> None:
    together = threading.Barrier(20)

    def first_use(number: int) -> int:
        together.wait()
        session = open_session(any_lake)
        found = rows(session, f"SELECT {number}")
        together.wait()
        session.close()
        return int(str(found[0][0]))

    with ThreadPoolExecutor(20) as pool:
        assert list(pool.map(first_use, range(20))) == list(range(20))


def test_threads_open_and_close_one_lake_over_and_over(any_lake: LakeConfig) -> None:
    setup = open_session(any_lake)
    setup.duck.execute("CREATE TABLE t AS SELECT 42 AS a")
    setup.close()

    def churn(seed: int) -> None:
        chance = random.Random(seed)
        for _ in range(8):
            session = open_session(any_lake)
            assert rows(session, "FROM t") == [(42,)]
            time.sleep(chance.random() / 100)
            session.close()

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(churn, range(6)))


def test_s58_two_spellings_of_one_file_share_an_instance(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    first = open_session(LakeConfig(DuckDBCatalog(f"{tmp_path}/x.lake")))
    second = open_session(LakeConfig(DuckDBCatalog(f"{tmp_path}/a/../x.lake")))
    first.duck.execute("CREATE TABLE t AS SELECT 1 AS a")
    assert rows(second, "FROM t") == [(1,)]
    first.close()
    second.close()


@pytest.mark.parametrize(
    ("option", "values"),
    [
        ("read_only", {"read_only": True}),
        ("settings", {"settings": (("threads", "1"),)}),
        ("metadata_schema", {"metadata_schema": "other"}),
        ("data_inlining_row_limit", {"data_inlining_row_limit": 5}),
        ("alias", {"alias": "other"}),
    ],
)
def test_an_open_duckdb_file_refuses_other_options_by_name(
    duckdb_lake: LakeConfig, option: str, values: dict[str, object]
) -> None:
    session = open_session(duckdb_lake)
    other: LakeConfig = replace(duckdb_lake, **values)  # type: ignore[arg-type]
    with pytest.raises(LakeOpenedDifferently, match="dispose") as caught:
        open_session(other)
    assert caught.value.option == option
    assert rows(session, "SELECT 1") == [(1,)]
    session.close()
    hold = keep(replace(duckdb_lake, create=True))
    hold.release()


def test_an_open_duckdb_file_refuses_another_data_path(
    duckdb_lake: LakeConfig, tmp_path: Path
) -> None:
    session = open_session(duckdb_lake)
    same = replace(duckdb_lake, data_path=f"{duckdb_lake.catalog.title}.files")
    open_session(same).close()
    with pytest.raises(DataPathMismatch):
        open_session(replace(duckdb_lake, data_path=str(tmp_path / "other")))
    session.close()


def test_s77_a_file_that_failed_to_open_can_be_opened_with_other_options(
    duckdb_lake: LakeConfig,
) -> None:
    open_session(duckdb_lake).close()
    with pytest.raises(DataPathMismatch):
        open_session(replace(duckdb_lake, data_path="/nowhere/"))
    open_session(replace(duckdb_lake, read_only=True)).close()


@pytest.mark.parametrize("history_first", [True, False])
def test_a_snapshot_is_open_beside_the_present(
    any_lake: LakeConfig, history_first: bool
) -> None:
    session = open_session(any_lake)
    session.duck.execute("CREATE TABLE t AS SELECT 1 AS a")
    session.duck.execute("INSERT INTO t VALUES (2)")
    session.close()

    order = [replace(any_lake, snapshot=1), any_lake]
    opened = [open_session(config) for config in (order if history_first else order[::-1])]
    past, present = opened if history_first else opened[::-1]
    assert rows(past, "FROM t") == [(1,)]
    assert rows(present, "FROM t ORDER BY a") == [(1,), (2,)]
    with pytest.raises(duckdb.InvalidInputException, match="read-only"):
        past.duck.execute("INSERT INTO t VALUES (3)")
    past.close()
    present.duck.execute("INSERT INTO t VALUES (3)")
    assert len(rows(present, "FROM t")) == 3
    present.close()


def test_a_snapshot_is_open_beside_a_read_only_present(duckdb_lake: LakeConfig) -> None:
    open_session(duckdb_lake).close()
    present = open_session(replace(duckdb_lake, read_only=True))
    past = open_session(replace(duckdb_lake, snapshot=0))
    assert rows(past, "SELECT current_database()") == [("lake_at_0",)]
    past.close()
    present.close()


def test_an_unknown_schema_opens_nothing(duckdb_lake: LakeConfig) -> None:
    with pytest.raises(SchemaNotFound, match="CREATE SCHEMA") as caught:
        open_session(replace(duckdb_lake, schema="nope"))
    assert caught.value.schema == "nope"
    assert attached_from_elsewhere(duckdb_lake)


@pytest.mark.parametrize("end", ["close", "lose"])
def test_a_session_whose_server_died_ends_quietly(
    postgres_lake: LakeConfig, postgres_server: PostgresServer, end: str
) -> None:
    session = open_session(postgres_lake)
    session.duck.execute("CREATE TABLE t (a int)")
    session.duck.begin()
    session.duck.execute("INSERT INTO t VALUES (1)")
    assert postgres_server.end_connections() > 0
    if end == "close":
        session.close()
    del session
    gc.collect()
    again = open_session(postgres_lake)
    assert rows(again, "FROM t") == []
    again.close()


def test_an_attached_lake_reconnects_without_its_secret(
    postgres_lake: LakeConfig, postgres_server: PostgresServer
) -> None:
    session = open_session(postgres_lake)
    session.duck.execute("CREATE TABLE t AS SELECT 1 AS a")
    assert rows(session, "FROM duckdb_secrets()") == []
    postgres_server.end_connections()
    assert rows(session, "FROM t") == [(1,)]
    session.close()


EXIT = """
import sys
from sqlalchemy.engine import make_url
from sqlalchemy_ducklake.dialect.url import config_from_url
from sqlalchemy_ducklake.lake.instances import open_session
session = open_session(config_from_url(make_url(sys.argv[1])))
session.duck.execute("CREATE TABLE IF NOT EXISTS t (a int)")
session.duck.begin()
session.duck.execute("INSERT INTO t VALUES (1)")
print("ready", flush=True)
sys.stdin.readline()
"""


def test_python_exits_cleanly_with_an_open_transaction_and_a_dead_server(
    postgres_lake: LakeConfig, postgres_server: PostgresServer
) -> None:
    url = url_from_config(postgres_lake).render_as_string(hide_password=False)
    with subprocess.Popen(
        [sys.executable, "-c", EXIT, url],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as child:
        assert child.stdout
        assert child.stdout.readline() == b"ready\n"
        postgres_server.end_connections()
        _, complaint = child.communicate(b"\n", timeout=60)
    assert (child.returncode, complaint) == (0, b"")


FORK = """
import os, sys
from sqlalchemy.engine import make_url
from sqlalchemy_ducklake.dialect.url import config_from_url
from sqlalchemy_ducklake.lake.instances import open_session
config = config_from_url(make_url(sys.argv[1]))
session = open_session(config)
session.duck.execute("CREATE TABLE IF NOT EXISTS t (a int)")
session.duck.begin()
session.duck.execute("INSERT INTO t VALUES (1)")
child = os.fork()
if child == 0:
    session.close()
    del session
    {child}
    sys.exit(0)
_, status = os.waitpid(child, 0)
assert status == 0, status
session.duck.execute("INSERT INTO t VALUES (2)")
session.duck.commit()
assert session.duck.execute("SELECT count(*) FROM t").fetchall() == [(2,)]
"""
CHILD_OPENS = """
    mine = open_session(config)
    assert mine.duck.execute("FROM t").fetchall() == []
    mine.close()
"""
CHILD_IS_REFUSED = """
    from sqlalchemy_ducklake.errors import LakeUnavailable
    try:
        open_session(config)
    except LakeUnavailable as exc:
        assert "before forking" in str(exc)
    else:
        sys.exit(1)
"""


@pytest.mark.parametrize("ending", ["exit", "use"])
def test_a_forked_child_leaves_the_parents_lake_alone(
    any_lake: LakeConfig, ending: str
) -> None:
    alone = any_lake.catalog.kind == "duckdb"
    child = "" if ending == "exit" else CHILD_IS_REFUSED if alone else CHILD_OPENS
    url = url_from_config(any_lake).render_as_string(hide_password=False)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORK.replace("{child}", child), url],
        check=False,
        capture_output=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, b"")


TEMPORARY = """
import sys
from sqlalchemy.engine import make_url
from sqlalchemy_ducklake.dialect.url import config_from_url
from sqlalchemy_ducklake.lake.instances import open_session
config = config_from_url(make_url("ducklake://"))
for _ in range(2):
    session = open_session(config)
    session.duck.execute("CREATE TABLE IF NOT EXISTS t AS SELECT 42 AS a")
    session.close()
session = open_session(config)
print(config.catalog.path)
"""


def test_a_temporary_lake_outlives_its_sessions_but_not_its_process() -> None:
    done = subprocess.run(
        [sys.executable, "-c", TEMPORARY], check=True, capture_output=True, text=True
    )
    path = Path(done.stdout.strip())
    assert path.name == "temporary.ducklake"
    assert not path.parent.exists()
    assert done.stderr == ""


def test_temporary_lakes_are_apart() -> None:
    first, second = (open_session(LakeConfig(temporary_lake())) for _ in range(2))
    first.duck.execute("CREATE TABLE t (a int)")
    with pytest.raises(duckdb.CatalogException):
        second.duck.execute("FROM t")
    first.close()
    second.close()
