"""What DuckDB's SELECT has and SQLAlchemy's has not, in Core and in the ORM."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import (
    Column,
    Connection,
    Integer,
    MetaData,
    String,
    Table,
    column,
    create_engine,
    exc,
    func,
    insert,
    literal,
    select,
    text,
    try_cast,
    union_all,
    update,
)
from sqlalchemy.orm import Session, aliased, registry

from sqlalchemy_ducklake import argument, asof_join, explain, qualify, star

metadata = MetaData()
prices = Table(
    "prices",
    metadata,
    Column("sku", String, primary_key=True),
    Column("day", Integer, primary_key=True),
    Column("cents", Integer),
)
sales = Table("sales", metadata, Column("sku", String), Column("day", Integer))
PRICES = [("a", 1, 100), ("a", 5, 120), ("b", 2, 50), ("b", 3, 40), ("b", 9, 30)]
SALES = [("a", 3), ("a", 7), ("b", 1), ("b", 3)]
p, s = prices.c, sales.c


class Price:
    """A price from a day on."""


registry(metadata=metadata).map_imperatively(Price, prices)


@pytest.fixture(scope="module")
def connection() -> Iterator[Connection]:
    engine = create_engine("ducklake://")
    metadata.create_all(engine)
    with engine.begin() as connection:
        connection.execute(insert(prices).values(PRICES))
        connection.execute(insert(sales).values(SALES))
        yield connection
    engine.dispose()


newest = func.row_number().over(partition_by=p.sku, order_by=p.day.desc())
several = func.count().over(partition_by=p.sku)
per_sku = select(p.sku, func.count().label("n")).group_by(p.sku)


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        (select(prices).having(qualify(newest == 1)), [("a", 5, 120), ("b", 9, 30)]),
        (select(p.sku).having(qualify(newest == 1)).order_by(p.sku.desc()), [("b",), ("a",)]),
        (select(p.sku).having(qualify(newest == 1)).order_by(p.sku).limit(1), [("a",)]),
        (select(p.sku).having(qualify(newest == 1)).limit(9), [("a",), ("b",)]),
        (
            select(p.cents).having(qualify(newest == 1)).having(qualify(several > 2)),
            [(30,)],
        ),
        (
            per_sku.having(func.count() > 1).having(
                qualify(func.rank().over(order_by=func.count().desc()) == 1)
            ),
            [("b", 3)],
        ),
        (
            select(p.day)
            .having(qualify(newest <= 2))
            .order_by(p.cents)
            .fetch(2, with_ties=True),
            [(3,), (9,)],
        ),
        (
            select(
                select(p.cents).having(qualify(newest == 1)).subquery().c.cents + literal(1)
            ),
            [(121,), (31,)],
        ),
    ],
)
def test_qualify_chooses_by_windows(connection: Connection, query: Any, rows: Any) -> None:
    assert sorted(map(tuple, connection.execute(query))) == sorted(rows) or (
        connection.execute(query).all() == rows
    )


def test_qualify_is_for_entities_too(connection: Connection) -> None:
    mine: Any = aliased(Price)
    place = func.row_number().over(partition_by=mine.sku, order_by=mine.day.desc())
    query = select(mine).having(qualify(place == 1)).order_by(mine.sku)
    with Session(connection) as session:
        assert [price.cents for price in session.scalars(query)] == [120, 30]


def test_an_asof_join_finds_the_nearest_row(connection: Connection) -> None:
    condition = (s.sku == p.sku) & (s.day >= p.day)
    query = select(s.sku, s.day, p.cents).order_by(s.sku, s.day)
    inner = query.select_from(asof_join(sales, prices, condition))
    outer = query.select_from(asof_join(sales, prices, condition, isouter=True))
    known = [("a", 3, 100), ("a", 7, 120), ("b", 3, 40)]
    assert connection.execute(inner).all() == known
    assert connection.execute(outer).all() == sorted([*known, ("b", 1, None)])
    mine: Any = aliased(Price)
    entities = select(mine).select_from(
        asof_join(sales, mine, (s.sku == mine.sku) & (s.day >= mine.day))
    )
    with Session(connection) as session:
        assert {price.cents for price in session.scalars(entities)} == {100, 120, 40}


def test_a_star_leaves_columns_out_and_replaces_others(connection: Connection) -> None:
    query = select(star(prices, exclude=["day"], replace={p.cents: p.cents / 100.0}))
    row = connection.execute(query.where(p.day == 1)).mappings().one()
    assert dict(row) == {"sku": "a", "cents": 1}
    mine = prices.alias("mine")
    both = select(star(mine, exclude=[p.sku, p.day]), star(sales)).where(mine.c.sku == s.sku)
    assert set(connection.execute(both).keys()) == {"cents", "sku", "day"}
    with Session(connection) as session:
        assert session.execute(select(star(Price, exclude=["cents"]))).all()[0] == ("a", 1)


def test_equal_forms_share_a_plan_and_others_do_not() -> None:
    def key(query: Any) -> Any:
        return query._generate_cache_key().key

    def of(days: int) -> Any:
        return select(p.sku).having(qualify(newest == days))

    assert key(of(1)) == key(of(2))
    assert key(select(star(prices, exclude=["a"]))) != key(select(star(prices, exclude=["b"])))
    joined = [
        asof_join(sales, prices, s.day >= p.day, isouter=outer) for outer in (True, False)
    ]
    assert key(select(p.sku).select_from(joined[0])) != key(
        select(p.sku).select_from(joined[1])
    )
    plain = sales.join(prices, s.day >= p.day)
    assert key(select(p.sku).select_from(joined[1])) != key(select(p.sku).select_from(plain))
    assert key(explain(of(1))) == key(explain(of(2))) != key(explain(of(1), analyze=True))
    assert key(select(argument("a", p.sku))) != key(select(argument("b", p.sku)))
    assert key(select(prices.tablesample(10))) == key(select(prices.tablesample(20)))


@pytest.mark.parametrize(
    ("sampling", "fewest", "most"),
    [(100, 5, 5), (func.bernoulli(100), 5, 5), (func.reservoir(2), 2, 2), (0, 0, 0)],
)
def test_a_sample_is_taken(
    connection: Connection, sampling: Any, fewest: int, most: int
) -> None:
    sample = prices.tablesample(sampling, seed=literal(7))
    for _ in range(2):
        count = connection.scalar(select(func.count()).select_from(sample))
        assert fewest <= (count or 0) <= most
    compiled = select(sample.c.sku).compile(connection)
    assert "TABLESAMPLE" in str(compiled)


def test_a_pivot_is_text_with_columns(connection: Connection) -> None:
    pivot = text("PIVOT prices ON sku USING max(cents) GROUP BY day ORDER BY day").columns(
        day=Integer, a=Integer, b=Integer
    )
    assert connection.execute(pivot).first() == (1, 100, None)


def test_files_are_read_by_functions(connection: Connection, tmp_path: Path) -> None:
    csv, parquet = str(tmp_path / "it's.csv"), str(tmp_path / "a.parquet")
    quoted = csv.replace("'", "''")
    connection.exec_driver_sql(f"COPY prices TO '{quoted}' (DELIM ';', HEADER)")
    connection.exec_driver_sql(f"COPY prices TO '{parquet}'")
    columns = (column("sku", String), column("cents", Integer))
    for function in (
        func.read_csv(csv, argument("delim", ";"), argument("header", True)),
        func.read_parquet(parquet),
        func.read_parquet([parquet], argument("union_by_name", True)),
    ):
        rows = function.table_valued(*columns, name="rows")
        found = connection.execute(
            select(rows.c.sku, func.sum(rows.c.cents)).group_by(rows.c.sku)
        )
        assert sorted(map(tuple, found)) == [("a", 220), ("b", 120)]


def test_functions_of_lists_and_structs_are_called_by_name(connection: Connection) -> None:
    packed = func.struct_pack(argument("a", p.sku), argument("b c", p.day + 1))
    more = func.list_transform(func.list(p.day), text("lambda x : x + 1"))
    found = connection.execute(select(packed).order_by(p.sku, p.day)).scalars().first()
    assert found == {"a": "a", "b c": 2}
    assert sorted(connection.scalar(select(more).where(p.sku == "a")) or []) == [2, 6]
    assert connection.scalar(select(func.list_contains(func.list(p.sku), "b"))) is True


def test_a_cast_may_fail_to_null(connection: Connection) -> None:
    casts = [try_cast(literal(each), Integer) for each in ("17", "seventeen")]
    assert connection.execute(select(*casts)).one() == (17, None)


def test_a_plan_is_explained(connection: Connection) -> None:
    query = select(p.sku).where(p.day > 3)
    for asked in (
        explain(query),
        explain(query, analyze=True),
        explain(union_all(query, query)),
    ):
        row = connection.execute(asked).mappings().first()
        assert row is not None
        assert list(row) == ["explain_key", "explain_value"]
        assert "prices" in row["explain_value"]
    with Session(connection) as session:
        assert "prices" in session.execute(explain(select(Price))).all()[0].explain_value
    with pytest.raises(exc.ArgumentError, match="takes a SELECT, not Update"):
        explain(update(prices))
