"""Reading the past: tables and statements at other snapshots, the feed, what was committed."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import (
    Column,
    Connection,
    Engine,
    Integer,
    MetaData,
    String,
    Table,
    bindparam,
    create_engine,
    delete,
    exc,
    func,
    insert,
    select,
    text,
    union_all,
    update,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from sqlalchemy_ducklake import (
    at_snapshot,
    at_timestamp,
    errors,
    merge,
    snapshots,
    table_changes,
    versions,
)
from sqlalchemy_ducklake.lake.config import LakeConfig

Snapshots = Callable[[], int]
metadata = MetaData()
t = Table("t", metadata, Column("id", Integer, primary_key=True), Column("v", String))
other = Table("other", metadata, Column("id", Integer, primary_key=True))
NOT_THERE = Table("not there", MetaData(), Column("a", Integer))


class Base(DeclarativeBase):
    pass


class Thing(Base):
    __tablename__ = "t"
    id: Mapped[int] = mapped_column(primary_key=True)
    v: Mapped[str]


class Written:
    """A lake whose table t was written four times; the numbers of the snapshots."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        metadata.create_all(engine)
        self.created = self.head()
        with engine.begin() as connection:
            connection.execute(insert(t), [{"id": n, "v": "a"} for n in range(3)])
        self.inserted = self.head()
        with engine.begin() as connection:
            connection.execute(update(t).where(t.c.id == 1).values(v="b"))
        self.updated = self.head()
        with engine.begin() as connection:
            connection.execute(delete(t).where(t.c.id == 2))
        self.deleted = self.head()

    def head(self) -> int:
        with self.engine.connect() as connection:
            return next(snapshots(connection)).id


@pytest.fixture
def lake(engine: Engine) -> Written:
    return Written(engine)


ROWS = {
    "inserted": [(0, "a"), (1, "a"), (2, "a")],
    "updated": [(0, "a"), (1, "b"), (2, "a")],
    "deleted": [(0, "a"), (1, "b")],
}


def test_a_table_is_read_as_it_was_in_core_and_orm(lake: Written) -> None:
    for when, rows in ROWS.items():
        number = getattr(lake, when)
        old = at_snapshot(t, number)
        with lake.engine.connect() as connection:
            assert connection.execute(select(old).order_by(old.c.id)).all() == rows
            counted = select(func.count(old.c.v)).where(old.c.v == "a")
            assert connection.scalar(counted) == [row[1] for row in rows].count("a")
        with Session(lake.engine) as session:
            entity = at_snapshot(Thing, number)
            found = session.scalars(select(entity).order_by(entity.id))
            assert [(each.id, each.v) for each in found] == rows


def test_past_and_present_join_and_a_past_table_is_the_source_of_a_merge(
    lake: Written,
) -> None:
    old = at_snapshot(t, lake.inserted, name="old")
    changed = select(t.c.id, old.c.v, t.c.v).join(old, old.c.id == t.c.id)
    with lake.engine.begin() as connection:
        assert connection.execute(changed.where(old.c.v != t.c.v)).all() == [(1, "a", "b")]
        back = merge(t).using(old).when_matched_update().when_not_matched_insert()
        assert connection.execute(back).rowcount == 2
        assert connection.execute(select(t).order_by(t.c.id)).all() == ROWS["inserted"]


def test_one_compiled_statement_serves_all_snapshots(lake: Written) -> None:
    one, two = (select(at_snapshot(t, number)) for number in (lake.inserted, lake.deleted))
    key = one._generate_cache_key()
    assert key is not None
    assert key.key == two._generate_cache_key().key  # type: ignore[union-attr]
    assert key.key != select(t)._generate_cache_key().key  # type: ignore[union-attr]


def test_a_whole_statement_reads_one_snapshot(lake: Written) -> None:
    past = {"ducklake_snapshot": lake.inserted}
    x = t.alias("x")
    inside = select(t).where(t.c.id < 9).cte("inside")
    pairs = select(t.c.id, inside.c.v).join(inside, inside.c.id == t.c.id).order_by(t.c.id)
    with lake.engine.connect() as connection:
        run: Any = lambda statement: connection.execute(statement, execution_options=past).all()  # noqa: E731
        assert run(select(t).order_by(t.c.id)) == ROWS["inserted"]
        assert run(pairs) == ROWS["inserted"]
        assert run(union_all(select(x.c.id), select(t.c.id)).order_by("id")) == [
            (n,) for n in (0, 0, 1, 1, 2, 2)
        ]
        assert run(select(func.count()).where(t.select().exists())) == [(1,)]
        assert connection.execute(select(t).order_by(t.c.id)).all() == ROWS["deleted"]
        on_connection = connection.execution_options(**past)
        assert on_connection.scalar(select(func.count()).select_from(t)) == 3
        with pytest.raises(exc.ArgumentError, match="Insert"):
            on_connection.execute(insert(t), {"id": 7})
        with pytest.raises(exc.ArgumentError, match="TextClause"):
            on_connection.execute(text("SELECT 1"))
    with Session(lake.engine) as session:
        session.connection(execution_options=past)
        assert session.query(Thing).count() == 3
        assert session.get(Thing, 2) is not None


def test_a_whole_statement_reads_views_as_they_were(lake: Written) -> None:
    with lake.engine.begin() as connection:
        connection.execute(text("CREATE VIEW ids AS SELECT id FROM t"))
        number = connection.info.setdefault("n", lake.head() + 1)
    view = Table("ids", MetaData(), Column("id", Integer))
    with lake.engine.connect() as connection:
        options = {"ducklake_snapshot": number}
        rows = connection.execute(select(view).order_by("id"), execution_options=options)
        assert rows.all() == [(0,), (1,)]


def test_d56_a_time_means_the_last_snapshot_up_to_then(lake: Written) -> None:
    with lake.engine.connect() as connection:
        told = {each.id: each.time for each in snapshots(connection)}
        for when in ("inserted", "updated", "deleted"):
            number = getattr(lake, when)
            old = at_timestamp(t, told[number])
            assert connection.execute(select(old).order_by(old.c.id)).all() == ROWS[when]
            before = at_timestamp(t, told[number] - timedelta(microseconds=1))
            rows = connection.execute(select(before).order_by(before.c.id)).all()
            assert rows != ROWS[when]
        options = {"ducklake_snapshot": told[lake.inserted].replace(tzinfo=None)}
        query = select(t).order_by(t.c.id)
        assert connection.execute(query, execution_options=options).all() == ROWS["inserted"]
        with pytest.raises(exc.ProgrammingError) as caught:
            connection.execute(select(at_timestamp(t, datetime(2001, 1, 1, tzinfo=UTC))))
        assert isinstance(caught.value.orig, errors.UnknownSnapshot)


def test_d56_of_equal_times_the_highest_number_counts(lake: Written) -> None:
    with lake.engine.connect() as connection:
        raw = connection.connection.driver_connection
        assert raw is not None
        now = datetime.now(UTC)
        raw.duck.execute(
            "UPDATE __ducklake_metadata_lake.ducklake_snapshot SET snapshot_time = $1 "
            "WHERE snapshot_id >= $2",
            [now, lake.inserted],
        )
    with lake.engine.connect() as connection:
        old = at_timestamp(t, now)
        assert connection.execute(select(old).order_by(old.c.id)).all() == ROWS["deleted"]


@pytest.mark.parametrize(
    ("make", "error", "says"),
    [
        (lambda lake: select(at_snapshot(t, 999)), errors.UnknownSnapshot, "from 0 to"),
        (lambda lake: select(at_snapshot(t, 0)), errors.TableNotThen, "created it"),
        (lambda lake: select(table_changes(t, 0, 999)), errors.UnknownSnapshot, "999"),
        (lambda lake: select(at_snapshot(NOT_THERE, 1)), errors.TableNotThen, "today either"),
    ],
)
def test_what_is_not_there_is_named_and_the_transaction_goes_on(
    lake: Written, make: Callable[[Written], Any], error: type[Exception], says: str
) -> None:
    with lake.engine.begin() as connection:
        connection.execute(insert(t), {"id": 50, "v": "kept"})
        with pytest.raises(exc.ProgrammingError, match=says) as caught:
            connection.execute(make(lake))
        assert isinstance(caught.value.orig, error)
    with lake.engine.connect() as connection:
        assert connection.scalar(select(t.c.v).where(t.c.id == 50)) == "kept"


def test_a_renamed_table_is_named_as_it_was(lake: Written) -> None:
    with lake.engine.begin() as connection:
        connection.execute(text("ALTER TABLE t RENAME TO newer"))
    newer = Table("newer", MetaData(), Column("id", Integer), Column("v", String))
    with lake.engine.connect() as connection:
        with pytest.raises(exc.ProgrammingError) as caught:
            connection.execute(select(at_snapshot(newer, lake.inserted)))
        refused = caught.value.orig
        assert isinstance(refused, errors.TableNotThen)
        assert (refused.name_then, refused.snapshot) == ("main.t", lake.inserted)
        assert connection.scalar(select(func.count()).select_from(at_snapshot(t, 2))) == 3


@pytest.mark.parametrize("wrong", [-1, "3", True, 1.5, None])
def test_a_snapshot_is_a_number_and_a_time_a_datetime(lake: Written, wrong: Any) -> None:
    with pytest.raises(exc.ArgumentError):
        at_snapshot(t, wrong)
    with pytest.raises(exc.ArgumentError):
        at_timestamp(t, wrong)
    with pytest.raises(exc.ArgumentError):
        table_changes(t, 0, wrong)
    with pytest.raises(exc.ArgumentError, match="mapped"):
        at_snapshot("t", 1)  # type: ignore[call-overload]
    if wrong is not None:
        with lake.engine.connect() as connection, pytest.raises(exc.ArgumentError):
            connection.execute(select(t), execution_options={"ducklake_snapshot": wrong})


def test_d55_the_feed_pairs_images_and_includes_both_ends(lake: Written) -> None:
    feed = table_changes(t, lake.inserted, lake.deleted)
    assert feed.c.keys() == ["snapshot_id", "rowid", "change_type", "id", "v"]
    query = select(feed).order_by(feed.c.snapshot_id, feed.c.rowid, feed.c.change_type)
    with lake.engine.connect() as connection:
        rows = connection.execute(query).all()
        assert [row[2:] for row in rows] == [
            *[("insert", n, "a") for n in range(3)],
            ("update_postimage", 1, "b"),
            ("update_preimage", 1, "a"),
            ("delete", 2, "a"),
        ]
        images = [row.rowid for row in rows if row.snapshot_id == lake.updated]
        assert images[0] == images[1]
        one = table_changes(t, lake.updated, lake.updated)
        assert connection.scalar(select(func.count()).select_from(one)) == 2
        times = {each.id: each.time for each in snapshots(connection)}
        timed = table_changes(t, times[lake.updated], times[lake.deleted])
        assert connection.scalar(select(func.count()).select_from(timed)) == 3


def test_d51_what_compaction_rewrites_is_no_change(lake: Written) -> None:
    with lake.engine.begin() as connection:
        connection.execute(insert(t), [{"id": n, "v": "x"} for n in range(100, 200)])
    with lake.engine.begin() as connection:
        connection.execute(delete(t).where(t.c.id.between(110, 150)))
    base = lake.head()
    autocommit = {"isolation_level": "AUTOCOMMIT"}
    with lake.engine.connect().execution_options(**autocommit) as connection:
        call = "CALL ducklake_rewrite_data_files('lake', 't', delete_threshold => 0.1)"
        connection.execute(text(call))
    assert lake.head() == base + 1
    raw = f"FROM ducklake_table_changes('lake', 'main', 't', {base + 1}, {base + 1})"
    with lake.engine.connect() as connection:
        assert connection.execute(text(raw)).all() != []
        assert connection.execute(select(table_changes(t, base + 1, base + 1))).all() == []
        old = at_snapshot(t, base)
        assert connection.scalar(select(func.count()).select_from(old)) == 61


def test_a_feed_can_be_applied_to_another_table(lake: Written) -> None:
    feed = table_changes(t, 0, lake.deleted)
    copy = Table(
        "copy", MetaData(), Column("id", Integer, primary_key=True), Column("v", String)
    )
    copy.create(lake.engine)
    source = select(feed.c.id, feed.c.v, feed.c.change_type, feed.c.snapshot_id).subquery()
    with lake.engine.begin() as connection:
        changes = merge(copy).changes(source, kind="change_type", sequence="snapshot_id")
        connection.execute(changes)
        assert connection.execute(select(copy).order_by(copy.c.id)).all() == ROWS["deleted"]


def test_columns_named_like_those_of_the_feed_stay_apart(engine: Engine) -> None:
    odd = Table("odd", MetaData(), Column("rowid", Integer), Column("change_type", String))
    odd.create(engine)
    with engine.begin() as connection:
        connection.execute(insert(odd), [{"rowid": 7, "change_type": "mine"}])
        base = next(snapshots(connection)).id
    with engine.connect() as connection:
        feed = table_changes(odd, 0, base + 1)
        query = select(feed.c.change_type, feed.c.rowid_1, feed.c.change_type_1)
        assert connection.execute(query).all() == [("insert", 7, "mine")]


@pytest.mark.parametrize("name", ['we "ird', "o'neil", "per%cent", "a.b", "schön"])
def test_names_may_hold_anything(engine: Engine, name: str) -> None:
    odd = Table(name, MetaData(), Column("id", Integer, primary_key=True), schema=f"s {name}")
    with engine.begin() as connection:
        connection.execute(text(f'CREATE SCHEMA "s {name.replace(chr(34), chr(34) * 2)}"'))
        odd.create(connection)
        connection.execute(insert(odd), [{"id": 1}])
    with engine.connect() as connection:
        number = next(snapshots(connection)).id
        assert connection.scalars(select(at_snapshot(odd, number))).all() == [1]
        assert connection.scalars(select(table_changes(odd, 0, number).c.id)).all() == [1]
        assert [each.mode for each in versions(connection, odd)] == ["insert"]
        past = {"ducklake_snapshot": number}
        assert connection.scalars(select(odd), execution_options=past).all() == [1]


def test_a_translated_schema_is_where_the_past_is_looked_for(engine: Engine) -> None:
    with engine.begin() as connection:
        connection.execute(text("CREATE SCHEMA tenant"))
    tenant = engine.execution_options(schema_translate_map={None: "tenant"})
    t.create(tenant)
    with tenant.begin() as connection:
        connection.execute(insert(t), {"id": 1, "v": "a"})
    with tenant.connect() as connection:
        number = next(snapshots(connection)).id
        assert connection.execute(select(at_snapshot(t, number))).all() == [(1, "a")]
        past = {"ducklake_snapshot": number}
        assert connection.execute(select(t), execution_options=past).all() == [(1, "a")]
        assert next(each.mode for each in versions(connection, t)) == "insert"


def test_s66_columns_of_a_past_snapshot_are_those_it_had(lake: Written) -> None:
    with lake.engine.begin() as connection:
        connection.execute(text("ALTER TABLE t ADD COLUMN w INTEGER"))
    wide = Table("t", MetaData(), *(Column(n, Integer) for n in ("id", "w")))
    with lake.engine.connect() as connection:
        assert connection.scalar(select(func.count(wide.c.w))) == 0
        with pytest.raises(exc.ProgrammingError, match='"w"'):
            connection.execute(select(at_snapshot(wide, lake.inserted).c.w))


def test_s69_a_transaction_reads_one_snapshot_to_its_end(lake: Written) -> None:
    with lake.engine.connect() as reader, lake.engine.connect() as writer:
        first = reader.execute(select(t)).all()
        writer.execute(insert(t), {"id": 77, "v": "new"})
        writer.commit()
        assert reader.execute(select(t)).all() == first
        assert next(snapshots(reader)).id == lake.deleted


def test_past_tables_work_in_every_kind_of_catalog(any_lake: LakeConfig) -> None:
    from sqlalchemy_ducklake import driver

    engine = create_engine("ducklake://", creator=lambda: driver.connect(any_lake))
    lake = Written(engine)
    with engine.connect() as connection:
        for when, rows in ROWS.items():
            old = at_snapshot(t, getattr(lake, when))
            assert connection.execute(select(old).order_by(old.c.id)).all() == rows
        with pytest.raises(exc.ProgrammingError, match="no snapshot 999"):
            connection.execute(select(at_snapshot(t, 999)))
        assert [each.id for each in snapshots(connection)] == list(range(lake.deleted, -1, -1))
        told = [(each.mode, each.parent) for each in versions(connection, t)]
        assert [mode for mode, _ in told] == ["delete", "update", "insert", "create"]
        last = next(snapshots(connection)).time
        assert connection.scalar(select(func.count()).select_from(at_timestamp(t, last))) == 2
        feed = table_changes(t, 0, lake.deleted)
        assert connection.scalar(select(func.count()).select_from(feed)) == 6
    engine.dispose()


def test_a_snapshot_may_be_a_parameter_of_the_caller(lake: Written) -> None:
    old = at_snapshot(t, lake.inserted)
    query = select(old.c.id).where(old.c.v == bindparam("wanted")).order_by(old.c.id)
    with lake.engine.connect() as connection:
        assert connection.scalars(query, {"wanted": "a"}).all() == [0, 1, 2]
        assert connection.scalars(query, {"wanted": "b"}).all() == []


def test_the_feed_of_a_table_that_the_transaction_changed_is_refused(lake: Written) -> None:
    feed = select(table_changes(t, 0, lake.deleted))
    with lake.engine.connect() as connection:
        connection.execute(insert(other), {"id": 1})
        assert len(connection.execute(feed).all()) == 6
        connection.execute(insert(t), {"id": 99, "v": "x"})
        with pytest.raises(exc.DBAPIError, match="commit first"):
            connection.execute(feed)
        connection.commit()
        assert len(connection.execute(feed).all()) == 6


def test_s71_a_change_of_columns_is_a_version_and_its_commit_says_what_it_did(
    lake: Written,
) -> None:
    with lake.engine.begin() as connection:
        connection.execute(text("ALTER TABLE t ADD COLUMN more INTEGER"))
    altered = lake.head()
    with lake.engine.connect() as connection:
        newest, *others = versions(connection, t)
        assert (newest.id, newest.mode) == (altered, "schema")
        assert [each.mode for each in others] == ["delete", "update", "insert", "create"]
        assert next(snapshots(connection)).message == "alter"
        old, new = (columns_at(connection, number) for number in (lake.deleted, altered))
        assert set(new) - set(old) == {"more"}


def columns_at(connection: Connection, number: int) -> list[str]:
    found = connection.execute(text(f"FROM t AT (VERSION => {number}) LIMIT 0"))
    return list(found.keys())
