"""INSERT … ON CONFLICT: the staged merge on a lake."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import (
    Column,
    Engine,
    Float,
    Integer,
    MetaData,
    String,
    Table,
    UniqueConstraint,
    bindparam,
    exc,
    select,
    text,
)

from sqlalchemy_ducklake import MergeResult, errors, insert, merge_result

Snapshots = Callable[[], int]
metadata = MetaData()
stock = Table(
    "stock",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", String),
    Column("n", Integer),
    Column("code", String),
    UniqueConstraint("code", name="one_code"),
)
readings = Table(
    "readings",
    metadata,
    Column("b", String, primary_key=True),
    Column("a", String, primary_key=True),
    Column("v", Float),
)
plain = Table("plain", metadata, Column("a", Integer))

first = [{"id": 1, "name": "a", "n": 1}, {"id": 2, "name": "b", "n": 2}]


@pytest.fixture
def lake(engine: Engine) -> Engine:
    metadata.create_all(engine)
    with engine.begin() as connection:
        connection.execute(insert(stock), first)
    return engine


def upsert(engine: Engine, statement: Any, given: Any) -> MergeResult:
    with engine.begin() as connection:
        return merge_result(connection.execute(statement, given))


def everything(engine: Engine) -> list[Any]:
    with engine.connect() as connection:
        query = select(stock.c.id, stock.c.name, stock.c.n).order_by(stock.c.id)
        return list(map(tuple, connection.execute(query)))


def replacing() -> Any:
    return insert(stock).on_conflict_do_update()


def adding() -> Any:
    statement = insert(stock)
    return statement.on_conflict_do_update(set_={"n": stock.c.n + statement.excluded.n})


def test_s14_s16_new_changed_and_unchanged_rows_are_told_apart(lake: Engine) -> None:
    given = [*first[:1], {"id": 2, "name": "B", "n": 2}, {"id": 3, "name": "c", "n": None}]
    result = upsert(lake, replacing(), given)
    assert result == MergeResult(inserted=1, updated=1, unchanged=1)
    assert result.written == 2
    assert everything(lake) == [(1, "a", 1), (2, "B", 2), (3, "c", None)]


def test_a_batch_that_changes_nothing_makes_no_snapshot(
    lake: Engine, snapshots: Snapshots
) -> None:
    before = snapshots()
    assert upsert(lake, replacing(), first) == MergeResult(unchanged=2)
    ignoring = insert(stock).on_conflict_do_nothing(["id"])
    assert upsert(lake, ignoring, first) == MergeResult(skipped=2)
    assert snapshots() == before


def test_s17_an_update_keeps_its_row_id_and_pairs_images_in_the_change_feed(
    lake: Engine, snapshots: Snapshots
) -> None:
    row_ids = text("SELECT id, rowid FROM stock ORDER BY id")
    with lake.connect() as connection:
        before = list(connection.execute(row_ids).all())
    upsert(lake, replacing(), [{"id": 2, "name": "B", "n": 2}, {"id": 3, "name": "c", "n": 3}])
    with lake.connect() as connection:
        assert list(connection.execute(row_ids).all())[:2] == before
        feed = text(
            "SELECT change_type, id FROM lake.table_changes('stock', :s, :s) ORDER BY 1, 2"
        )
        changes = connection.execute(feed, {"s": snapshots()}).all()
    assert changes == [("insert", 3), ("update_postimage", 2), ("update_preimage", 2)]


def test_of_a_key_that_comes_twice_the_last_row_counts_at_the_place_of_the_first(
    lake: Engine,
) -> None:
    given = [
        {"id": 8, "name": "first", "n": 1},
        {"id": 7, "name": "x", "n": 1},
        {"id": 8, "name": "last", "n": 2},
    ]
    assert upsert(lake, replacing(), given) == MergeResult(inserted=2)
    with lake.connect() as connection:
        order = text("SELECT name FROM stock WHERE id > 2 ORDER BY rowid")
        assert connection.scalars(order).all() == ["last", "x"]


def test_s12_up_down_and_back_is_no_change(lake: Engine, snapshots: Snapshots) -> None:
    before = snapshots()
    given = [{"id": 1, "name": "a", "n": n} for n in (2, 3, 1)]
    assert upsert(lake, replacing(), given) == MergeResult(unchanged=1)
    assert snapshots() == before


def test_rows_of_one_key_see_what_the_rows_before_them_did(lake: Engine) -> None:
    given = [{"id": key, "name": "new", "n": n} for key in (1, 9) for n in (10, 100, 1000)]
    assert upsert(lake, adding(), given) == MergeResult(inserted=1, updated=1)
    assert everything(lake) == [(1, "a", 1111), (2, "b", 2), (9, "new", 1110)]


def test_a_guard_sees_the_stored_row_and_skips_what_it_refuses(lake: Engine) -> None:
    statement = insert(stock)
    larger = statement.on_conflict_do_update(
        set_={"n": statement.excluded.n}, where=stock.c.n < statement.excluded.n
    )
    given = [{"id": 1, "n": 0}, {"id": 2, "n": 5}, {"id": 2, "n": 4}, {"id": 3, "n": 1}]
    assert upsert(lake, larger, given) == MergeResult(inserted=1, updated=1, skipped=2)
    assert upsert(lake, larger, {"id": 2, "n": None}) == MergeResult(skipped=1)
    assert everything(lake) == [(1, "a", 1), (2, "b", 5), (3, None, 1)]


def test_each_parameter_set_may_assign_its_own_value(lake: Engine) -> None:
    statement = insert(stock).on_conflict_do_update(
        set_={"n": bindparam("more", type_=Integer), "name": "fixed"}
    )
    given = [{"id": 1, "n": 0, "more": 11}, {"id": 2, "n": 0, "more": 22}]
    assert upsert(lake, statement, given) == MergeResult(updated=2)
    assert everything(lake) == [(1, "fixed", 11), (2, "fixed", 22)]


def test_do_nothing_lets_the_first_row_win(lake: Engine) -> None:
    statement = insert(stock).on_conflict_do_nothing(index_elements=["id"])
    given = [{"id": 1, "name": "no"}, {"id": 5, "name": "yes"}, {"id": 5, "name": "late"}]
    assert upsert(lake, statement, given) == MergeResult(inserted=1, skipped=2)
    assert everything(lake)[2] == (5, "yes", None)


def test_returning_gives_what_was_written_but_not_what_was_skipped(lake: Engine) -> None:
    statement = adding().returning(stock.c.id, stock.c.n)
    with lake.begin() as connection:
        given = [{"id": 2, "n": 40}, {"id": 1, "n": 10}, {"id": 4, "n": 4}]
        assert connection.execute(statement, given).all() == [(2, 42), (1, 11), (4, 4)]
        ignoring = insert(stock).on_conflict_do_nothing(["id"]).returning(stock.c.id)
        assert connection.execute(ignoring, [{"id": 1}, {"id": 6}]).all() == [(6,)]


def test_a_unique_constraint_can_be_the_conflict_target(lake: Engine) -> None:
    for target in ({"constraint": "one_code"}, {"index_elements": [stock.c.code]}):
        statement = insert(stock)
        by_code = statement.on_conflict_do_update(set_={"n": statement.excluded.n}, **target)
        result = upsert(lake, by_code, [{"id": 50, "code": "x", "n": 1}])
        result = upsert(lake, by_code, [{"id": 60, "code": "x", "n": len(target) + 1}])
        assert result.inserted == 0
    assert everything(lake)[2] == (50, None, 2)


def test_another_key_than_the_conflict_target_is_still_kept(lake: Engine) -> None:
    upsert(lake, replacing(), [{"id": 1, "code": "x"}, {"id": 2, "code": "y"}])
    for given in (
        [{"id": 3, "code": "x"}],
        [{"id": 3, "code": "new"}, {"id": 4, "code": "new"}],
        [{"id": 1, "code": "y"}],
    ):
        with pytest.raises(exc.IntegrityError) as caught:
            upsert(lake, replacing(), given)
        assert isinstance(caught.value.orig, errors.KeyViolation)
        assert caught.value.orig.constraint == "one_code"
    assert len(everything(lake)) == 2


def test_nan_and_negative_zero_are_compared_as_the_engine_stores_them(lake: Engine) -> None:
    statement = insert(readings).on_conflict_do_update()
    given = [{"a": "k", "b": "1", "v": float("nan")}, {"a": "k", "b": "2", "v": 0.0}]
    assert upsert(lake, statement, given).inserted == 2
    given[1]["v"] = -0.0
    assert upsert(lake, statement, given) == MergeResult(unchanged=2)


@pytest.mark.parametrize(
    ("statement", "says"),
    [
        (insert(plain).on_conflict_do_nothing(), "declare a PrimaryKeyConstraint"),
        (insert(stock).on_conflict_do_nothing(index_elements=["name"]), "no key on"),
        (insert(stock).on_conflict_do_nothing(constraint="missing"), "'missing'"),
        (insert(stock).on_conflict_do_update(set_={"id": 5}), "delete the row"),
        (insert(stock).on_conflict_do_update(set_={"nope": 5}), "no column 'nope'"),
    ],
)
def test_what_cannot_be_is_refused_with_the_reason(
    lake: Engine, statement: Any, says: str
) -> None:
    with lake.begin() as connection, pytest.raises(exc.CompileError, match=says):
        connection.execute(statement, {"a": 1} if statement.table is plain else {"id": 1})


def test_wrong_arguments_are_refused_when_the_statement_is_written() -> None:
    with pytest.raises(exc.ArgumentError, match="list of columns"):
        insert(stock).on_conflict_do_nothing(index_elements="id")
    with pytest.raises(exc.ArgumentError, match="not both"):
        insert(stock).on_conflict_do_nothing(index_elements=["id"], constraint="pk")
    with pytest.raises(exc.ArgumentError, match="on_conflict_do_nothing"):
        insert(stock).on_conflict_do_update(set_={})


def test_statements_are_cached_by_what_they_say() -> None:
    def key(statement: Any) -> Any:
        return statement._generate_cache_key()

    assert key(adding()) == key(adding())
    assert key(adding()) != key(replacing())
    assert key(replacing()) != key(insert(stock).on_conflict_do_nothing())
    assert key(insert(stock).on_conflict_do_nothing()) != key(
        insert(stock).on_conflict_do_nothing(constraint="one_code")
    )


def test_the_result_of_another_statement_has_no_merge_result(lake: Engine) -> None:
    with lake.connect() as connection:
        result = connection.execute(select(stock))
        with pytest.raises(exc.InvalidRequestError, match="no merge result"):
            merge_result(result)


def test_columns_whose_keys_differ_from_their_names_are_found(engine: Engine) -> None:
    table = Table(
        "odd",
        MetaData(),
        Column("the id", Integer, primary_key=True, key="id"),
        Column("a number", Integer, key="n"),
        Column("other", Integer, unique=True, key="o"),
    )
    table.create(engine)
    statement = insert(table)
    added = statement.on_conflict_do_update(set_={"n": table.c.n + statement.excluded.n})
    upsert(engine, insert(table).on_conflict_do_update(), [{"id": 1, "n": 1, "o": 1}])
    twice = [{"id": 1, "n": 10, "o": 1}, {"id": 1, "n": 100, "o": 1}]
    assert upsert(engine, added, twice).updated == 1
    assert upsert(engine, added, [{"id": 1, "n": 1000, "o": 2}]).updated == 1
    with engine.connect() as connection:
        assert connection.execute(select(table)).all() == [(1, 1111, 1)]
