"""Versions of a table, differences, what commits say, and bringing the past back.

S62: a version is named by the number of its snapshot.  S65 cannot apply: a transaction may
write several tables, so marks are kept for each, and one that is missing is told by the
changes (S64).  S68: rows come in the order that is asked for, and cursors stream them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import (
    Column,
    Engine,
    Integer,
    MetaData,
    String,
    Table,
    create_engine,
    delete,
    event,
    exc,
    insert,
    select,
    text,
    update,
)
from sqlalchemy.orm import Session

from sqlalchemy_ducklake import (
    Commit,
    MergeResult,
    at_snapshot,
    diff,
    driver,
    errors,
    restore,
    snapshots,
    undo_appends_since,
    upsert,
    versions,
    write_table,
)
from sqlalchemy_ducklake.lake.config import LakeConfig
from sqlalchemy_ducklake.snapshots import TableDiff

Snapshots = Callable[[], int]
metadata = MetaData()
t = Table("t", metadata, Column("id", Integer, primary_key=True), Column("v", String))
other = Table("other", metadata, Column("id", Integer, primary_key=True))
heap = Table("heap", metadata, Column("n", Integer), Column("s", String))


@pytest.fixture
def lake(engine: Engine) -> Engine:
    metadata.create_all(engine)
    return engine


def run(lake: Engine, *statements: Any) -> int:
    """Execute in one transaction and give the newest snapshot."""
    with lake.begin() as connection:
        for each in statements:
            connection.execute(text(each) if isinstance(each, str) else each)
    with lake.connect() as connection:
        return next(snapshots(connection)).id


def test_s61_versions_are_what_changed_rows_or_columns(lake: Engine) -> None:
    first = run(lake, insert(t).values([{"id": n, "v": "a"} for n in range(50)]))
    run(lake, insert(other).values(id=1))
    run(lake, "COMMENT ON TABLE t IS 'not a version'")
    second = run(lake, update(t).where(t.c.id < 30).values(v="b"))
    third = run(lake, "ALTER TABLE t ADD COLUMN w INTEGER")
    fourth = run(lake, delete(t).where(t.c.id == 3))
    with lake.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("CALL ducklake_merge_adjacent_files('lake')"))
    with lake.connect() as connection:
        told = [(each.id, each.mode, each.parent) for each in versions(connection, t)]
    assert told[:-1] == [
        (fourth, "delete", third),
        (third, "schema", second),
        (second, "update", first),
        (first, "insert", told[-1][0]),
    ]
    assert told[-1][1:] == ("create", None)


def test_s64_what_others_wrote_is_told_by_its_changes(lake: Engine) -> None:
    raw = lake.raw_connection()
    own = raw.driver_connection
    assert isinstance(own, driver.Connection)
    for statement in (
        "INSERT INTO heap SELECT range, 'a' FROM range(100)",
        "UPDATE heap SET s = 'b' WHERE n < 50",
        "DELETE FROM heap WHERE n >= 50",
    ):
        own.duck.execute(statement)
    raw.close()
    with lake.connect() as connection:
        modes = [each.mode for each in versions(connection, heap)]
    assert modes == ["delete", "update", "insert", "create"]


def test_s63_a_replacement_has_no_parent(lake: Engine) -> None:
    run(lake, insert(heap).values(n=1))
    with lake.begin() as connection:
        write_table(connection, heap, [{"n": 2, "s": "x"}], "replace")
    with lake.connect() as connection:
        newest = next(versions(connection, heap))
    assert (newest.mode, newest.parent) == ("replace", None)


def test_versions_survive_a_rename(lake: Engine) -> None:
    first = run(lake, insert(t).values(id=1, v="a"))
    run(lake, "ALTER TABLE t RENAME TO newer")
    newer = Table("newer", MetaData(), Column("id", Integer, primary_key=True))
    second = run(lake, insert(newer).values(id=2))
    with lake.connect() as connection:
        told = [(each.id, each.mode) for each in versions(connection, newer)]
        assert told[:2] == [(second, "insert"), (first, "insert")]
        assert told[2][1] == "create"
        with pytest.raises(errors.TableNotThen):
            list(versions(connection, t))


def test_s67_listing_reads_a_page_at_a_time_and_no_data(lake: Engine) -> None:
    own = lake.raw_connection()
    duck: Any = own.driver_connection.duck  # type: ignore[union-attr]
    for number in range(140):
        duck.execute("INSERT INTO other VALUES ($1)", [number])
    own.close()
    seen: list[str] = []
    event.listen(lake, "before_cursor_execute", lambda *a: seen.append(a[2]))
    with lake.connect() as connection:
        newest = next(snapshots(connection))
        assert newest.id == 142 - 1
        numbers = [each.id for each in snapshots(connection)]
        assert numbers == list(range(newest.id, -1, -1))
        assert len(list(versions(connection, other))) == 141
    assert seen == []  # no statement of the user's tables was sent


def test_diff_counts_by_key_and_by_rows(lake: Engine) -> None:
    a = run(lake, insert(t).values([{"id": n, "v": "a"} for n in range(5)]))
    b = run(
        lake,
        update(t).where(t.c.id == 1).values(v=None),
        delete(t).where(t.c.id == 2),
        insert(t).values(id=9, v="n"),
    )
    c = run(lake, insert(heap).values([{"n": 1, "s": "x"}] * 2))
    d = run(lake, update(heap).values(s=None), insert(heap).values(n=2))
    with lake.connect() as connection:
        assert diff(connection, t, a, b) == TableDiff(1, 1, 1, 3)
        assert diff(connection, t, b, a) == TableDiff(1, 1, 1, 3)
        assert diff(connection, t, b, d).same
        assert diff(connection, heap, c, d) == TableDiff(3, 0, 2, 0)
        assert diff(connection, heap, d, c) == TableDiff(2, 0, 3, 0)
        with pytest.raises(errors.UnknownSnapshot):
            diff(connection, t, a, 999)
        with pytest.raises(errors.TableNotThen):
            diff(connection, t, 0, a)


def test_diff_reads_columns_that_were_not_there_as_null(lake: Engine) -> None:
    a = run(lake, insert(t).values([{"id": 1, "v": "a"}, {"id": 2, "v": "b"}]))
    wide = Table(
        "t",
        MetaData(),
        *(Column(c.name, c.type, primary_key=c.primary_key) for c in t.c),
        Column("w", Integer),
    )
    b = run(
        lake,
        "ALTER TABLE t ADD COLUMN w INTEGER",
        update(wide).where(wide.c.id == 1).values(w=5),
    )
    with lake.begin() as connection:
        assert diff(connection, wide, a, b) == TableDiff(0, 1, 0, 1)
        assert restore(connection, wide, a) == MergeResult(updated=1, unchanged=1)
    with lake.connect() as connection:
        rows = connection.execute(select(wide).order_by(wide.c.id)).all()
    assert rows == [(1, "a", None), (2, "b", None)]


def test_restore_writes_only_what_differs_as_one_snapshot(lake: Engine) -> None:
    a = run(lake, insert(t).values([{"id": n, "v": "a"} for n in range(5)]))
    b = run(
        lake,
        update(t).where(t.c.id == 1).values(v="b"),
        delete(t).where(t.c.id == 2),
        insert(t).values(id=9, v="n"),
    )
    with lake.begin() as connection:
        result = restore(connection, t, a)
    assert result == MergeResult(inserted=1, updated=1, deleted=1, unchanged=3)
    with lake.connect() as connection:
        head = next(snapshots(connection)).id
        assert head == b + 1
        assert diff(connection, t, a, head).same
        assert [each.mode for each in versions(connection, t)][:2] == ["replace", "insert"]
    with lake.begin() as connection:
        assert restore(connection, t, a).written == 0
    with lake.connect() as connection:
        assert next(snapshots(connection)).id == head


def test_restore_replaces_the_rows_of_a_table_without_a_key(lake: Engine) -> None:
    a = run(lake, insert(heap).values([{"n": 1, "s": "x"}] * 2 + [{"n": 2, "s": None}]))
    run(lake, delete(heap).where(heap.c.n == 1))
    with Session(lake) as session:
        assert restore(session, heap, a) == MergeResult(inserted=3, deleted=1)
        session.commit()
        assert restore(session, heap, a) == MergeResult(unchanged=3)
        with pytest.raises(errors.UnknownSnapshot):
            restore(session, heap, 999)


def test_d53_appends_are_undone_alone_and_nothing_else(lake: Engine) -> None:
    base = run(lake, insert(heap).values([{"n": n} for n in range(3)]))
    run(lake, "INSERT INTO heap SELECT range, 'new' FROM range(100, 200)")
    run(lake, insert(heap).values(n=300), insert(other).values(id=1))
    with lake.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("CALL ducklake_merge_adjacent_files('lake')"))
        connection.execute(text("CALL ducklake_flush_inlined_data('lake')"))
    with lake.begin() as connection:
        assert undo_appends_since(connection, heap, base) == 101
    with lake.connect() as connection:
        assert connection.scalars(select(heap.c.n).order_by(heap.c.n)).all() == [0, 1, 2]
        head = next(snapshots(connection)).id
        assert connection.scalar(select(other.c.id)) == 1
    with lake.begin() as connection:
        with pytest.raises(errors.NotOnlyAppends) as caught:
            undo_appends_since(connection, heap, base)
        assert (caught.value.snapshot, caught.value.base) == (head, base)
        assert undo_appends_since(connection, heap, head) == 0
    with lake.connect() as connection:
        assert next(snapshots(connection)).id == head


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE heap SET s = 'x' WHERE n = 0",
        "DELETE FROM heap WHERE n = 0",
        "ALTER TABLE heap ADD COLUMN w INTEGER",
        "DROP TABLE heap; CREATE TABLE heap (n INTEGER, s VARCHAR)",
    ],
)
def test_d53_anything_but_an_append_refuses_the_undo(lake: Engine, change: str) -> None:
    base = run(lake, insert(heap).values([{"n": n} for n in range(3)]))
    run(lake, change)
    head = run(lake, insert(heap).values(n=7))
    with lake.begin() as connection, pytest.raises(errors.NotOnlyAppends, match="restore"):
        undo_appends_since(connection, heap, base)
    assert run(lake) == head


def test_undo_refuses_a_column_that_hides_the_lineage(lake: Engine) -> None:
    odd = Table("odd", MetaData(), Column("ROWID", Integer))
    odd.create(lake)
    base = run(lake, insert(odd).values(ROWID=1))
    run(lake, insert(odd).values(ROWID=2))
    with lake.begin() as connection:
        with pytest.raises(exc.ArgumentError, match="rowid"):
            undo_appends_since(connection, odd, base)
        assert restore(connection, odd, base) == MergeResult(inserted=1, deleted=2)


def test_d27_commits_say_author_message_and_extra(any_lake: LakeConfig) -> None:
    lake = create_engine("ducklake://", creator=lambda: driver.connect(any_lake))
    metadata.create_all(lake)
    said = Commit(author="o'neil", message='say "hi" — 100%', extra={"job": {"id": 7}})
    with lake.connect().execution_options(ducklake_commit=said) as connection:
        connection.execute(upsert(t, [{"id": 1, "v": "a"}]))
        connection.commit()
        newest = next(snapshots(connection))
        connection.rollback()
        # A no-op leaves no trace (edge case 19).
        connection.execute(upsert(t, [{"id": 1, "v": "a"}]))
        connection.commit()
        assert next(snapshots(connection)).id == newest.id
    assert (newest.author, newest.message, newest.extra) == (
        said.author,
        said.message,
        said.extra,
    )
    # The next user of the pooled connection says nothing of it.
    with lake.begin() as connection:
        connection.execute(insert(t), {"id": 2})
    with lake.connect() as connection:
        silent = next(snapshots(connection))
    assert (silent.message, silent.extra) == ("insert main.t", {})
    lake.dispose()


def test_a_commit_may_be_described_while_its_transaction_is_open(lake: Engine) -> None:
    with lake.connect() as connection:
        connection.execute(insert(heap), {"n": 1})
        connection.execution_options(ducklake_commit=Commit(message="late"))
        connection.commit()
        assert next(snapshots(connection)).message == "late"
    engine = lake.execution_options(ducklake_commit=Commit(author="engine"))
    with Session(engine) as session:
        session.execute(insert(heap), {"n": 2})
        session.commit()
        assert next(snapshots(session)).author == "engine"


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ("a message", exc.ArgumentError),
        (Commit(extra={"x": object()}), errors.OptionError),
        (Commit(extra={"sqlalchemy_ducklake": 1}), errors.OptionError),
    ],
)
def test_what_a_commit_cannot_say_is_refused_at_once(
    lake: Engine, said: Any, error: type[Exception]
) -> None:
    with lake.connect() as connection, pytest.raises(error):
        connection.execution_options(ducklake_commit=said)


def test_what_others_put_into_the_extra_info_does_no_harm(lake: Engine) -> None:
    raw = lake.raw_connection()
    duck: Any = raw.driver_connection.duck  # type: ignore[union-attr]
    for extra in ("not json", "[1]", '{"sqlalchemy_ducklake": 5, "mine": 1}'):
        duck.begin()
        duck.execute("CALL lake.set_commit_message('x', 'y', extra_info => $1)", [extra])
        duck.execute("INSERT INTO heap VALUES (1, 'a')")
        duck.commit()
    raw.close()
    with lake.connect() as connection:
        told = [each.extra for _, each in zip(range(3), snapshots(connection), strict=False)]
        assert told == [{"mine": 1}, {}, {}]
        assert [each.mode for each in versions(connection, heap)][:3] == ["insert"] * 3


def test_a_past_that_was_expired_is_unknown(lake: Engine) -> None:
    base = run(lake, insert(heap).values(n=1))
    run(lake, insert(heap).values(n=2))
    with lake.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(
            text(f"CALL ducklake_expire_snapshots('lake', versions => [{base}])")
        )
    with lake.begin() as connection:
        with pytest.raises(exc.ProgrammingError, match="expired"):
            connection.execute(select(at_snapshot(heap, base)))
        with pytest.raises(errors.UnknownSnapshot):
            undo_appends_since(connection, heap, base)
        with pytest.raises(errors.NotOnlyAppends, match="expired"):
            undo_appends_since(connection, heap, base - 1)
        assert base not in [each.id for each in snapshots(connection)]
        assert len(list(versions(connection, heap))) == 2
