"""Values of each type, found by hypothesis, come back as they went, by every road."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import (
    URL,
    Column,
    Connection,
    Engine,
    Integer,
    MetaData,
    Table,
    create_engine,
    delete,
    insert,
    inspect,
    select,
    types,
)

from sqlalchemy_ducklake import upsert
from sqlalchemy_ducklake.dialect import types as lake


def whole(bits: int, *, signed: bool = True) -> st.SearchStrategy[int]:
    least = -(1 << bits - 1) if signed else 0
    return st.integers(least, least + (1 << bits) - 1)


def moments(unit: int = 1) -> st.SearchStrategy[dt.datetime]:
    """Give times without a zone, to so many microseconds."""
    # The engine keeps its infinities at the ends, and nanoseconds reach from 1678 to 2261.
    found = st.datetimes(dt.datetime(1678, 1, 1), dt.datetime(2261, 1, 1))  # noqa: DTZ001
    return found.map(
        lambda at: at.replace(microsecond=at.microsecond // unit * unit % 1_000_000)
    )


texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)
exact = st.decimals(-(10**8), 10**8, places=2).filter(lambda one: abs(one) < 10**8)
doubles = st.floats(allow_nan=False)
jsons = st.recursive(
    st.none() | st.booleans() | whole(53) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=5,
).filter(lambda value: value is not None)
zones = st.sampled_from([dt.UTC, dt.timezone(dt.timedelta(hours=-7, minutes=-30))])
spans = st.timedeltas(dt.timedelta(0), dt.timedelta(days=20_000)).map(
    lambda span: span - dt.timedelta(microseconds=span.microseconds % 1000)
)
aware = st.datetimes(dt.datetime(2, 1, 1), dt.datetime(9998, 1, 1), timezones=zones)  # noqa: DTZ001
fields = st.fixed_dictionaries({"a": st.none() | whole(32), "b c": st.none() | exact})

TYPES: list[tuple[Any, st.SearchStrategy[Any]]] = [
    (types.Boolean(), st.booleans()),
    (lake.TINYINT(), whole(8)),
    (types.SmallInteger(), whole(16)),
    (types.Integer(), whole(32)),
    (types.BigInteger(), whole(64)),
    (lake.UTINYINT(), whole(8, signed=False)),
    (lake.USMALLINT(), whole(16, signed=False)),
    (lake.UINTEGER(), whole(32, signed=False)),
    (lake.UBIGINT(), whole(64, signed=False)),
    (lake.HUGEINT(), st.integers(1 - 10**38, 10**38 - 1)),
    (lake.UHUGEINT(), st.integers(0, 10**38 - 1)),
    (types.Numeric(10, 2), exact),
    (types.Numeric(38, 9), exact.map(lambda one: one + Decimal("1e-9"))),
    (types.REAL(), st.floats(width=32, allow_nan=False)),
    (types.Double(), doubles),
    (types.String(), texts),
    (types.LargeBinary(), st.binary(max_size=20)),
    (types.Date(), st.dates(dt.date(1, 1, 2), dt.date(9999, 12, 30))),
    (types.Time(), st.times()),
    (types.Time(timezone=True), st.times(timezones=st.just(dt.UTC))),
    (types.DateTime(), moments()),
    (lake.TIMESTAMP_S(), moments(1_000_000)),
    (lake.TIMESTAMP_MS(), moments(1000)),
    (lake.TIMESTAMP_NS(), moments()),
    (types.DateTime(timezone=True), aware),
    (types.Interval(), spans),
    (types.Uuid(), st.uuids()),
    (types.JSON(), jsons),
    (types.Enum("a", "b'", name="letters"), st.sampled_from(["a", "b'"])),
    (types.PickleType(), st.tuples(whole(32), texts)),
    (types.ARRAY(types.Integer), st.lists(st.none() | whole(32), max_size=3)),
    (types.ARRAY(types.String), st.lists(st.none() | texts, max_size=3)),
    (lake.STRUCT({"a": types.Integer, "b c": types.Numeric(10, 2)}), fields),
    (lake.MAP(types.String, types.Double), st.dictionaries(texts, doubles, max_size=3)),
]


def same(one: Any, other: Any) -> bool:
    """Tell whether two values are equal; 0.0 and -0.0 are not."""
    if isinstance(one, float) and isinstance(other, float):
        return one == other and math.copysign(1, one) == math.copysign(1, other)
    return bool(one == other)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    database = str(tmp_path_factory.mktemp("trips") / "trips.ducklake")
    options = {"data_inlining_row_limit": "0"}  # so that all rows are in Parquet files
    engine = create_engine(URL.create("ducklake", database=database, query=options))
    yield engine
    engine.dispose()


def by_parameter(connection: Connection, table: Table, values: list[Any]) -> None:
    for place, value in enumerate(values):
        connection.execute(insert(table), {"n": place, "v": value})


def by_literal(connection: Connection, table: Table, values: list[Any]) -> None:
    for place, value in enumerate(values):
        statement = insert(table).values(n=place, v=value)
        text = statement.compile(connection, compile_kwargs={"literal_binds": True})
        connection.exec_driver_sql(str(text))


def by_many(connection: Connection, table: Table, values: list[Any]) -> None:
    rows = [{"n": place, "v": value} for place, value in enumerate(values)]
    connection.execute(insert(table), [{"n": -1, "v": None}, *rows])


def by_merge(connection: Connection, table: Table, values: list[Any]) -> None:
    rows = [{"n": place, "v": value} for place, value in enumerate(values)]
    connection.execute(upsert(table, [*rows, {"n": -1, "v": None}]))
    connection.execute(upsert(table, rows))


def by_arrow(connection: Connection, table: Table, values: list[Any]) -> None:
    by_many(connection, table, values)
    own: Any = connection.connection.driver_connection
    name = table.name
    read: pa.Table = own.cursor().execute(f"SELECT * FROM {name}").fetch_arrow_table()
    connection.execute(delete(table))
    connection.execute(upsert(table, read))


ROADS = [by_parameter, by_literal, by_many, by_merge, by_arrow]


@pytest.mark.parametrize("road", ROADS, ids=lambda road: road.__name__)
@pytest.mark.parametrize(("kind", "given_values"), TYPES, ids=lambda value: repr(value)[:40])
def test_values_come_back_as_they_went(
    engine: Engine,
    kind: Any,
    given_values: st.SearchStrategy[Any],
    road: Callable[[Connection, Table, list[Any]], None],
) -> None:
    table = Table(
        "trip",
        MetaData(),
        Column("n", Integer, primary_key=True, autoincrement=False),
        Column("v", kind),
    )

    @settings(
        max_examples=3, database=None, suppress_health_check=list(HealthCheck), derandomize=True
    )
    @given(values=st.lists(given_values, min_size=1, max_size=4))
    def travel(values: list[Any]) -> None:
        with engine.connect() as connection:
            table.create(connection)
            road(connection, table, values)
            query = select(table.c.v).where(table.c.n >= 0).order_by(table.c.n)
            found = list(connection.scalars(query))
            connection.rollback()
        assert len(found) == len(values)
        assert all(map(same, found, values)), (values, found)

    # SQLAlchemy writes no literal of what is pickled.
    if not (road is by_literal and isinstance(kind, types.PickleType)):
        travel()


@pytest.mark.parametrize("kind", [kind for kind, _ in TYPES], ids=repr)
def test_a_reflected_type_makes_the_same_column_again(engine: Engine, kind: Any) -> None:
    with engine.connect() as connection:
        Table("first", MetaData(), Column("v", kind)).create(connection)
        first = inspect(connection).get_columns("first")[0]["type"]
        Table("second", MetaData(), Column("v", first)).create(connection)
        second = inspect(connection).get_columns("second")[0]["type"]
        assert repr(first) == repr(second)
        connection.rollback()
