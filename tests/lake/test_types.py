"""Every type on a real lake: what goes in comes out, by each road."""

import datetime as dt
import math
import uuid
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
from sqlalchemy import (
    URL,
    Column,
    Engine,
    Integer,
    MetaData,
    Table,
    cast,
    create_engine,
    exc,
    func,
    insert,
    inspect,
    literal,
    select,
    types,
)

from sqlalchemy_ducklake.dialect import types as lake

TWO_HOURS = dt.timezone(dt.timedelta(hours=2))
POINT = bytes.fromhex("0101000000000000000000F03F0000000000000040")
UUID = uuid.UUID("12345678-9abc-def0-1234-56789abcdef0")

ROUND_TRIPS: list[tuple[Any, list[Any]]] = [
    (types.Boolean(), [True, False]),
    (lake.TINYINT(), [-128, 127]),
    (types.SmallInteger(), [-(2**15), 2**15 - 1]),
    (types.Integer(), [-(2**31), 2**31 - 1]),
    (types.BigInteger(), [-(2**63), 2**63 - 1]),
    (lake.UTINYINT(), [0, 255]),
    (lake.USMALLINT(), [65535]),
    (lake.UINTEGER(), [2**32 - 1]),
    (lake.UBIGINT(), [2**64 - 1]),
    (lake.HUGEINT(), [10**38 - 1, 1 - 10**38, 2**53 + 1]),
    (lake.UHUGEINT(), [10**38 - 1]),
    (types.Numeric(), [Decimal("1.000000001"), Decimal("9" * 29 + ".999999999")]),
    (types.Numeric(38, 0), [Decimal(10**38 - 1)]),
    (types.Numeric(10, 2), [Decimal("1E+5"), Decimal("-0.01"), Decimal("12345678.90")]),
    (types.Numeric(10, 2, asdecimal=False), [1.25]),
    (types.Float(), [1e-300, 0.1, math.inf, -math.inf, 1.7976931348623157e308]),
    (types.Float(asdecimal=True), [Decimal("1.5000000000")]),
    (types.REAL(), [1.5]),
    (types.String(), ["", "é😀", "it's", "100 %", "a:b", "NULL"]),
    (types.Text(), ["x" * 100_000]),
    (types.LargeBinary(), [b"", bytes(range(256))]),
    (types.Date(), [dt.date(1, 1, 1), dt.date(9999, 12, 30)]),
    (types.Time(), [dt.time(0), dt.time(23, 59, 59, 999999)]),
    (types.DateTime(), [dt.datetime(2020, 2, 29, 1, 2, 3, 456789)]),  # noqa: DTZ001
    (lake.TIMESTAMP_S(), [dt.datetime(2020, 2, 29, 1, 2, 3)]),  # noqa: DTZ001
    (lake.TIMESTAMP_MS(), [dt.datetime(2020, 2, 29, 1, 2, 3, 456000)]),  # noqa: DTZ001
    (lake.TIMESTAMP_NS(), [dt.datetime(2020, 2, 29, 1, 2, 3, 456789)]),  # noqa: DTZ001
    (types.DateTime(timezone=True), [dt.datetime(2020, 2, 29, 1, 2, tzinfo=TWO_HOURS)]),
    (types.Time(timezone=True), [dt.time(12, 34, tzinfo=TWO_HOURS)]),
    (types.Interval(), [dt.timedelta(days=400, seconds=3, milliseconds=5), dt.timedelta(0)]),
    (types.Uuid(), [UUID]),
    (types.Uuid(as_uuid=False), [str(UUID)]),
    (types.Uuid(native_uuid=False), [UUID]),
    (types.JSON(), [{"a": [1, None, "x'\""]}, [1.5], "text", 5]),
    (types.Enum("a", "b"), ["a", "b"]),
    (types.ARRAY(types.Integer), [[], [1, None, 3]]),
    (types.ARRAY(types.Integer, dimensions=2), [[[1], []]]),
    (types.ARRAY(types.Numeric(5, 2)), [[Decimal("1E+2"), Decimal("1.25")]]),
    (types.ARRAY(types.JSON), [[{"a": 1}]]),
    (types.ARRAY(types.Uuid), [[UUID]]),
    (
        lake.STRUCT({"a": types.Integer, "b c": types.ARRAY(types.Uuid)}),
        [{"a": 1, "b c": [UUID]}],
    ),
    (lake.MAP(types.String, types.Integer), [{"a": 1, "A": 2}, {}]),
    (lake.MAP(types.String, types.ARRAY(types.Integer)), [{"key": [1], "value": [2]}]),
    (lake.MAP(types.Date, types.JSON), [{dt.date(2020, 1, 1): {"a": 1}}]),
    (types.ARRAY(lake.MAP(types.String, types.Integer)), [[{"a": 1}]]),
    (lake.GEOMETRY(), [POINT]),
]

# JSON is equal to the engine if its text is, and equality of floats is not exact.
COMPARABLE = [case for case in ROUND_TRIPS if not isinstance(case[0], types.JSON | types.Float)]


def cases(those: Any) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        ("kind", "values"),
        those,
        ids=[f"{number}-{kind!r}" for number, (kind, _) in enumerate(those)],
    )


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """One lake for all types, with every row in a Parquet file."""
    database = str(tmp_path_factory.mktemp("lake") / "types.ducklake")
    engine = create_engine(
        URL.create("ducklake", database=database, query={"data_inlining_row_limit": "0"})
    )
    yield engine
    engine.dispose()


@pytest.fixture(autouse=True)
def _empty_lake(engine: Engine) -> Iterator[None]:
    yield
    with engine.begin() as connection:
        for name in inspect(connection).get_table_names():
            Table(name, MetaData()).drop(connection)


def table_of(kind: Any) -> Table:
    return Table("t", MetaData(), Column("n", Integer), Column("v", kind))


def stored(connection: Any, table: Table) -> list[Any]:
    return [row.v for row in connection.execute(select(table.c.v).order_by(table.c.n))]


@cases(ROUND_TRIPS)
def test_one_value_comes_back_as_it_went(engine: Engine, kind: Any, values: list[Any]) -> None:
    table = table_of(kind)
    with engine.begin() as connection:
        table.create(connection)
        for place, value in enumerate([*values, None]):
            connection.execute(insert(table), {"n": place, "v": value})
        found = stored(connection, table)
    assert found == [*values, None]
    assert [type(one) for one in found[:-1]] == [type(one) for one in values]


@cases(ROUND_TRIPS)
def test_s75_many_values_come_back_as_they_went(
    engine: Engine, kind: Any, values: list[Any]
) -> None:
    table = table_of(kind)
    rows = [{"n": place, "v": value} for place, value in enumerate([None, *values])]
    with engine.begin() as connection:
        table.create(connection)
        connection.execute(insert(table), rows)
    with engine.connect() as connection:
        assert stored(connection, table) == [None, *values]


@cases(ROUND_TRIPS)
def test_a_literal_comes_back_as_it_went(engine: Engine, kind: Any, values: list[Any]) -> None:
    table = table_of(kind)
    with engine.begin() as connection:
        table.create(connection)
        for place, value in enumerate(values):
            statement = insert(table).values(n=place, v=value)
            compiled = statement.compile(engine, compile_kwargs={"literal_binds": True})
            connection.exec_driver_sql(str(compiled))
        assert stored(connection, table) == values


@cases(COMPARABLE)
def test_a_value_is_equal_to_what_is_stored(
    engine: Engine, kind: Any, values: list[Any]
) -> None:
    table = table_of(kind)
    with engine.begin() as connection:
        table.create(connection)
        connection.execute(insert(table), [{"n": n, "v": v} for n, v in enumerate(values)])
        for value in values:
            equal = select(func.count()).select_from(table).where(table.c.v == value)
            assert connection.scalar(equal) == 1


@cases(ROUND_TRIPS)
def test_a_reflected_type_creates_the_same_type_again(
    engine: Engine, kind: Any, values: list[Any]
) -> None:
    table_of(kind).create(engine)
    first = inspect(engine).get_columns("t")[1]["type"]
    Table("again", MetaData(), Column("v", first)).create(engine)
    second = inspect(engine).get_columns("again")[0]["type"]
    assert repr(first) == repr(second)
    assert not isinstance(first, types.NullType)


def test_a_float_that_is_no_number_comes_back(engine: Engine) -> None:
    table = table_of(types.Float())
    with engine.begin() as connection:
        table.create(connection)
        connection.execute(insert(table), {"n": 1, "v": math.nan})
        connection.execute(insert(table), [{"n": 2, "v": math.nan}, {"n": 3, "v": 1.0}])
        found = stored(connection, table)
    assert math.isnan(found[0])
    assert math.isnan(found[1])


@pytest.mark.parametrize(
    "value", [1, "text", [1, 2], {"a": [1, 2], "b": "x"}, Decimal("1.5")], ids=repr
)
def test_a_variant_keeps_the_type_of_each_value(engine: Engine, value: Any) -> None:
    table = table_of(lake.VARIANT())
    with engine.begin() as connection:
        table.create(connection)
        connection.execute(insert(table), {"n": 1, "v": value})
        assert stored(connection, table) == [value]


def test_a_variant_is_compared_with_values_of_its_type(engine: Engine) -> None:
    table = table_of(lake.VARIANT())
    with engine.begin() as connection:
        table.create(connection)
        connection.execute(insert(table), [{"n": 1, "v": "a"}, {"n": 2, "v": "b"}])
        assert connection.scalar(select(table.c.n).where(table.c.v == "b")) == 2


def test_well_known_text_is_cast_to_geometry(engine: Engine) -> None:
    with engine.connect() as connection:
        shape = cast(literal("POINT (1 2)", types.String), lake.GEOMETRY)
        assert connection.scalar(select(shape)) == POINT


@pytest.mark.parametrize(
    "value", [Decimal("1.005"), Decimal("100000000"), Decimal("NaN"), 1e30], ids=repr
)
def test_s76_a_decimal_that_would_change_is_refused(engine: Engine, value: Any) -> None:
    table = table_of(types.Numeric(10, 2))
    table.create(engine)
    rows = [{"n": 1, "v": value}, {"n": 2, "v": value}]
    with engine.begin() as connection, pytest.raises(exc.DataError, match="cannot hold"):
        connection.execute(insert(table), rows)


def test_a_float_goes_into_a_decimal_as_it_is_written(engine: Engine) -> None:
    table = table_of(types.Numeric(10, 2))
    with engine.begin() as connection:
        table.create(connection)
        connection.execute(insert(table), {"n": 1, "v": 1.1})
        connection.execute(insert(table), [{"n": 2, "v": 1.1}, {"n": 3, "v": 2}])
        assert stored(connection, table) == [Decimal("1.10"), Decimal("1.10"), Decimal("2.00")]
