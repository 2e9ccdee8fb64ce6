"""SELECT as a lake speaks it, where that differs from other databases."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pytest
from sqlalchemy import (
    ARRAY,
    Column,
    Connection,
    Date,
    Engine,
    Float,
    Integer,
    MetaData,
    Numeric,
    String,
    Table,
    exc,
    func,
    insert,
    literal,
    select,
    union_all,
)

from sqlalchemy_ducklake.compat import SQLALCHEMY

metadata = MetaData()
scores = Table("scores", metadata, Column("name", String), Column("points", Integer))
odd = Table(
    'odd "t%" . x',
    metadata,
    Column("a % b", Integer, primary_key=True),
    Column('c."d"', String),
    Column("é" * 255, Integer),
)
many = Table("many", metadata, Column("n", Integer))


@pytest.fixture
def lake(engine: Engine) -> Engine:
    metadata.create_all(engine)
    points = {"a": 1, "b": 2, "c": 2, "d": 3, "e": 3, "f": 3, "g": 4}
    rows = [{"name": name, "points": number} for name, number in points.items()]
    with engine.begin() as connection:
        connection.execute(insert(scores), rows)
    return engine


def names(engine: Engine, query: Any) -> str:
    with engine.connect() as connection:
        return "".join(connection.execute(query).scalars())


in_order = select(scores.c.name).order_by(scores.c.points, scores.c.name)
by_points = select(scores.c.name).order_by(scores.c.points.desc())


@pytest.mark.parametrize(
    ("query", "found"),
    [
        (in_order.fetch(30, percent=True), "abc"),  # 2.1 rows are three, says the standard
        (in_order.fetch(30, percent=True).offset(2), "cde"),
        (by_points.fetch(2, with_ties=True), "gdef"),
        (by_points.fetch(1, with_ties=True).offset(1), "def"),
        (by_points.fetch(20, percent=True, with_ties=True), "gdef"),
        (by_points.where(scores.c.points == literal(9)).fetch(2, with_ties=True), ""),
    ],
)
def test_a_fetch_with_percent_or_ties_is_exact(lake: Engine, query: Any, found: str) -> None:
    assert sorted(names(lake, query)) == sorted(found)


def test_ties_are_of_groups_too(lake: Engine) -> None:
    size = func.count().label("size")
    query = select(scores.c.points, size).group_by(scores.c.points).order_by(size)
    with lake.connect() as connection:
        found = connection.execute(query.fetch(1, with_ties=True)).all()
    assert sorted(map(tuple, found)) == [(1, 1), (4, 1)]


def test_ties_of_a_union_or_of_distinct_rows_want_a_subquery(lake: Engine) -> None:
    union = union_all(select(scores.c.name), select(scores.c.name)).order_by("name")
    distinct = select(scores.c.points).distinct().order_by(scores.c.points)
    for query in (union, distinct):
        with lake.connect() as connection, pytest.raises(exc.CompileError, match="subquery"):
            connection.execute(query.fetch(1, with_ties=True))


def test_exclusive_or_is_no_power(lake: Engine) -> None:
    with lake.connect() as connection:
        query = select(literal(5).bitwise_xor(3), literal(5).bitwise_and(3))
        assert connection.execute(query).one() == (6, 1)


def test_quotients_and_means_of_exact_numbers_are_decimals(lake: Engine) -> None:
    kind = Numeric(10, 2)
    third = literal(Decimal("1.00"), kind) / literal(Decimal("3.00"), kind)
    seventh = literal(Decimal("5.52"), kind) / literal(Decimal("2.40"), kind)
    with lake.connect() as connection:
        found = connection.execute(select(third, seventh)).one()
    assert found == (Decimal("0.333333333333333"), Decimal("2.3"))


def test_a_column_takes_the_python_type_that_is_nearest(engine: Engine) -> None:
    table = Table("t", MetaData(), Column("day", Date), Column("about", Float))
    table.create(engine)
    moment, number = dt.datetime.combine(dt.date(2024, 2, 29), dt.time(23)), Decimal("1.5")
    with engine.begin() as connection:
        connection.execute(insert(table), [{"day": moment, "about": number}] * 2)
        connection.execute(insert(table), {"day": moment, "about": number})
        rows = connection.execute(select(table).distinct()).all()
    assert rows == [(dt.date(2024, 2, 29), 1.5)]


def test_names_may_have_quotes_dots_percents_and_255_letters(lake: Engine) -> None:
    row = {"a % b": 1, 'c."d"': "x", "é" * 255: 3}
    with lake.begin() as connection:
        connection.execute(insert(odd), [row, {**row, "a % b": 2}])
        connection.execute(odd.update().where(odd.c["a % b"] == 2), {'c."d"': "y"})
        returned = connection.execute(odd.delete().returning(odd), {}).all()
    assert sorted(map(tuple, returned)) == [(1, "x", 3), (2, "y", 3)]


def test_a_streamed_result_outlives_the_next_statement(lake: Engine) -> None:
    with lake.begin() as connection:
        connection.execute(insert(many).from_select(["n"], _numbers(10_000)))
    with lake.connect() as connection:
        streamed = connection.execution_options(yield_per=1000).execute(
            select(many.c.n).order_by(many.c.n)
        )
        first = next(streamed.partitions())
        assert _count(connection) == 10_000
        rest = [row.n for part in streamed.partitions() for row in part]
    assert [row.n for row in first] + rest == list(range(10_000))


def _numbers(count: int) -> Any:
    return select(func.range(count).table_valued("n").render_derived().c.n)


def _count(connection: Connection) -> Any:
    return connection.scalar(select(func.count()).select_from(many))


def test_a_data_change_inside_with_is_refused(lake: Engine) -> None:
    added = insert(many).values(n=1).returning(many.c.n).cte("added")
    with lake.connect() as connection, pytest.raises(exc.CompileError, match="INSERT inside"):
        connection.execute(select(added))


@pytest.mark.skipif(SQLALCHEMY < (2, 1), reason="it is Select.distinct(<columns>) in 2.0")
def test_distinct_on_gives_one_row_for_each_value(lake: Engine) -> None:
    from sqlalchemy.dialects.postgresql import distinct_on

    query = select(scores.c.name).order_by(scores.c.points, scores.c.name)
    assert names(lake, query.ext(distinct_on(scores.c.points))) == "abdg"


def test_elements_and_slices_of_lists_are_addressed_from_one(engine: Engine) -> None:
    lists = Table("lists", MetaData(), Column("id", Integer), Column("tags", ARRAY(String)))
    lists.create(engine)
    with engine.begin() as connection:
        connection.execute(
            lists.insert(), [{"id": 1, "tags": ["a", "b", "c"]}, {"id": 2, "tags": None}]
        )
        query = select(lists.c.tags[1], lists.c.tags[2:3]).order_by(lists.c.id)
        assert connection.execute(query).all() == [("a", ["b", "c"]), (None, None)]
        third = lists.update().where(lists.c.tags[3] == "c").values(id=9)
        assert connection.execute(third).rowcount == 1
