"""How transactions end: what a snapshot says of them, and what happens between writers."""

from __future__ import annotations

import contextlib
import itertools
import json
import threading
from collections.abc import Callable
from typing import Any

import duckdb
import pytest
from sqlalchemy import Column, Engine, Integer, MetaData, Table, func, select, update
from sqlalchemy import Connection as EngineConnection
from sqlalchemy.exc import OperationalError

from sqlalchemy_ducklake import driver, errors, insert, run_transaction
from sqlalchemy_ducklake.driver import commit
from sqlalchemy_ducklake.driver.commit import CommitInfo
from sqlalchemy_ducklake.driver.script import Role, Script, Step
from sqlalchemy_ducklake.lake.config import LakeConfig
from sqlalchemy_ducklake.lake.marks import NAMESPACE, CommitRecord

Open = Callable[[], driver.Connection]

INSERT = Script(
    (Step(Role.COUNT, "inserted"),),
    rowcount=("inserted",),
    guarded=True,
    table=("main", "t"),
    mode="insert",
    validated_key=("id",),
)


@pytest.fixture
def table(connect: Open) -> driver.Connection:
    """A connection to a lake with a table of a hundred rows, in a file."""
    connection = connect()
    connection.cursor().execute("CREATE TABLE t (id BIGINT, n BIGINT)")
    connection.cursor().execute("INSERT INTO t SELECT range, 0 FROM range(100)")
    connection.commit()
    return connection


def history(connection: driver.Connection) -> list[tuple[Any, ...]]:
    rows = connection.cursor().execute(
        "SELECT snapshot_id, author, commit_message, commit_extra_info FROM lake.snapshots() "
        "ORDER BY snapshot_id"
    )
    found = rows.fetchall()
    connection.rollback()
    return found


def last_changes(connection: driver.Connection) -> str:
    table = "__ducklake_metadata_lake.ducklake_snapshot_changes"
    rows = connection.cursor().execute(
        f"SELECT changes_made FROM {table} ORDER BY snapshot_id DESC LIMIT 1"
    )
    (text,) = rows.fetchone() or ("",)
    connection.rollback()
    return str(text)


def test_s60_a_snapshot_says_who_what_and_which_tables(table: driver.Connection) -> None:
    cursor = table.cursor()
    cursor.execute("INSERT INTO t VALUES ($1, $2)", (1000, 1), script=INSERT)
    table.commit()
    number, author, message, extra = history(table)[-1]
    record = CommitRecord.decode(extra)
    assert (author, message) == ("sqlalchemy_ducklake", "insert main.t")
    assert record is not None
    assert record.tables["main.t"].mode == "insert"
    assert record.tables["main.t"].validated_key == ("id",)
    assert table.last_snapshot == number
    cursor.execute("DELETE FROM t WHERE id = 1")
    table.commit()
    assert history(table)[-1][2] == "delete"


def test_the_users_own_author_message_and_extra_are_kept(table: driver.Connection) -> None:
    table.commit_info = CommitInfo("ann", "why", {"ticket": 7})
    table.cursor().execute("UPDATE t SET n = 1 WHERE id = 1")
    table.commit()
    _, author, message, extra = history(table)[-1]
    assert (author, message) == ("ann", "why")
    assert json.loads(extra)["ticket"] == 7
    assert json.loads(extra)[NAMESPACE]["commit_id"]


def test_a_message_that_was_set_by_call_is_left_alone(table: driver.Connection) -> None:
    cursor = table.cursor()
    cursor.execute("CALL lake.set_commit_message('bob', 'mine', extra_info => 'x')")
    cursor.execute("UPDATE t SET n = 1 WHERE id = 1")
    table.commit()
    assert history(table)[-1][1:] == ("bob", "mine", "x")


@pytest.mark.parametrize(
    "statement", ["DELETE FROM t WHERE id = -1", "CREATE TEMP TABLE x AS FROM t", "SELECT 1"]
)
def test_s15_what_changes_nothing_leaves_no_snapshot_and_no_trace(
    table: driver.Connection, statement: str
) -> None:
    before = history(table)
    table.cursor().execute(statement)
    table.commit()
    assert table.last_snapshot is None
    assert history(table) == before


def test_a_statement_without_marks_takes_the_proof_of_a_key_away(
    table: driver.Connection,
) -> None:
    cursor = table.cursor()
    cursor.execute("INSERT INTO t VALUES ($1, $2)", (1000, 1), script=INSERT)
    cursor.execute("INSERT INTO t VALUES (1000, 1)")
    assert table.work.unmarked
    table.commit()
    record = CommitRecord.decode(history(table)[-1][3])
    assert record is not None
    assert record.tables["main.t"].validated_key == ()


def test_s59_no_connection_reports_anothers_snapshot(connect: Open) -> None:
    first, second = connect(), connect()
    first.cursor().execute("CREATE TABLE t (id BIGINT)")
    first.commit()
    first.cursor().execute("INSERT INTO t VALUES (1)")
    second.cursor().execute("INSERT INTO t VALUES (2)")
    second.commit()
    first.commit()
    assert (second.last_snapshot, first.last_snapshot) == (2, 3)


@pytest.mark.parametrize(
    ("statement", "changes"),
    [
        ("DELETE FROM t WHERE id = 1", "deleted_from_table:1"),
        ("UPDATE t SET n = 1 WHERE id = 1", "inserted_into_table:1,deleted_from_table:1"),
        ("INSERT INTO t VALUES (-1, 0)", "inlined_insert:1"),
    ],
)
def test_small_deletes_and_updates_are_not_inlined_and_inserts_are(
    table: driver.Connection, statement: str, changes: str
) -> None:
    table.cursor().execute(statement)
    table.commit()
    assert last_changes(table) == changes


@pytest.mark.parametrize("end", ["commit", "rollback", "failed statement", "next statement"])
def test_the_settings_are_as_before_whatever_happened(
    table: driver.Connection, end: str
) -> None:
    cursor = table.cursor()
    cursor.execute("DELETE FROM t WHERE id = 1")
    if end == "failed statement":
        with pytest.raises(duckdb.ConversionException):
            cursor.execute("DELETE FROM t WHERE id = CAST('x' || n AS BIGINT)")
        table.rollback()
    elif end != "next statement":
        getattr(table, end)()
    names = "'ducklake_default_data_inlining_row_limit'", "'ducklake_max_retry_count'"
    for name in names:
        cursor.execute(f"SELECT current_setting({name})")
        assert cursor.fetchone() == (10,)


def test_a_foreign_compaction_does_not_bring_deleted_rows_back(
    table: driver.Connection, connect: Open
) -> None:
    for number in range(3):
        table.cursor().execute("INSERT INTO t SELECT 1000 * ?, 0 FROM range(20)", (number,))
        table.commit()
    foreign = connect().duck
    foreign.begin()
    foreign.execute("CALL ducklake_merge_adjacent_files('lake')")
    table.cursor().execute("DELETE FROM t WHERE id = 2000")
    table.commit()
    with pytest.raises(duckdb.TransactionException, match="has deleted from it"):
        foreign.commit()
    cursor = table.cursor().execute("SELECT count(*), count(*) FILTER (id = 2000) FROM t")
    assert cursor.fetchone() == (140, 0)


def test_a_conflict_names_base_head_and_the_tables_that_others_changed(
    table: driver.Connection, connect: Open
) -> None:
    other = connect()
    other.cursor().execute('CREATE TABLE "odd.name" (id BIGINT)')
    other.commit()
    table.cursor().execute("UPDATE t SET n = 1 WHERE id = 1")
    other.cursor().execute('INSERT INTO "odd.name" VALUES (1)')
    other.commit()
    with pytest.raises(errors.SerializationFailure) as caught:
        table.commit()
    error = caught.value
    assert (error.base, error.head, error.tables) == (2, 3, ('main."odd.name"',))
    assert 'main."odd.name"' in str(error)
    assert not table.in_transaction
    assert table.cursor().execute("SELECT sum(n) FROM t").fetchone() == (0,)


def test_on_sqlite_a_late_delete_is_refused_before_it_can_kill_the_engine(
    sqlite_lake: LakeConfig,
) -> None:
    with driver.connect(sqlite_lake) as late, driver.connect(sqlite_lake) as early:
        late.cursor().execute("CREATE TABLE t AS SELECT range AS id FROM range(100)")
        late.commit()
        late.cursor().execute("SELECT count(*) FROM t").fetchall()
        early.cursor().execute("DELETE FROM t WHERE id = 1")
        early.commit()
        with pytest.raises(errors.SerializationFailure) as caught:
            late.cursor().execute("DELETE FROM t WHERE id = 2")
        assert caught.value.tables == ("main.t",)
        with pytest.raises(errors.TransactionAborted):
            late.commit()
        late.cursor().execute("DELETE FROM t WHERE id = 2")
        late.commit()
        assert late.cursor().execute("SELECT count(*) FROM t").fetchone() == (98,)


def test_plain_appends_do_not_conflict(table: driver.Connection, connect: Open) -> None:
    other = connect()
    table.cursor().execute("INSERT INTO t VALUES (-1, 0)")
    other.cursor().execute("INSERT INTO t VALUES (-2, 0)")
    other.commit()
    table.commit()
    assert table.cursor().execute("SELECT count(*) FROM t").fetchone() == (102,)


def test_m35_a_statement_of_its_own_runs_again_from_the_new_snapshot(
    table: driver.Connection, connect: Open
) -> None:
    foreign, cursor, seen = connect().duck, table.cursor(), []
    table.autocommit = True

    def attempt() -> None:
        cursor.execute("SELECT count(*) FROM t WHERE id = 1000")
        seen.append(cursor.fetchone())
        if len(seen) == 1:
            foreign.execute("INSERT INTO t VALUES (1000, 1)")
        cursor.execute("UPDATE t SET n = n + 1 WHERE id = 1")

    table.atomically(attempt, guarded=True)
    assert seen == [(0,), (1,)]
    assert cursor.execute("SELECT n FROM t WHERE id = 1").fetchall() == [(1,)]
    assert not table.in_transaction


def test_m35_it_gives_up_after_eight_tries_and_nothing_was_written(
    table: driver.Connection, connect: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit, "_LONGEST_PAUSE", 0.0)
    foreign, cursor, tries = connect().duck, table.cursor(), []
    table.autocommit = True

    def attempt() -> None:
        cursor.execute("UPDATE t SET n = n + 1 WHERE id = 1")
        foreign.execute("INSERT INTO t VALUES (1000, 1)")
        tries.append(1)

    with pytest.raises(errors.SerializationFailure):
        table.atomically(attempt, guarded=True)
    assert len(tries) == commit.TRIES == 8
    assert cursor.execute("SELECT n FROM t WHERE id = 1").fetchall() == [(0,)]


def test_an_error_of_a_statement_is_raised_at_once(table: driver.Connection) -> None:
    table.autocommit = True
    tries = []

    def attempt() -> None:
        tries.append(1)
        raise errors.KeyViolation("t", None, ["id"], [(1,)])

    with pytest.raises(errors.KeyViolation):
        table.atomically(attempt, guarded=True)
    assert len(tries) == 1
    assert not table.in_transaction


def test_two_writers_that_checked_one_key_cannot_both_insert_it(connect: Open) -> None:
    """Control: with DuckLake's own retry both commit, so this test could fail."""
    connections = [connect(), connect()]
    connections[0].cursor().execute("CREATE TABLE t (id BIGINT)")
    connections[0].commit()
    for guarded in (False, True):
        for connection in connections:
            connection.begin()
            connection.duck.execute("SELECT 1 FROM t WHERE id = ?", [int(guarded)])
            connection.duck.execute("INSERT INTO t VALUES (?)", [int(guarded)])
            connection.work.changed, connection.work.guarded = True, guarded
        connections[0].commit()
        if guarded:
            with pytest.raises(errors.SerializationFailure):
                connections[1].commit()
        else:
            connections[1].commit()
    cursor = (
        connections[0].cursor().execute("SELECT id, count(*) FROM t GROUP BY id ORDER BY id")
    )
    assert cursor.fetchall() == [(0, 2), (1, 1)]


def test_a_commit_that_fails_with_nobody_else_about_says_that_nothing_was_written(
    table: driver.Connection,
) -> None:
    cursor = table.cursor()
    cursor.execute("CALL lake.set_option('require_commit_message', true)")
    table.commit()
    # Sets no message, and so does the driver then, because it takes this for one.
    cursor.execute("CALL ducklake_options('lake') /* set_commit_message */")
    cursor.execute("DELETE FROM t WHERE id = 1")
    with pytest.raises(errors.CommitFailed) as caught:
        table.commit()
    assert caught.value.base == 1
    assert errors.classify(caught.value).kind == "aborted"
    cursor.execute("DELETE FROM t WHERE id = 1")
    table.commit()
    assert cursor.execute("SELECT count(*) FROM t").fetchone() == (99,)


def test_a_connection_whose_setting_cannot_be_reset_is_not_used_again(
    table: driver.Connection,
) -> None:
    table.cursor().execute("UPDATE t SET n = 1 WHERE id = 1")
    table.duck.rollback()
    table.duck.close()
    with pytest.raises(duckdb.ConnectionException):
        table.commit()
    assert table.closed
    with pytest.raises(errors.ClosedError) as caught:
        table.cursor()
    assert not errors.classify(caught.value).connection_usable


metadata = MetaData()
counters = Table(
    "counters",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("n", Integer),
)


@pytest.fixture
def counted(engine: Engine) -> Engine:
    metadata.create_all(engine)
    with engine.begin() as connection:
        connection.execute(insert(counters), [{"id": 1, "n": 0}, {"id": 2, "n": 0}])
    return engine


def add_one(connection: EngineConnection) -> int:
    connection.execute(update(counters).where(counters.c.id == 1).values(n=counters.c.n + 1))
    return connection.scalar(select(counters.c.n).where(counters.c.id == 1)) or 0


def test_run_transaction_runs_again_after_a_conflict_and_gives_the_result(
    counted: Engine,
) -> None:
    tries = []

    def overtaken(connection: EngineConnection) -> int:
        found = add_one(connection)
        tries.append(found)
        if len(tries) == 1:
            run_transaction(counted, add_one)
        return found

    assert run_transaction(counted, overtaken) == 2
    assert tries == [1, 2]


def test_run_transaction_raises_what_the_function_raises_and_writes_nothing(
    counted: Engine,
) -> None:
    def failing(connection: EngineConnection) -> None:
        add_one(connection)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run_transaction(counted, failing)
    assert run_transaction(counted, add_one) == 1


def test_run_transaction_gives_up_after_its_retries(
    counted: Engine, connect: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit, "_LONGEST_PAUSE", 0.0)
    tries, foreign = [], connect().duck

    def overtaken(connection: EngineConnection) -> None:
        add_one(connection)
        tries.append(1)
        foreign.execute("INSERT INTO counters VALUES (7, 7)")

    with pytest.raises(OperationalError) as caught:
        run_transaction(counted, overtaken, retries=2)
    assert isinstance(caught.value.orig, errors.SerializationFailure)
    assert errors.classify(caught.value).retry
    assert len(tries) == 3


def test_eight_threads_that_count_in_transactions_all_get_their_turn(counted: Engine) -> None:
    done, failed = [0] * 8, []

    def work(number: int) -> None:
        try:
            for _ in range(3):
                run_transaction(counted, add_one)
                done[number] += 1
        except Exception as error:  # noqa: BLE001 - shown below
            failed.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (done, failed) == ([3] * 8, [])
    with counted.connect() as connection:
        assert connection.scalar(select(func.sum(counters.c.n))) == 24


def test_the_dialects_statements_of_their_own_survive_an_overtaking_writer(
    counted: Engine, connect: Open
) -> None:
    autocommit = counted.execution_options(isolation_level="AUTOCOMMIT")
    statement = insert(counters)
    upsert = statement.on_conflict_do_update(
        ["id"], set_={"n": counters.c.n + statement.excluded.n}
    )
    stop, foreign = threading.Event(), connect().duck

    def disturb() -> None:
        for number in itertools.count(100):
            if stop.wait(0.2):
                return
            # Its commit may conflict as well.
            with contextlib.suppress(duckdb.TransactionException):
                foreign.execute("INSERT INTO counters VALUES ($1, 7)", [number])

    thread = threading.Thread(target=disturb)
    thread.start()
    try:
        with autocommit.connect() as connection:
            for _ in range(10):
                connection.execute(upsert, {"id": 2, "n": 1})
    finally:
        stop.set()
        thread.join()
    with counted.connect() as connection:
        assert connection.scalar(select(counters.c.n).where(counters.c.id == 2)) == 10
