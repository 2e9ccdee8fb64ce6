"""Columns that get their values by themselves: counted up, or computed from their row."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import (
    BigInteger,
    Column,
    Computed,
    Engine,
    FetchedValue,
    Identity,
    Integer,
    MetaData,
    SmallInteger,
    String,
    Table,
    bindparam,
    exc,
    inspect,
    literal,
    select,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from sqlalchemy_ducklake import errors, insert, merge
from sqlalchemy_ducklake.dialect import types

metadata = MetaData()
square = Table(
    "square",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("side", Integer),
    Column("area", Integer, Computed("side * side")),
    Column("what", String, Computed("'no ' || id")),
)


class Base(DeclarativeBase):
    pass


class Box(Base):
    __tablename__ = "box"
    id: Mapped[int] = mapped_column(primary_key=True)
    side: Mapped[int]
    volume: Mapped[int] = mapped_column(Computed("side * side * side"))


@pytest.fixture
def lake(engine: Engine) -> Engine:
    metadata.create_all(engine)
    with engine.begin() as connection:
        connection.execute(insert(square), [{"side": 2}, {"side": 3}])
    return engine


def rows(engine: Engine) -> list[tuple[Any, ...]]:
    with engine.connect() as connection:
        return [tuple(row) for row in connection.execute(select(square).order_by(square.c.id))]


def test_an_insert_computes_and_returns_what_it_computed(lake: Engine) -> None:
    with lake.begin() as connection:
        given = insert(square).values(side=4).returning(square.c.area, square.c.what)
        assert connection.execute(given).all() == [(16, "no 3")]
    assert rows(lake) == [(1, 2, 4, "no 1"), (2, 3, 9, "no 2"), (3, 4, 16, "no 3")]


def test_an_update_computes_again_and_returns_that(lake: Engine) -> None:
    with lake.begin() as connection:
        connection.execute(square.update().where(square.c.id == 1).values(side=5))
        both = square.update().values(side=square.c.side + 1).returning(square.c.area)
        assert sorted(connection.execute(both).scalars()) == [16, 36]
        many = square.update().where(square.c.id == bindparam("i")).values(side=bindparam("s"))
        connection.execute(many, [{"i": 1, "s": 7}, {"i": 2, "s": 8}, {"i": 1, "s": 9}])
    assert rows(lake) == [(1, 9, 81, "no 1"), (2, 8, 64, "no 2")]


def test_upserts_and_merges_compute_again(lake: Engine) -> None:
    statement = insert(square)
    adding = statement.on_conflict_do_update(
        set_={"side": square.c.side + statement.excluded.side}
    )
    source = select(square.c.id, (square.c.side + 1).label("side")).subquery("source")
    with lake.begin() as connection:
        connection.execute(adding, [{"id": 1, "side": 10}, {"id": 5, "side": 1}])
        connection.execute(
            merge(square)
            .using(source, on=square.c.id == source.c.id)
            .when_matched_update(set_={"side": source.c.side})
        )
    assert rows(lake) == [(1, 13, 169, "no 1"), (2, 4, 16, "no 2"), (5, 2, 4, "no 5")]


def test_a_value_for_a_computed_column_is_refused(lake: Engine) -> None:
    with lake.connect() as connection, pytest.raises(exc.CompileError, match="is computed"):
        connection.execute(insert(square), {"side": 1, "area": 5})


def test_a_computed_column_is_reflected(lake: Engine) -> None:
    columns = {column["name"]: column for column in inspect(lake).get_columns("square")}
    assert columns["area"]["computed"] == {"sqltext": "side * side", "persisted": True}
    assert "computed" not in columns["side"]


def test_the_orm_sees_what_was_computed(engine: Engine) -> None:
    Base.metadata.create_all(engine)
    with Session(engine) as session:
        box = Box(side=2)
        session.add(box)
        session.flush()
        assert box.volume == 8
        box.side = 3
        session.flush()
        assert box.volume == 27


def numbers(engine: Engine, identity: Identity, *sets: dict[str, Any]) -> list[int]:
    table = Table("t", MetaData(), Column("id", Integer, identity), Column("v", Integer))
    table.create(engine)
    with engine.begin() as connection:
        for one in sets:
            connection.execute(insert(table), [one, one])
        return list(connection.execute(select(table.c.id)).scalars())


def test_an_identity_counts_as_it_was_told(engine: Engine) -> None:
    assert numbers(engine, Identity(start=42, increment=2), {"v": 1}, {"v": 1}) == [
        *(42, 44, 46, 48)
    ]


def test_an_identity_may_count_down(engine: Engine) -> None:
    assert numbers(engine, Identity(start=0, increment=-5), {"v": 1}, {"v": 1}) == [
        *(0, -5, -10, -15)
    ]


def test_an_identity_that_is_always_made_takes_no_value(engine: Engine) -> None:
    with pytest.raises(exc.ProgrammingError, match="takes no value, not 9") as caught:
        numbers(engine, Identity(always=True), {"id": 9, "v": 1})
    assert isinstance(caught.value.orig, errors.GeneratedAlways)


@pytest.mark.parametrize(
    ("kind", "identity", "last", "following", "expected"),
    [
        (Integer(), None, 2**31 - 1, 2**31, "INTEGER"),
        (BigInteger(), None, 2**63 - 1, 2**63, "BIGINT"),
        (types.UTINYINT(), None, 255, 256, "UTINYINT"),
        (SmallInteger(), Identity(increment=-7), -(2**15), -(2**15) - 7, "SMALLINT"),
        (Integer(), Identity(maxvalue=9), 9, 10, "9"),
        (Integer(), Identity(increment=-1, minvalue=-3, start=3), -3, -4, "-3"),
    ],
)
def test_numbers_that_are_used_up_are_told_before_anything_is_written(
    engine: Engine, kind: Any, identity: Any, last: int, following: int, expected: str
) -> None:
    extra = [identity] if identity is not None else []
    table = Table("full", MetaData(), Column("id", kind, *extra, primary_key=True))
    table.append_column(Column("v", Integer))
    table.create(engine)
    roads: list[Any] = [
        (insert(table), {"v": 1}),
        (insert(table).returning(table.c.id), [{"v": 1}, {"v": 2}]),
        (insert(table).from_select(["v"], select(literal(1))), None),
        (insert(table).on_conflict_do_nothing(), [{"v": 1}, {"v": 2}]),
    ]
    with engine.begin() as connection:
        connection.execute(insert(table), {"id": last, "v": 0})
        for statement, values in roads:
            with pytest.raises(exc.DataError) as caught:
                connection.execute(statement, values)
            error: Any = caught.value.orig
            assert isinstance(error, errors.NumbersExhausted)
            assert (error.table, error.column) == ("full", "id")
            assert (error.found, error.expected) == (following, expected)
        assert connection.execute(select(table)).all() == [(last, 0)]


def test_a_table_that_returns_nothing_still_tells_its_last_number(engine: Engine) -> None:
    table = Table(
        "quiet",
        MetaData(),
        Column("id", Integer, primary_key=True),
        Column("v", Integer),
        implicit_returning=False,
    )
    table.create(engine)
    with engine.begin() as connection:
        for number in (1, 2):
            result = connection.execute(insert(table), {"v": 5})
            assert (result.lastrowid, result.inserted_primary_key) == (number, (number,))


def test_a_delete_that_asks_for_defaults_of_nothing_deletes(lake: Engine) -> None:
    with lake.begin() as connection:
        statement = square.delete().where(square.c.id == 1).return_defaults()
        assert connection.execute(statement).rowcount == 1
    assert [row[0] for row in rows(lake)] == [2]


def test_a_default_that_only_the_lake_knows_is_returned(engine: Engine) -> None:
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE known (id INTEGER, a VARCHAR DEFAULT 'lake')")
        table = Table(
            "known",
            MetaData(),
            Column("id", Integer, primary_key=True),
            Column("a", String, FetchedValue()),
        )
        many = insert(table).returning(table.c.id, table.c.a)
        assert connection.execute(many, [{}, {}]).all() == [(1, "lake"), (2, "lake")]
        assert connection.execute(many, {"a": "own"}).all() == [(3, "own")]

    class Known(DeclarativeBase):
        pass

    Known.registry.map_imperatively(type("Row", (), {}), table)
    row: Any = next(iter(Known.registry.mappers)).class_()
    with Session(engine) as session:
        session.add(row)
        session.flush()
        assert (row.id, row.a) == (4, "lake")
