"""Type objects compare and hash as PEP 249 wants."""

from __future__ import annotations

import datetime as dt

import duckdb
import pytest

from sqlalchemy_ducklake import driver
from sqlalchemy_ducklake.driver.types import TypeObject


@pytest.mark.parametrize(
    ("sql_type", "expected"),
    [
        ("INTEGER", driver.NUMBER),
        ("DECIMAL(10, 2)", driver.NUMBER),
        ("UHUGEINT", driver.NUMBER),
        ("BOOLEAN", driver.NUMBER),
        ("VARCHAR", driver.STRING),
        ("JSON", driver.STRING),
        ("UUID", driver.STRING),
        ("BLOB", driver.BINARY),
        ("GEOMETRY", driver.BINARY),
        ("DATE", driver.DATETIME),
        ("TIMESTAMPTZ", driver.DATETIME),
        ("TIMETZ", driver.DATETIME),
        ("INTERVAL", driver.DATETIME),
    ],
)
def test_a_type_code_equals_its_family_from_both_sides(
    sql_type: str, expected: TypeObject
) -> None:
    code = duckdb.sqltype(sql_type)
    families = [driver.NUMBER, driver.STRING, driver.BINARY, driver.DATETIME, driver.ROWID]
    assert [family for family in families if code == family] == [expected]
    assert [family for family in families if family == code] == [expected]


def test_type_objects_can_be_keys_of_a_dictionary() -> None:
    shown = {driver.NUMBER: "number", driver.STRING: "text"}
    assert shown[driver.NUMBER] == "number"
    assert driver.NUMBER != driver.STRING


def test_constructors_give_values_of_the_standard_library() -> None:
    assert driver.Date(2020, 2, 29) == dt.date(2020, 2, 29)
    assert driver.Time(1, 2, 3) == dt.time(1, 2, 3)
    assert driver.Timestamp(2020, 1, 2, 3, 4, 5) == dt.datetime(2020, 1, 2, 3, 4, 5)  # noqa: DTZ001
    assert driver.Binary(bytearray(b"ab")) == b"ab"
    ticks = dt.datetime(2020, 1, 2, 3, 4, 5).timestamp()  # noqa: DTZ001 - local time
    assert driver.DateFromTicks(ticks) == dt.date(2020, 1, 2)
    assert driver.TimeFromTicks(ticks) == dt.time(3, 4, 5)
    assert driver.TimestampFromTicks(ticks) == dt.datetime(2020, 1, 2, 3, 4, 5)  # noqa: DTZ001
