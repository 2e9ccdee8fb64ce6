"""Was this table touched between two snapshots?"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sqlalchemy_ducklake.lake.changes import changes_between, touches
from sqlalchemy_ducklake.lake.config import LakeConfig
from sqlalchemy_ducklake.lake.instances import Session, open_session

T = ("main", "t")
NO_INLINING = "SET SESSION ducklake_default_data_inlining_row_limit = 0"


def prepared(lake: LakeConfig) -> Iterator[Session]:
    session = open_session(lake)
    for statement in (
        "CREATE TABLE t (id BIGINT, n BIGINT)",
        "CREATE TABLE other (id BIGINT)",
        "INSERT INTO t SELECT range, 0 FROM range(20)",
        "INSERT INTO t SELECT range, 0 FROM range(20, 40)",
        "DELETE FROM t WHERE id < 5",
        "INSERT INTO t VALUES (100, 0)",
    ):
        session.duck.execute(statement)
    yield session
    session.close()


@pytest.fixture
def session(duckdb_lake: LakeConfig) -> Iterator[Session]:
    yield from prepared(duckdb_lake)


@pytest.fixture
def any_session(any_lake: LakeConfig) -> Iterator[Session]:
    yield from prepared(any_lake)


def head(session: Session) -> int:
    row = session.duck.execute("FROM current_snapshot()").fetchone()
    assert row is not None
    return int(row[0])


def reasons(session: Session, *statements: str) -> list[str]:
    base = head(session)
    for statement in statements:
        session.duck.execute(statement)
    now = head(session)
    found = touches(session.duck, session.config, [T], base, now)
    assert {touch.table for touch in found} <= {"main.t"}
    return [touch.reason for touch in found]


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("INSERT INTO t VALUES (101, 0)", "inlined_insert"),
        ("INSERT INTO t SELECT range, 1 FROM range(200, 230)", "inserted_into_table"),
        ("DELETE FROM t WHERE id = 7", "inlined_delete"),
        ("DELETE FROM t WHERE id BETWEEN 20 AND 35", "deleted_from_table"),
        ("UPDATE t SET n = 1 WHERE id = 8", "inlined_delete, inlined_insert"),
        ("ALTER TABLE t ADD COLUMN x BIGINT", "altered_table"),
        ("COMMENT ON TABLE t IS 'x'", "altered_table"),
        ("ALTER TABLE t SET PARTITIONED BY (id)", "altered_table"),
        ("DROP TABLE t", "it was created, dropped, renamed or replaced"),
        ("ALTER TABLE t RENAME TO u", "it was created, dropped, renamed or replaced"),
        (
            "CREATE OR REPLACE TABLE t (id BIGINT)",
            "it was created, dropped, renamed or replaced",
        ),
    ],
)
def test_what_changes_a_table_touches_it(session: Session, statement: str, reason: str) -> None:
    assert reasons(session, statement) == [reason]


@pytest.mark.parametrize(
    "statements",
    [
        (),
        ("INSERT INTO other VALUES (1)", "DROP TABLE other"),
        ("CREATE TABLE third (id BIGINT)",),
        ("CALL ducklake_merge_adjacent_files('lake')",),
        ("CALL ducklake_rewrite_data_files('lake', delete_threshold => 0)",),
        ("CALL ducklake_flush_inlined_data('lake')",),
        ("DELETE FROM t WHERE id = -1",),
        ("CREATE SCHEMA s", "CREATE TABLE s.t (id BIGINT)", "INSERT INTO s.t VALUES (1)"),
    ],
)
def test_what_leaves_the_rows_of_a_table_alone_does_not(
    session: Session, statements: tuple[str, ...]
) -> None:
    assert reasons(session, *statements) == []


def test_flushing_inlined_deletes_is_told_from_deleting(any_session: Session) -> None:
    any_session.duck.execute("DELETE FROM t WHERE id = 7")
    assert reasons(any_session, "CALL ducklake_flush_inlined_data('lake')") == []
    any_session.duck.execute("DELETE FROM t WHERE id = 8")
    flush_and_delete = (
        "BEGIN",
        "CALL ducklake_flush_inlined_data('lake')",
        NO_INLINING,
        "DELETE FROM t WHERE id = 25",
        "COMMIT",
    )
    (reason,) = reasons(any_session, *flush_and_delete)
    assert "deleted_from_table" in reason


def test_flushing_nothing_but_inlined_deletes_is_told_from_deleting(
    any_session: Session,
) -> None:
    any_session.duck.execute("CALL ducklake_flush_inlined_data('lake')")
    for number in (7, 8):
        any_session.duck.execute(f"DELETE FROM t WHERE id = {number}")
        assert reasons(any_session, "CALL ducklake_flush_inlined_data('lake')") == []
    many = "DELETE FROM t WHERE id < 19"
    assert reasons(any_session, many) == ["deleted_from_table"]
    all_of_a_file = "DELETE FROM t WHERE id BETWEEN 20 AND 39"
    assert reasons(any_session, all_of_a_file) == ["deleted_from_table"]


def test_deletes_count_after_their_files_were_merged(any_session: Session) -> None:
    base = head(any_session)
    any_session.duck.execute("DELETE FROM t WHERE id = 7")
    any_session.duck.execute("DELETE FROM t WHERE id BETWEEN 20 AND 60")
    any_session.duck.execute("DELETE FROM t WHERE id = 8")
    any_session.duck.execute("CALL ducklake_flush_inlined_data('lake')")
    for step in range(1, 4):
        (touch,) = touches(
            any_session.duck, any_session.config, [T], base + step - 1, base + step
        )
        assert "delete" in touch.reason


def test_expired_snapshots_count_as_a_touch(any_session: Session) -> None:
    base = head(any_session)
    for _ in range(3):
        any_session.duck.execute("INSERT INTO other VALUES (1)")
    expire = "CALL ducklake_expire_snapshots('lake', versions => [?])"
    any_session.duck.execute(expire, [base + 1])
    (touch,) = touches(any_session.duck, any_session.config, [T], base, base + 3)
    assert touch.snapshot is None
    assert not changes_between(any_session.duck, any_session.config, base).complete


def test_names_are_matched_as_the_lake_does(any_session: Session) -> None:
    base = head(any_session)
    any_session.duck.execute("INSERT INTO t VALUES (101, 0)")
    (touch,) = touches(any_session.duck, any_session.config, [("MAIN", "T")], base, base + 1)
    assert touch.snapshot == base + 1
    assert (
        touches(any_session.duck, any_session.config, [("main", "none")], base, base + 1) == ()
    )
