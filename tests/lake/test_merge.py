"""merge(), changes(), upsert() and delete_keys() on a lake."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from sqlalchemy import (
    Boolean,
    Column,
    Connection,
    Engine,
    Integer,
    MetaData,
    Numeric,
    String,
    Table,
    UniqueConstraint,
    delete,
    exc,
    func,
    insert,
    select,
    text,
    values,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from sqlalchemy_ducklake import (
    MergeResult,
    Upsert,
    begin_merge,
    delete_keys,
    errors,
    merge,
    merge_action,
    merge_result,
    patch,
    upsert,
)

Snapshots = Callable[[], int]
NAMES = ["id", "name", "n", "kind"]
metadata = MetaData()
t = Table(
    "t",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", String),
    Column("n", Numeric(10, 2)),
    Column("kind", String, server_default="plain"),
)
news = Table(
    "news",
    metadata,
    Column("id", Integer),
    Column("name", String),
    Column("n", Integer),
    Column("gone", Boolean),
)
codes = Table(
    "codes",
    metadata,
    Column("a", String, primary_key=True),
    Column("b", Integer, primary_key=True),
    Column("code", String),
    UniqueConstraint("code", name="one_code"),
)
heap = Table("heap", metadata, Column("a", Integer), Column("b", String))


@pytest.fixture
def lake(engine: Engine) -> Engine:
    metadata.create_all(engine)
    with engine.begin() as connection:
        connection.execute(insert(t), [{"id": i, "name": f"a{i}", "n": i} for i in range(5)])
        connection.execute(
            insert(news),
            [
                {"id": 3, "name": "a3", "n": 3, "gone": False},
                {"id": 4, "name": "x", "n": 9, "gone": False},
                {"id": 5, "name": "new", "n": 1, "gone": False},
                {"id": 1, "name": None, "n": None, "gone": True},
            ],
        )
    return engine


def run(engine: Engine, statement: Any) -> MergeResult:
    with engine.begin() as connection:
        return merge_result(connection.execute(statement))


def everything(engine: Engine, table: Table = t) -> list[Any]:
    with engine.connect() as connection:
        return list(map(tuple, connection.execute(select(table).order_by(*table.c))))


def test_the_first_arm_whose_condition_holds_decides(lake: Engine) -> None:
    statement = (
        merge(t)
        .using(news)
        .when_matched_delete(where=news.c.gone)
        .when_matched_do_nothing(where=news.c.n == 3)
        .when_matched_update({"name": news.c.name, t.c.n: t.c.n + news.c.n})
        .when_not_matched_do_nothing(where=news.c.n > 100)
        .when_not_matched_insert({"id": news.c.id, "name": func.upper(news.c.name)})
        .when_not_matched_by_source_update({"name": t.c.name + "!"}, where=t.c.id == 0)
        .when_not_matched_by_source_delete(where=t.c.id == 2)
    )
    with lake.begin() as connection:
        result = connection.execute(statement.returning(merge_action(), t.c.id, t.c.name))
        assert sorted(result.all()) == [
            ("DELETE", 1, "a1"),
            ("DELETE", 2, "a2"),
            ("INSERT", 5, "NEW"),
            ("UPDATE", 0, "a0!"),
            ("UPDATE", 4, "x"),
        ]
        expected = MergeResult(inserted=1, updated=2, deleted=2, skipped=1)
        assert merge_result(result) == expected
    assert everything(lake) == [
        (0, "a0!", Decimal(0), "plain"),
        (3, "a3", Decimal(3), "plain"),
        (4, "x", Decimal(13), "plain"),
        (5, "NEW", None, "plain"),
    ]


class DataFrame:
    """What pandas and polars have: columns, and the rows as an Arrow stream."""

    def __init__(self, table: pa.Table) -> None:
        self.columns = table.column_names
        self._table: Any = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)


SOURCES: dict[str, Callable[[], Any]] = {
    "table": lambda: news,
    "alias": lambda: news.alias("fresh"),
    "select": lambda: select(news.c.id, news.c.name).where(news.c.n != 3),
    "cte": lambda: select(news.c.id, news.c.name).where(news.c.n != 3).cte("recent"),
    "values": lambda: values(Column("id", Integer), Column("name", String), name="given").data(
        [(4, "x"), (5, "new")]
    ),
    "arrow": lambda: pa.table({"id": [4, 5], "name": ["x", "new"]}),
    "batch": lambda: pa.record_batch({"id": [4, 5], "name": ["x", "new"]}),
    "reader": lambda: pa.table({"id": [4, 5], "name": ["x", "new"]}).to_reader(),
    "stream": lambda: DataFrame(pa.table({"id": [4, 5], "name": ["x", "new"]})),
    "rows": lambda: [{"id": 4, "name": "x"}, {"id": 5, "name": "new"}],
}


@pytest.mark.parametrize("source", SOURCES)
def test_s25_every_kind_of_source_can_be_merged(lake: Engine, source: str) -> None:
    with lake.begin() as connection:
        connection.execute(news.delete().where(news.c.n.is_(None) | (news.c.n == 3)))
    statement = merge(t).using(SOURCES[source](), on=["id"])
    statement = statement.when_matched_update({"name": statement.source.c.name})
    given = {"id": statement.source.c.id, "name": statement.source.c.name}
    result = run(lake, statement.when_not_matched_insert(given))
    assert result == MergeResult(inserted=1, updated=1)
    assert [row[:2] for row in everything(lake)][3:] == [(3, "a3"), (4, "x"), (5, "new")]


def test_without_values_the_common_columns_are_taken(lake: Engine) -> None:
    source = pa.table({"name": ["q", "r"], "id": [2, 100], "unknown": [1, 2]})
    statement = merge(t).using(source).when_matched_update().when_not_matched_insert()
    assert run(lake, statement) == MergeResult(inserted=1, updated=1)
    assert everything(lake)[-1] == (100, "r", None, "plain")


def test_nothing_to_change_makes_no_snapshot(lake: Engine, snapshots: Snapshots) -> None:
    source = pa.table({"id": [1, 2], "name": ["a1", "a2"]})
    before = snapshots()
    assert run(lake, merge(t).using(source).when_matched_update()) == MergeResult(unchanged=2)
    assert run(lake, merge(t).using(source).when_not_matched_insert()).written == 0
    assert run(lake, upsert(codes, [{"a": "x", "b": 1, "code": None}])).inserted == 1
    before = snapshots()
    assert run(lake, upsert(codes, [{"a": "x", "b": 1, "code": None}])).unchanged == 1
    assert run(lake, delete_keys(codes, [{"a": "y", "b": 1}])) == MergeResult()
    assert snapshots() == before


def test_a_source_that_matches_a_row_twice_is_refused_if_it_would_change_it(
    lake: Engine,
) -> None:
    twice = merge(t).using([{"id": 1, "name": "p"}, {"id": 1, "name": "q"}])
    with lake.begin() as connection:
        for statement in (twice.when_matched_update(), twice.when_matched_delete()):
            with pytest.raises(exc.ProgrammingError) as caught:
                connection.execute(statement)
            assert isinstance(caught.value.orig, errors.CardinalityViolation)
            assert caught.value.orig.examples == ((1,),)
        assert merge_result(connection.execute(twice.when_matched_do_nothing())).skipped == 2
        one = twice.when_matched_update(where=twice.source.c.name == "q")
        assert merge_result(connection.execute(one)).updated == 1
    assert everything(lake)[1][1] == "q"


def test_any_condition_on_a_table_without_keys(lake: Engine) -> None:
    with lake.begin() as connection:
        connection.execute(insert(heap), [{"a": n % 3, "b": "old"} for n in range(6)])
    with pytest.raises(exc.ArgumentError, match="no primary key"):
        merge(heap).using(pa.table({"a": [1]}))
    subquery = select(news.c.id.label("low")).where(news.c.id == 1).subquery()
    statement = merge(heap).using(subquery, on=heap.c.a >= subquery.c.low)
    statement = statement.when_matched_update({"b": "new"})
    assert run(lake, statement) == MergeResult(updated=4)
    assert [row[1] for row in everything(lake, heap)] == ["old"] * 2 + ["new"] * 4


def test_keys_are_kept_by_every_arm(lake: Engine) -> None:
    rows = [{"a": "x", "b": 1, "code": "c1"}, {"a": "x", "b": 2, "code": "c2"}]
    assert run(lake, upsert(codes, rows)).inserted == 2
    source = [{"a": "x", "b": 1, "code": "c2"}]
    by_key = merge(codes).using(source)
    cases = [
        by_key.when_matched_update(),
        merge(codes).using([{"a": "z", "b": 9, "code": "c1"}]).when_not_matched_insert(),
        merge(codes)
        .using([{"a": "z", "b": n, "code": "same"} for n in (7, 8)])
        .when_not_matched_insert(),
        by_key.when_matched_update({"b": 2}),
        upsert(codes, source),
    ]
    for statement in cases:
        with pytest.raises(exc.IntegrityError) as caught:
            run(lake, statement)
        assert isinstance(caught.value.orig, errors.KeyViolation)
    swap = merge(codes).using([{"a": "x", "b": 1, "to": 2}, {"a": "x", "b": 2, "to": 1}])
    assert run(lake, swap.when_matched_update({"b": swap.source.c.to})).updated == 2
    assert everything(lake, codes) == [("x", 1, "c2"), ("x", 2, "c1")]


def test_s12_the_last_change_to_a_key_counts_by_its_sequence(lake: Engine) -> None:
    feed = pa.table(
        {
            "id": [2, 2, 300, 3, 7, 7],
            "name": ["late", "early", "z", None, "made", "gone"],
            "n": [1, 2, 3, None, 1, 1],
            "kind": ["k"] * 6,
            "what": ["upsert", "insert", "upsert", "delete", "upsert", "delete"],
            "at": [50, 10, 20, 30, 1, 2],
        }
    )
    statement = merge(t).changes(feed, kind="what", sequence="at")
    assert run(lake, statement) == MergeResult(inserted=1, updated=1, deleted=1)
    assert [row[:2] for row in everything(lake)] == [
        (0, "a0"),
        (1, "a1"),
        (2, "late"),
        (4, "a4"),
        (300, "z"),
    ]


def test_a_lakes_own_change_feed_can_be_applied_to_a_copy(
    lake: Engine, snapshots: Snapshots
) -> None:
    copy = Table("copy", MetaData(), *(Column(c.name, c.type) for c in t.c if c.name != "id"))
    copy.append_column(Column("id", Integer, primary_key=True))
    copy.create(lake)
    with lake.begin() as connection:
        connection.execute(
            insert(copy).from_select(NAMES, select(*(t.c[name] for name in NAMES)))
        )
    start = snapshots() + 1
    with lake.begin() as connection:
        connection.execute(t.update().where(t.c.id == 1).values(name="b"))
        connection.execute(t.delete().where(t.c.id == 2))
        connection.execute(insert(t), {"id": 9, "name": "nine"})
    with lake.begin() as connection:
        raw = connection.connection.driver_connection
        assert raw is not None
        query = "SELECT * FROM lake.table_changes('t', ?, ?)"
        feed = raw.cursor().execute(query, (start, snapshots())).fetch_arrow_table()
        statement = merge(copy).changes(feed, kind="change_type", sequence="snapshot_id")
        result = merge_result(connection.execute(statement))
    assert result == MergeResult(inserted=1, updated=1, deleted=1)
    both = [select(*(each.c[name] for name in NAMES)).order_by(each.c.id) for each in (t, copy)]
    with lake.connect() as connection:
        assert connection.execute(both[0]).all() == connection.execute(both[1]).all()


def test_keys_are_deleted_once_and_missing_ones_do_not_matter(lake: Engine) -> None:
    keys = [{"id": 1}, {"id": 999}, {"id": 1}, {"id": 4}]
    assert run(lake, delete_keys(t, keys)) == MergeResult(deleted=2)
    assert [row[0] for row in everything(lake)] == [0, 2, 3]


def test_a_streaming_source_never_sits_in_memory_whole(lake: Engine) -> None:
    columns: dict[str, pa.DataType] = {"id": pa.int64(), "name": pa.string()}
    schema = pa.schema(columns)
    before, held = pa.total_allocated_bytes(), []

    def batches() -> Iterator[pa.RecordBatch]:
        for start in range(0, 800_000, 10_000):
            held.append(pa.total_allocated_bytes() - before)
            ids = list(range(start, start + 10_000))
            names = [f"{number:0100}" for number in ids]
            yield pa.RecordBatch.from_pydict({"id": ids, "name": names}, schema)

    source = pa.RecordBatchReader.from_batches(schema, batches())
    assert run(lake, upsert(t, source)).inserted == 800_000 - 5
    assert len(held) == 80
    # One is made, one is handed over, and each of two threads has one; all take 93 MB.
    assert max(held) < 5 * 1_165_000


@pytest.mark.parametrize(
    ("kinds", "result"),
    [
        (["upsert", "delete"], MergeResult()),
        (["delete"], MergeResult()),
        (["delete", "upsert"], MergeResult(inserted=1)),
        (["upsert", "delete", "upsert", "delete"], MergeResult()),
    ],
)
def test_s12_of_a_key_that_is_not_there_the_last_change_counts(
    lake: Engine, snapshots: Snapshots, kinds: list[str], result: MergeResult
) -> None:
    before = snapshots()
    feed = [{"id": 50, "name": "x", "n": 1, "kind": kind} for kind in kinds]
    assert run(lake, merge(t).changes(feed, kind="kind")) == result
    assert snapshots() == before + bool(result.written)


def test_s19_a_batch_is_read_once_and_the_target_once(lake: Engine) -> None:
    """One pass makes one change of each key; one join says what becomes of it."""
    source = pa.table({"id": [1, 1, 2], "name": ["a", "b", "c"], "n": [1, 2, 3]})
    seen: list[str] = []
    with lake.begin() as connection:
        connection.execute(upsert(t, source))  # the key is proved from here on
        driver: Any = connection.connection.driver_connection
        send = driver.send

        def noting(step: Any, *rest: Any) -> None:
            seen.append(step.query)
            send(step, *rest)

        driver.send = noting
        connection.execute(upsert(t, source.set_column(2, "n", pa.array([7, 8, 9]))))
        del driver.send
    read_batch = [text for text in seen if "_data0_" in text]
    read_target = [text for text in seen if "FROM t JOIN" in text or "JOIN t " in text]
    assert (len(read_batch), len(read_target)) == (1, 1)


def test_s24_a_slow_source_leaves_the_connection_to_others(lake: Engine) -> None:
    def reading() -> Iterator[Upsert]:
        for number in range(2500):
            if number % 1000 == 999:
                assert connection.scalar(select(func.count()).select_from(t)) == 5
            yield Upsert({"id": 1000 + number, "name": "x"})

    with lake.begin() as connection, begin_merge(connection, t) as merging:
        merging.write(reading())
    assert merging.result == MergeResult(inserted=2500)


def test_s6_a_patch_says_what_it_assigns(lake: Engine) -> None:
    row = {"id": 1, "name": "new", "n": 5, "kind": "patch"}
    feed = merge(t).changes
    with lake.connect() as connection:
        for statement, error, says in (
            (feed([row], kind="kind"), errors.UnknownChange, "'patch'"),
            (
                feed([{**row, "sets": ["nope", "n"]}], kind="kind", assigned="sets"),
                errors.UnknownColumns,
                "nope",
            ),
        ):
            with pytest.raises(exc.DBAPIError, match=says) as caught:
                connection.execute(statement)
            assert isinstance(caught.value.orig, error)
        with pytest.raises(exc.ArgumentError, match="kind="):
            feed([row], assigned="kind")
        with pytest.raises(exc.CompileError, match="nope"):
            connection.execute(patch(t, [{"id": 1, "nope": 1}]))
        with pytest.raises(exc.CompileError, match="id"):
            connection.execute(patch(t, [{"n": 1}]))
    assert run(lake, patch(t, [{"id": 1, "n": 77}, {"id": 999, "n": 1}])) == MergeResult(
        updated=1, skipped=1
    )
    assert everything(lake)[1][:3] == (1, "a1", 77)


def test_compare_and_unconditional_decide_what_counts_as_different(lake: Engine) -> None:
    rows = [{"id": 1, "name": "other", "n": 1, "kind": "plain"}]
    assert run(lake, upsert(t, rows, compare=["n"])) == MergeResult(unchanged=1)
    assert everything(lake)[1][1] == "a1"
    assert run(lake, upsert(t, rows, compare=[t.c.name])) == MergeResult(updated=1)
    assert run(lake, upsert(t, rows, unconditional=True)) == MergeResult(updated=1)
    same = merge(t, unconditional=True).using(rows).when_matched_update()
    assert run(lake, same) == MergeResult(updated=1)


@pytest.mark.parametrize(
    ("statement", "error", "says"),
    [
        (upsert(t, [{"id": 1, "name": "a", "n": 1.555}]), errors.ValueRefused, "rounded"),
        (upsert(t, pa.table({"id": [1], "n": [1.555]})), errors.ValueRefused, "rounded"),
        (upsert(t, pa.table({"id": [1], "n": [10**9]})), errors.ValueRefused, "before the"),
        (upsert(t, pa.table({"id": [2**40]})), errors.ValueRefused, "out of range"),
        (upsert(t, pa.table({"id": [1.5]})), errors.ValueRefused, "whole number"),
        (upsert(t, pa.table({"id": pa.array([None], pa.int64())})), errors.NullKey, "'id'"),
        (
            merge(t).changes(pa.table({"id": [1], "k": ["zap"]}), kind="k"),
            errors.UnknownChange,
            "zap",
        ),
        (
            upsert(t, [{"id": 1, "name": "a"}, {"id": 2}]),
            errors.ValueRefused,
            "keys of the first",
        ),
    ],
)
def test_bad_values_are_named_and_the_transaction_goes_on(
    lake: Engine, statement: Any, error: type[Exception], says: str
) -> None:
    before = everything(lake)
    with lake.begin() as connection:
        with pytest.raises(exc.DBAPIError, match=says) as caught:
            connection.execute(statement)
        assert isinstance(caught.value.orig, error)
        left = "SELECT count(*) FROM duckdb_tables() WHERE temporary"
        assert connection.scalar(text(left)) == 0
    assert everything(lake) == before


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: merge(t).when_matched_update(), "needs a source"),
        (lambda: merge(t).using(news), "needs an arm"),
        (lambda: merge(t).using(news).when_matched_update({"nope": 1}), "no column"),
        (
            lambda: merge(t).using(news, on=["name"]).when_not_matched_insert({"name": "x"}),
            "",
        ),
        (lambda: merge(t).changes(pa.table({"id": [1], "zz": [1]})), "no column"),
        (lambda: merge(t).changes(pa.table({"name": ["a"]})), "lacks"),
        (lambda: merge(heap).changes(pa.table({"a": [1]})), "no primary key"),
        (
            lambda: (
                merge(codes)
                .using(news, on=codes.c.b == news.c.id)
                .when_not_matched_insert({"b": 1})
            ),
            "no value",
        ),
    ],
)
def test_a_merge_that_says_too_little_is_refused_with_the_reason(
    lake: Engine, make: Callable[[], Any], says: str
) -> None:
    if not says:
        assert run(lake, make()).inserted == 3  # the integer key is counted up
        return
    with pytest.raises(exc.CompileError, match=says):
        run(lake, make())


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: merge(t).using(5), "FROM expression"),
        (lambda: merge(t).using(news, on="id"), "list of columns"),
        (lambda: merge(t).using(pa.table({"x": [1]})), "no column"),
        (lambda: merge(t).changes(pa.table({"id": [1]}), kind="k"), "no column"),
        (lambda: delete_keys(t, [{"id": 1, "name": "x"}]), "has the columns"),
        (lambda: delete_keys(codes, [{"a": "x"}]), "has the columns"),
    ],
)
def test_wrong_arguments_are_refused_when_the_statement_is_written(
    make: Callable[[], Any], says: str
) -> None:
    with pytest.raises(exc.ArgumentError, match=says):
        make()


def test_statements_with_other_data_share_a_place_in_the_cache() -> None:
    def key(statement: Any) -> Any:
        return statement._generate_cache_key()

    one = pa.table({"id": [1], "name": ["x"]})
    two = pa.table({"id": [2, 3], "name": ["y", "z"]})
    assert key(upsert(t, one)).key == key(upsert(t, two)).key
    assert key(upsert(t, one)).key != key(upsert(t, one, unconditional=True)).key
    assert key(upsert(t, one)).key != key(upsert(t, pa.table({"id": [1]}))).key
    assert key(upsert(t, one)).key == key(upsert(t, two, expected_base=7)).key
    assert key(upsert(t, one)).key != key(patch(t, one)).key
    assert key(delete_keys(t, [{"id": 1}])).key != key(patch(t, [{"id": 1}])).key
    feed = pa.table({"id": [1], "k": ["patch"], "s": [["id"]]})
    by_kind = merge(t).changes(feed, kind="k")
    assert key(by_kind).key != key(merge(t).changes(feed, kind="k", assigned="s")).key
    arms = merge(t).using(one).when_matched_update()
    assert key(arms).key != key(merge(t).using(one).when_matched_delete()).key


class Base(DeclarativeBase):
    pass


class Thing(Base):
    __tablename__ = "things"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str | None]


def test_mapped_classes_are_targets_and_sources(engine: Engine) -> None:
    Base.metadata.create_all(engine)
    with Session(engine) as session:
        result = session.execute(
            upsert(Thing, [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}])
        )
        assert merge_result(result) == MergeResult(inserted=2)
        thing = session.get_one(Thing, 1)
        statement = merge(Thing).using([{"id": 1, "name": "A"}]).when_matched_update()
        entity = select(Thing).from_statement(statement.returning(Thing))
        found = session.scalars(entity, execution_options={"populate_existing": True}).one()
        assert found is thing
        assert thing.name == "A"
        session.commit()


def test_a_session_gets_entities_from_every_merge_that_returns_them(engine: Engine) -> None:
    Base.metadata.create_all(engine)
    again = {"populate_existing": True}
    with Session(engine) as session:
        held = Thing(id=9, name="flushed before")
        session.add(held)
        both = upsert(Thing, [{"id": 2, "name": "b"}, {"id": 9, "name": "c"}]).returning(Thing)
        found = session.scalars(both, execution_options=again).all()
        assert [(each.id, each.name) for each in found] == [(2, "b"), (9, "c")]
        assert found[1] is held
        feed = [
            {"id": 2, "name": "-", "what": "delete"},
            {"id": 3, "name": "n", "what": "insert"},
        ]
        changed = merge(Thing).changes(feed, kind="what")
        rows = session.execute(changed.returning(merge_action(), Thing.name)).all()
        assert rows == [("DELETE", "b"), ("INSERT", "n")]
        gone = delete_keys(Thing, [{"id": 9}, {"id": 77}]).returning(Thing.id)
        assert session.scalars(gone).all() == [9]
        arms = merge(Thing).using([{"id": 3, "name": "N"}]).when_matched_update()
        assert session.scalars(arms.returning(Thing), execution_options=again).one().name == "N"
        stale = upsert(Thing, [{"id": 3, "name": "x"}], expected_base=99).returning(Thing)
        with pytest.raises(exc.DBAPIError, match="expected_base"):
            session.scalars(stale)


def test_a_merge_reads_as_sql() -> None:
    shown = str(merge(t).using(news).when_matched_update({"name": news.c.name}))
    assert "UPDATE t SET" in shown
    assert "FROM t JOIN" in shown


def row_ids(connection: Connection) -> dict[int, int]:
    return {row.id: row.rowid for row in connection.execute(text("SELECT id, rowid FROM t"))}


def test_arms_without_preserved_row_ids_leave_the_same_rows(
    engine: Engine,
) -> None:
    """Deleted and inserted rows get new ids, and the feed shows no pairs of images."""
    metadata.create_all(engine)
    old = [{"id": n, "name": f"a{n}", "n": n, "kind": None} for n in range(100)]
    new = [{"id": n, "name": "new", "n": 3, "kind": "x"} for n in range(90, 120)]
    both = {}
    for keeps in (True, False):
        with engine.begin() as connection:
            connection.execute(delete(t))
            connection.execute(insert(t), old)
        statement = merge(t, preserve_row_ids=keeps).using(new)
        statement = statement.when_matched_delete(where=statement.source.c.id == 95)
        statement = statement.when_matched_update({"name": statement.source.c.name})
        statement = statement.when_not_matched_insert()
        with engine.begin() as connection:
            before = row_ids(connection)
            result = merge_result(connection.execute(statement))
            after = row_ids(connection)
        assert result == MergeResult(inserted=20, updated=9, deleted=1)
        kept = {key for key in after if before.get(key) == after[key]}
        assert kept == set(range(100)) - {95} if keeps else kept == set(range(90))
        both[keeps] = everything(engine)
    assert both[True] == both[False]
