"""UPDATE and DELETE: many parameter sets, RETURNING, keys that move."""

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
    bindparam,
    create_engine,
    delete,
    exc,
    func,
    insert,
    select,
    update,
)

from sqlalchemy_ducklake import errors

metadata = MetaData()
t = Table(
    "t",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", String),
    Column("n", Integer),
)
other = Table("other", metadata, Column("id", Integer), Column("extra", String))
inner = Table("t", metadata, *(Column(c.name, c.type) for c in t.c), schema="inner schema")


@pytest.fixture
def lake(engine: Engine) -> Engine:
    with engine.begin() as connection:
        connection.exec_driver_sql('CREATE SCHEMA "inner schema"')
        metadata.create_all(connection)
        given = [{"id": n, "name": f"n{n}", "n": n} for n in range(1, 6)]
        connection.execute(insert(t), given)
        connection.execute(insert(inner), given)
        connection.execute(insert(other), [{"id": 2, "extra": "two"}, {"id": 3, "extra": "x"}])
    return engine


@pytest.fixture(params=["t", "inner schema.t"])
def table(request: pytest.FixtureRequest) -> Table:
    """A table with a key, and one without that needs its schema to be named."""
    return metadata.tables[request.param]


def read(engine: Engine, table: Table) -> list[Any]:
    with engine.connect() as connection:
        return list(connection.execute(select(table).order_by(table.c.id)))


def rows(engine: Engine, table: Table) -> list[Any]:
    with engine.connect() as connection:
        return list(map(tuple, connection.execute(select(table).order_by(table.c.id))))


def test_update_by_many_parameter_sets_is_one_statement_and_the_last_wins(
    lake: Engine, table: Table, snapshots: Callable[[], int]
) -> None:
    statement = (
        update(table)
        .where(table.c.id == bindparam("key"))
        .values(n=bindparam("new"), name=bindparam("called"))
    )
    sets: list[dict[str, Any]] = [
        {"key": 1, "new": 10, "called": "a"},
        {"key": 2, "new": None, "called": "b"},
        {"key": 1, "new": 11, "called": "c"},
        {"key": 99, "new": 0, "called": "d"},
    ]
    before = snapshots()
    with lake.begin() as connection:
        assert connection.execute(statement, sets).rowcount == 3
    assert snapshots() == before + 1
    assert rows(lake, table)[:3] == [(1, "c", 11), (2, "b", None), (3, "n3", 3)]


@pytest.mark.parametrize(
    "values",
    [
        lambda c: {"n": c.n + bindparam("v", type_=Integer)},
        lambda c: {"n": c.n * 2 + bindparam("v", type_=Integer), "name": c.name + "x"},
        lambda c: {"n": bindparam("v", type_=Integer)},
    ],
)
@pytest.mark.parametrize(
    "where",
    [
        lambda c: c.id == bindparam("key"),
        lambda c: c.n <= bindparam("key"),
        lambda c: (c.id == bindparam("key")) & (c.n % 2 == 0),
        lambda c: c.n == select(func.min(c.n)).where(c.id > bindparam("key")).scalar_subquery(),
    ],
)
def test_parameter_sets_act_one_after_another_as_on_sqlite(
    lake: Engine, table: Table, values: Callable[[Any], Any], where: Callable[[Any], Any]
) -> None:
    lite = create_engine("sqlite://").execution_options(
        schema_translate_map={"inner schema": None}
    )
    table.create(lite)
    with lite.begin() as connection:
        connection.execute(insert(table), [r._asdict() for r in read(lake, table)])
    sets = [{"key": k, "v": v} for k, v in [(1, 10), (2, 5), (1, 1), (4, 3), (1, 2), (9, 9)]]
    counts = []
    for engine in (lake, lite):
        with engine.begin() as connection:
            statement = update(table).where(where(table.c)).values(values(table.c))
            counts.append(connection.execute(statement, sets).rowcount)
    assert counts[0] == counts[1]
    assert read(lake, table) == read(lite, table)
    lite.dispose()


def test_delete_by_many_parameter_sets_counts_each_row_once(lake: Engine, table: Table) -> None:
    statement = delete(table).where(table.c.id == bindparam("key"))
    with lake.begin() as connection:
        sets = [{"key": 1}, {"key": 3}, {"key": 1}, {"key": 77}]
        assert connection.execute(statement, sets).rowcount == 2
    assert [row[0] for row in rows(lake, table)] == [2, 4, 5]


def test_update_and_delete_return_their_rows(lake: Engine, table: Table) -> None:
    changed = (
        update(table)
        .where(table.c.id < 3)
        .values(n=table.c.n * 10)
        .returning(table, table.c.n + 1)
    )
    gone = delete(table).where(table.c.id > 3).returning(table.c.id, func.upper(table.c.name))
    with lake.begin() as connection:
        assert sorted(connection.execute(changed).all()) == [
            (1, "n1", 10, 11),
            (2, "n2", 20, 21),
        ]
        assert sorted(connection.execute(gone).all()) == [(4, "N4"), (5, "N5")]
    assert rows(lake, table) == [(1, "n1", 10), (2, "n2", 20), (3, "n3", 3)]


def test_other_tables_take_part_and_can_be_returned(lake: Engine, table: Table) -> None:
    changed = (
        update(table)
        .where(table.c.id == other.c.id)
        .values(name=other.c.extra + "!")
        .returning(table.c.id, table.c.name, other.c.extra)
    )
    gone = delete(table).where(table.c.id == other.c.id, other.c.extra == "x")
    with lake.begin() as connection:
        assert sorted(connection.execute(changed).all()) == [
            (2, "two!", "two"),
            (3, "x!", "x"),
        ]
        assert connection.execute(gone.returning(table.c.id, other.c.extra)).all() == [(3, "x")]
        assert connection.execute(gone).rowcount == 0
    assert [row[1] for row in rows(lake, table)] == ["n1", "two!", "n4", "n5"]


def test_a_subquery_may_ask_the_changed_table(lake: Engine, table: Table) -> None:
    highest = select(func.max(table.c.n)).scalar_subquery()
    statement = update(table).where(table.c.n == highest).values(n=0).returning(table.c.id)
    with lake.begin() as connection:
        assert connection.execute(statement).all() == [(5,)]


def test_s10_a_key_may_move_but_not_onto_another(lake: Engine) -> None:
    move = update(t).where(t.c.id == bindparam("old")).values(id=bindparam("new"))
    with lake.begin() as connection:
        assert connection.execute(update(t).values(id=t.c.id + 1)).rowcount == 5
        swap = update(t).values(id=5 - t.c.id).where(t.c.id.in_([2, 3]))
        assert connection.execute(swap).rowcount == 2
        onto = {"old": 6, "new": 5}
        with pytest.raises(exc.IntegrityError) as caught:
            connection.execute(move, onto)
        assert isinstance(caught.value.orig, errors.KeyViolation)
        assert caught.value.orig.examples == ((5,),)
        assert connection.execute(move, {"old": 6, "new": 1}).rowcount == 1
    assert [row[:2] for row in rows(lake, t)] == [
        (1, "n5"),
        (2, "n2"),
        (3, "n1"),
        (4, "n3"),
        (5, "n4"),
    ]


def test_moves_that_fail_half_way_leave_nothing_but_a_rollback(lake: Engine) -> None:
    move = update(t).where(t.c.id == bindparam("old")).values(id=bindparam("new"))
    before = rows(lake, t)
    with lake.connect() as connection:
        with pytest.raises(exc.IntegrityError):
            connection.execute(move, [{"old": 5, "new": 9}, {"old": 4, "new": 9}])
        with pytest.raises(exc.OperationalError) as caught:
            connection.commit()
        assert isinstance(caught.value.orig, errors.TransactionAborted)
        connection.rollback()
        assert connection.execute(move, {"old": 5, "new": 9}).rowcount == 1
        connection.rollback()
    assert rows(lake, t) == before


def test_what_matches_nothing_makes_no_snapshot(
    lake: Engine, table: Table, snapshots: Callable[[], int]
) -> None:
    before = snapshots()
    with lake.begin() as connection:
        none = table.c.id == -1
        assert connection.execute(update(table).where(none).values(n=1)).rowcount == 0
        returned = update(table).where(none).values(n=1).returning(table.c.id)
        assert connection.execute(returned).all() == []
        assert connection.execute(delete(table).where(none).returning(table.c.id)).all() == []
    assert snapshots() == before


def test_a_row_that_several_rows_are_joined_to_is_changed_and_returned_once(
    lake: Engine, table: Table
) -> None:
    joined = table.c.id == other.c.id
    changed = update(table).where(joined).values(name=other.c.extra).returning(table.c.id)
    with lake.begin() as connection:
        connection.execute(insert(other), [{"id": 2, "extra": "two"}])
        found = connection.execute(changed)
        assert (found.rowcount, sorted(found.scalars())) == (2, [2, 3])
        found = connection.execute(delete(table).where(joined).returning(table.c.id))
        assert (found.rowcount, sorted(found.scalars())) == (2, [2, 3])


def test_waves_also_take_values_that_are_the_same_for_every_set(
    lake: Engine, table: Table
) -> None:
    wanted = update(table).where(table.c.id == bindparam("key"))
    statement = wanted.values(n=table.c.n + bindparam("by"), name=bindparam("called"))
    sets = [{"key": 1, "by": by, "called": f"c{by}"} for by in (10, 20, 30)]
    with lake.begin() as connection:
        connection.execute(statement, sets)
        connection.execute(wanted.values(n=table.c.n * 2, name="same"), [{"key": 2}] * 3)
    assert rows(lake, table)[:2] == [(1, "c30", 61), (2, "same", 16)]
