"""S28, S30 to S34: a key that the history proves is trusted, any other is searched.

A raw INSERT of a key that is there, with a forged mark, shows what is trusted: a keyed
write that looks at the rows refuses them, one that believes the mark does not.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import (
    Column,
    Engine,
    Integer,
    MetaData,
    String,
    Table,
    UniqueConstraint,
    create_engine,
    delete,
    exc,
    func,
    select,
    text,
    update,
)

from sqlalchemy_ducklake import delete_keys, errors, insert, merge, upsert
from sqlalchemy_ducklake.lake.marks import CommitRecord, TableMark

Snapshots = Callable[[], int]
t = Table(
    "t",
    MetaData(),
    Column("a", Integer, primary_key=True, autoincrement=False),
    Column("b", String, primary_key=True),
    Column("n", Integer),
    UniqueConstraint("n"),
)
plain = Table("plain", MetaData(), Column("a", Integer))
ONE = {"a": 1, "b": "x", "n": 1}
TWO = {"a": 2, "b": "x", "n": 2}
KEY = ("a", "b")
UPSERT = insert(t).on_conflict_do_update()


@pytest.fixture
def lake(engine: Engine) -> Engine:
    t.create(engine)
    plain.create(engine)
    execute(engine, insert(t), ONE)
    return engine


def execute(engine: Engine, statement: Any, given: Any = None, **options: Any) -> None:
    with engine.begin() as connection:
        connection.execute(statement, given, execution_options=options)


def raw(engine: Engine, *statements: str) -> None:
    with engine.begin() as connection:
        for statement in statements:
            connection.exec_driver_sql(statement)


def duplicate(engine: Engine, mark: TableMark | None) -> None:
    """Store the first row again, in a commit that says so much of the table."""
    record = {} if mark is None else {"main.t": mark}
    extra = CommitRecord("forged", record).encode().replace("'", "''")
    raw(
        engine,
        f"CALL lake.set_commit_message('x', 'y', extra_info => '{extra}')",
        "INSERT INTO t VALUES (1, 'x', 7)",
    )


def last_mark(engine: Engine) -> TableMark | None:
    """Give what the newest snapshot says of the table, but for the number of its rows."""
    query = text("SELECT commit_extra_info FROM lake.snapshots() ORDER BY snapshot_id DESC")
    with engine.connect() as connection:
        record = CommitRecord.decode(connection.scalar(query))
    assert record is not None
    mark = record.tables.get("main.t")
    return None if mark is None else replace(mark, row_count=None)


def is_trusted(engine: Engine) -> bool:
    """Tell whether a keyed write that concerns other rows overlooks the duplicate."""
    with engine.connect() as connection:
        try:
            connection.execute(UPSERT, TWO)
        except exc.IntegrityError as error:
            if not isinstance(error.orig, errors.AmbiguousKeys):
                raise
            return False
        finally:
            connection.rollback()
        return True


def test_s30_every_keyed_write_says_which_key_it_proved(lake: Engine) -> None:
    for mode, statement, given in (
        ("insert", insert(t), [TWO]),
        ("upsert", UPSERT, [TWO | {"n": 3}]),
        ("update", update(t).where(t.c.a == 2).values(a=3), None),
        ("update", update(t).where(t.c.a == 3).values(n=4), None),
        ("merge", merge(t).using([TWO], on=["a"]).when_not_matched_insert(), None),
        ("upsert", merge(t).changes([TWO | {"n": 5}]), None),
        ("delete", delete(t).where(t.c.a == 2), None),
    ):
        execute(lake, statement, given)
        assert last_mark(lake) == TableMark(mode, KEY), mode


def test_s31_a_mark_of_this_key_is_believed(lake: Engine) -> None:
    duplicate(lake, TableMark("insert", KEY))
    assert is_trusted(lake)


@pytest.mark.parametrize(
    "mark",
    [
        None,
        TableMark("insert"),
        TableMark("insert", ("b", "a")),
        TableMark("insert", ("a",)),
        TableMark("insert", ("a", "b", "n")),
    ],
)
def test_s31_s33_any_other_mark_is_not(lake: Engine, mark: TableMark | None) -> None:
    duplicate(lake, mark)
    assert not is_trusted(lake)


WRITES: list[tuple[Any, Any]] = [
    (insert(t), TWO),
    (insert(t), [TWO, TWO | {"a": 3, "n": 3}]),
    (UPSERT, TWO),
    (insert(t).on_conflict_do_nothing(["a", "b"]), TWO),
    (insert(t).on_conflict_do_update(["n"], set_={"b": "y"}), TWO),
    (update(t).where(t.c.a == 1).values(a=5), None),
    (merge(t).using([TWO], on=["a"]).when_not_matched_insert(), None),
    (merge(t).changes([TWO]), None),
]


@pytest.mark.parametrize("number", range(len(WRITES)))
def test_s32_edge_10_a_duplicate_of_a_foreign_writer_is_refused_and_nothing_is_left(
    lake: Engine, snapshots: Snapshots, number: int
) -> None:
    raw(lake, "INSERT INTO t VALUES (1, 'x', 7)")
    before = snapshots()
    with lake.begin() as connection:
        with pytest.raises(exc.IntegrityError) as caught:
            connection.execute(*WRITES[number])
        left = (
            "SELECT table_name FROM duckdb_tables() "
            "WHERE temporary AND NOT starts_with(table_name, '_log')"
        )
        assert connection.execute(text(left)).all() == []
    violation = caught.value.orig
    assert isinstance(violation, errors.AmbiguousKeys)
    assert (violation.table, violation.columns) == ("t", KEY)
    assert violation.examples == ((1, "x"),)
    assert "Remove the duplicates" in str(violation)
    assert snapshots() == before
    with lake.begin() as connection:
        connection.exec_driver_sql("DELETE FROM t WHERE n = 7")
        connection.execute(*WRITES[number])
    assert last_mark(lake) is not None


def test_what_looks_at_no_key_refuses_nothing_and_claims_nothing(lake: Engine) -> None:
    raw(lake, "INSERT INTO t VALUES (1, 'x', 7)")
    execute(lake, update(t).values(n=None))
    assert last_mark(lake) == TableMark("update")
    execute(lake, delete(t).where(t.c.a == 9))
    execute(lake, delete(t))
    assert last_mark(lake) == TableMark("delete")
    execute(lake, insert(t), ONE)
    assert last_mark(lake) == TableMark("insert", KEY)


def test_without_enforcement_nothing_is_proved(lake: Engine) -> None:
    execute(lake, insert(t), ONE | {"n": 7}, enforce_constraints="none")
    assert last_mark(lake) == TableMark("insert")
    assert not is_trusted(lake)


def test_s34_changes_that_are_none_of_rows_keep_the_trust(lake: Engine) -> None:
    duplicate(lake, TableMark("insert", KEY))
    raw(lake, "ALTER TABLE t ADD COLUMN more VARCHAR")
    raw(lake, "COMMENT ON TABLE t IS 'a table'")
    raw(lake, "INSERT INTO plain VALUES (1)")
    raw(lake, "CALL ducklake_flush_inlined_data('lake')")
    raw(lake, "CALL ducklake_merge_adjacent_files('lake')")
    raw(lake, "CREATE TABLE more (t INTEGER)")
    assert is_trusted(lake)


@pytest.mark.parametrize(
    "statements",
    [
        ["ALTER TABLE t DROP COLUMN a", "ALTER TABLE t ADD COLUMN a INTEGER DEFAULT 1"],
        ["ALTER TABLE t RENAME a TO c", "ALTER TABLE t RENAME c TO a"],
        ["ALTER TABLE t RENAME TO u", "ALTER TABLE u RENAME TO t"],
        ["CREATE OR REPLACE TABLE t AS FROM t"],
        ["UPDATE t SET a = 1"],
        ["DELETE FROM t WHERE n = 99", "INSERT INTO t VALUES (5, 'x', 5)"],
    ],
)
def test_a_mark_from_before_the_key_or_the_rows_became_what_they_are_counts_for_nothing(
    lake: Engine, statements: list[str]
) -> None:
    duplicate(lake, TableMark("insert", KEY))
    for statement in statements:
        raw(lake, statement)
    with lake.connect() as connection:
        columns = [c[0] for c in connection.exec_driver_sql("FROM t").cursor.description]
        assert set(columns) >= {"a", "b"}
        only_key = Table("t", MetaData(), *(Column(c, Integer, primary_key=True) for c in "a"))
        only_key.append_column(Column("b", String, primary_key=True))
        with pytest.raises(exc.IntegrityError) as caught:
            connection.execute(insert(only_key), {"a": 2, "b": "x"})
        connection.rollback()
    assert isinstance(caught.value.orig, errors.AmbiguousKeys)


def test_expired_snapshots_prove_nothing(lake: Engine) -> None:
    duplicate(lake, TableMark("insert", KEY))
    raw(lake, "INSERT INTO plain VALUES (1)")
    assert is_trusted(lake)
    raw(lake, "CALL ducklake_expire_snapshots('lake', older_than => now() + INTERVAL 1 DAY)")
    with create_engine(lake.url).connect() as connection:
        with pytest.raises(exc.IntegrityError):
            connection.execute(UPSERT, TWO)
        connection.rollback()


def test_the_proof_is_found_some_pages_back_but_not_for_ever(lake: Engine) -> None:
    duplicate(lake, TableMark("insert", KEY))
    with lake.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        for _ in range(150):
            connection.exec_driver_sql("INSERT INTO plain VALUES (1)")
    assert is_trusted(lake)
    other = create_engine(lake.url)
    assert is_trusted(other)
    with lake.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        for _ in range(370):
            connection.exec_driver_sql("INSERT INTO plain VALUES (1)")
    other.dispose()
    assert not is_trusted(other)


def test_statements_of_a_transaction_trust_what_it_did_itself(lake: Engine) -> None:
    with lake.begin() as connection:
        connection.execute(UPSERT, TWO)
        connection.execute(UPSERT, TWO | {"n": 3})
        connection.exec_driver_sql("INSERT INTO t VALUES (2, 'x', 9)")
        with pytest.raises(exc.IntegrityError):
            connection.execute(UPSERT, ONE)
        connection.exec_driver_sql("DELETE FROM t WHERE n = 9")
        connection.execute(UPSERT, ONE | {"n": 4})
    assert last_mark(lake) == TableMark("upsert", KEY)


def test_a_table_that_was_made_in_the_transaction_is_proved_in_it(engine: Engine) -> None:
    with engine.begin() as connection:
        t.create(connection)
        connection.execute(insert(t), ONE)
        connection.execute(UPSERT, TWO)
    assert last_mark(engine) == TableMark("upsert", KEY)


def test_a_statement_that_was_refused_takes_no_proof_away(lake: Engine) -> None:
    with lake.begin() as connection:
        connection.execute(insert(t), TWO)
        with pytest.raises(exc.IntegrityError):
            connection.execute(insert(t), ONE)
    assert last_mark(lake) == TableMark("insert", KEY)


def test_the_snapshot_keeps_what_the_user_wrote_beside_the_marks(lake: Engine) -> None:
    with lake.begin() as connection:
        driver: Any = connection.connection.driver_connection
        driver.commit_info = type(driver.commit_info)("me", "why", {"ticket": 7})
        connection.execute(UPSERT, TWO)
    with lake.connect() as connection:
        query = text("SELECT commit_extra_info FROM lake.snapshots()")
        (*_, extra) = connection.scalars(query)
    assert json.loads(extra)["ticket"] == 7
    assert last_mark(lake) == TableMark("upsert", KEY)


def test_the_schema_of_a_mark_is_the_real_one(lake: Engine) -> None:
    raw(lake, "CREATE SCHEMA far")
    there = Table("t", MetaData(), Column("a", Integer, primary_key=True), schema="here")
    translated = lake.execution_options(schema_translate_map={"here": "far"})
    with translated.begin() as connection:
        there.create(connection)
        connection.execute(insert(there), [{"a": 1}])
    with lake.connect() as connection:
        query = text("SELECT commit_extra_info FROM lake.snapshots()")
        (*_, extra) = connection.scalars(query)
    record = CommitRecord.decode(extra)
    assert record is not None
    assert record.tables == {"far.t": TableMark("insert", ("a",))}
    with lake.connect() as connection:
        assert connection.execute(select(t)).all() == [(1, "x", 1)]


def test_s28_s57_edge_16_keyed_writes_say_how_many_rows_there_are_now(engine: Engine) -> None:
    """Counted once, then known from each to the next; S57: a foreign append says nothing."""
    table = Table(
        "counted",
        MetaData(),
        Column("id", Integer, primary_key=True),
        Column("n", Integer),
    )
    table.create(engine)
    # What a write scope keeps aside is counted by nobody, so its snapshots say nothing.
    engine = engine.execution_options(ducklake_write_scope=False)
    write: list[list[Any]] = [
        [insert(table).values(id=1)],
        [
            upsert(table, [{"id": 1, "n": 1}, {"id": 2, "n": None}]),
            delete_keys(table, [{"id": 9}]),
        ],
        [update(table).where(table.c.id == 2).values(id=7)],
        [text("INSERT INTO counted VALUES (10, 10), (11, 11)")],
        [upsert(table, [{"id": 10, "n": 1}, {"id": 12, "n": 2}])],
        [delete(table).where(table.c.id > 10)],
    ]
    said = []
    for statements in write:
        with engine.begin() as connection:
            for statement in statements:
                connection.execute(statement)
        with engine.connect() as connection:
            record = CommitRecord.decode(
                connection.scalar(text("SELECT last(commit_extra_info) FROM lake.snapshots()"))
            )
            found = connection.scalar(select(func.count()).select_from(table))
        assert record is not None
        mark = record.tables.get("main.counted")
        said.append(mark and mark.row_count)
        assert said[-1] in (found, None)
    assert said == [1, 2, 2, None, 5, 3]
