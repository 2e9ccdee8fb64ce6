"""Values that the engine would change without a word are refused, or carried exactly."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from sqlalchemy import (
    ARRAY,
    Column,
    Connection,
    Date,
    Engine,
    Integer,
    Interval,
    MetaData,
    Numeric,
    Table,
    cast,
    exc,
    insert,
    literal,
    select,
    update,
)

from sqlalchemy_ducklake import driver, errors, upsert
from sqlalchemy_ducklake.dialect import types as lake
from sqlalchemy_ducklake.writer import write_table

moment = dt.datetime.fromisoformat
Road = Callable[[Connection, Table, Any], object]

ROADS: dict[str, Road] = {
    "parameter": lambda c, t, v: c.execute(insert(t), {"id": 1, "v": v}),
    "parameters": lambda c, t, v: c.execute(insert(t), [{"id": 1, "v": v}, {"id": 2, "v": v}]),
    "values": lambda c, t, v: c.execute(insert(t).values([(1, v), (2, v)])),
    "upsert": lambda c, t, v: c.execute(upsert(t, [{"id": 1, "v": v}])),
    "update": lambda c, t, v: (
        c.execute(insert(t), {"id": 1}),
        c.execute(update(t).values(v=v)),
    ),
}
NESTED = lake.STRUCT({"inside": ARRAY(lake.STRUCT({"a": Integer}))})
SPOILED = [
    (Interval(), dt.timedelta(microseconds=-1), "no negative intervals"),
    (Interval(), dt.timedelta(microseconds=1), "milliseconds"),
    (lake.TIMESTAMP_S(), moment("2020-01-01T00:00:00.000001"), "counts in s,"),
    (lake.TIMESTAMP_MS(), moment("2020-01-01T00:00:00.000001"), "counts in ms,"),
    (lake.TIMESTAMP_NS(), moment("2262-04-12T00:00:00"), "to 2262-04-11"),
    (lake.TIMESTAMP_NS(), moment("1677-09-21T00:00:00"), "from 1677-09-22"),
    (lake.HUGEINT(), 10**38, "digits before the point"),
    (lake.UTINYINT(), 256, "out of range"),
    (NESTED, {"inside": [{"a": 1, "z": 2}]}, "no field 'z'"),
]


def made(connection: Connection, kind: Any) -> Table:
    table = Table("t", MetaData(), Column("id", Integer, primary_key=True), Column("v", kind))
    table.create(connection)
    return table


@pytest.mark.parametrize("road", ROADS.values(), ids=ROADS)
def test_a_value_that_would_change_is_refused_on_every_road(engine: Engine, road: Road) -> None:
    for kind, value, reason in SPOILED:
        with engine.connect() as connection:
            table = made(connection, kind)
            with pytest.raises((exc.DataError, errors.ValueRefused), match=reason) as caught:
                road(connection, table, value)
            error = getattr(caught.value, "orig", caught.value)
            assert isinstance(error, errors.ValueRefused)
            # The transaction goes on.
            assert connection.execute(select(literal(1))).scalar() == 1


@pytest.mark.parametrize("road", ROADS.values(), ids=ROADS)
@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (lake.HUGEINT(), 2**53 + 1),
        (lake.HUGEINT(), 10**38 - 1),
        (lake.TIMESTAMP_S(), moment("0001-01-01T00:00:00")),
        (lake.TIMESTAMP_MS(), moment("9999-12-31T23:59:59.999000")),
        (lake.TIMESTAMP_NS(), moment("2262-04-11T23:47:16.854775")),
        (lake.TIMESTAMP_NS(), moment("1677-09-22T00:00:00")),
        (Interval(), dt.timedelta(days=400 * 365, milliseconds=1)),
        (lake.VARIANT(), {"key": "a", "value": 1}),
    ],
)
def test_a_value_at_the_edge_is_carried_exactly(
    engine: Engine, road: Road, kind: Any, value: Any
) -> None:
    with engine.begin() as connection:
        table = made(connection, kind)
        road(connection, table, value)
    with engine.begin() as connection:
        connection.exec_driver_sql("CALL ducklake_flush_inlined_data('lake')")
        assert set(map(repr, connection.scalars(select(table.c.v)))) == {repr(value)}


def test_a_literal_of_a_struct_has_no_field_too_many(engine: Engine) -> None:
    with engine.connect() as connection:
        table = made(connection, NESTED)
        written = literal({"inside": [{"a": 1, "z": 2}]}, NESTED, literal_execute=True)
        with pytest.raises(exc.StatementError) as caught:
            connection.execute(insert(table).values(id=1, v=written))
        assert isinstance(caught.value.orig, exc.CompileError)
        assert isinstance(caught.value.orig.__cause__, errors.ValueRefused)


@pytest.mark.parametrize("value", [{"key": [1], "value": [2]}, {"key": "ab", "value": "cd"}])
def test_a_variant_that_would_become_a_map_is_refused_or_carried(
    engine: Engine, value: Any
) -> None:
    with engine.connect() as connection:
        table = made(connection, lake.VARIANT())
        for one in (value, [{"more": value}]):
            with pytest.raises(exc.DataError, match="takes it for a MAP"):
                connection.execute(insert(table), {"id": 1, "v": one})
        connection.execute(insert(table), [{"id": 1, "v": value}, {"id": 2, "v": value}])
        assert connection.scalars(select(table.c.v)).all() == [value, value]


LONG = "to_microseconds(9300000000000000)"


@pytest.mark.parametrize(
    "expression", [LONG, f"[{LONG}]", f"{{'a': {LONG}}}", f"MAP {{1: {LONG}}}", f"-{LONG}"]
)
def test_arrow_holds_no_interval_that_is_longer_than_it_can(
    connection: driver.Connection, expression: str
) -> None:
    query = f"SELECT {expression} AS v FROM range(3)"
    cursor = connection.cursor()
    assert len(cursor.execute(query).fetchall()) == 3
    with pytest.raises(errors.IntervalTooLong) as caught:
        cursor.execute(query).fetch_arrow_table()
    assert caught.value.column == "v"
    # Months and days have room of their own.
    query = "SELECT [INTERVAL '400 years', NULL, INTERVAL '-291 years'] AS v"
    (row,) = cursor.execute(query).fetch_arrow_table().to_pylist()
    assert [None if each is None else each.months for each in row["v"]] == [4800, None, -3492]


def spans(months: int, days: int, nanoseconds: int) -> pa.Array[Any]:
    return pa.array([(months, days, nanoseconds)] * 20, pa.month_day_nano_interval())


def durations(**parts: int) -> pa.Array[Any]:
    return pa.array([dt.timedelta(**parts)] * 20, pa.duration("us"))


APPENDED = [
    (Numeric(10, 2), pa.array([1.005] * 20), "would be rounded"),
    (Integer(), pa.array([1.5] * 20), "not a whole number"),
    (Date(), pa.array([moment("2020-01-01T05:00:00")] * 20), "time of day"),
    (lake.TIMESTAMP_S(), pa.array([moment("2020-01-01T00:00:00.5")] * 20), "counts in s,"),
    (Interval(), durations(microseconds=1), "milliseconds"),
    (Interval(), durations(days=-1), "no negative"),
    (Interval(), spans(0, -1, 0), "no negative"),
    (Interval(), spans(0, 0, 1000), "milliseconds"),
    (Interval(), spans(0, 0, 50 * 86400 * 10**9), "49 days"),
]


@pytest.mark.parametrize(("kind", "values", "reason"), APPENDED)
def test_arrow_data_that_would_change_is_refused(
    engine: Engine, kind: Any, values: pa.Array[Any], reason: str
) -> None:
    data = pa.table({"id": pa.array(range(20), pa.int32()), "v": values})
    plain = Table("plain", MetaData(), Column("id", Integer), Column("v", kind))
    with engine.connect() as connection:
        plain.create(connection)
        keyed = made(connection, kind)
        for write in (
            lambda: write_table(connection, plain, data),
            lambda: write_table(connection, plain, data.to_reader()),
            lambda: connection.execute(upsert(keyed, data)),
        ):
            with pytest.raises((exc.DataError, errors.ValueRefused), match=reason):
                write()
            connection.rollback()
            plain.create(connection)
            keyed.create(connection)


def test_intervals_of_arrow_are_carried_exactly(engine: Engine) -> None:
    table = Table("t", MetaData(), Column("id", Integer), Column("v", Interval))
    table.create(engine)
    for values in (durations(days=62, hours=12), spans(2, 2, 12 * 3600 * 10**9)):
        data = pa.table({"id": pa.array(range(20), pa.int32()), "v": values})
        with engine.begin() as connection:
            write_table(connection, table, data)
            found = set(connection.scalars(select(table.c.v)))
            assert found == {dt.timedelta(days=62, hours=12)}
            connection.execute(table.delete())


@pytest.mark.parametrize(
    ("kind", "whole"),
    [
        (lake.TIMESTAMP_S(), moment("2020-01-01T00:00:01")),
        (lake.TIMESTAMP_MS(), moment("2020-01-01T00:00:01.002")),
    ],
)
def test_a_literal_between_two_steps_is_no_statement(
    engine: Engine, kind: Any, whole: dt.datetime
) -> None:
    written_out = {"literal_binds": True}
    between = literal(whole + dt.timedelta(microseconds=1), kind)
    with pytest.raises(exc.CompileError, match="Could not render literal") as caught:
        select(between).compile(engine, compile_kwargs=written_out)
    assert "between two steps" in str(caught.value.__cause__)
    asked = select(cast(literal(whole, kind), kind))
    statement = asked.compile(engine, compile_kwargs=written_out)
    with engine.connect() as connection:
        assert connection.exec_driver_sql(str(statement)).scalar() == whole
