"""Parameter sets become Arrow columns exactly, or are refused by name."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqlalchemy_ducklake.driver.batch import batch_of, check_set
from sqlalchemy_ducklake.driver.script import Parameter, Script
from sqlalchemy_ducklake.errors import ValueRefused


def script_for(arrow: pa.DataType | None) -> Script:
    parameter = Parameter(0, "p0", "amount", arrow, "the type")
    return Script((), batch="batch", sequence="place", parameters=(parameter,))


def stored(arrow: pa.DataType | None, *values: Any) -> list[Any]:
    batch = batch_of(script_for(arrow), [(value,) for value in values])
    assert batch.column("place").to_pylist() == list(range(len(values)))
    return list(batch.column("p0").to_pylist())


NAIVE = dt.datetime(2020, 1, 2, 3, 4, 5, 6)  # noqa: DTZ001
AWARE = dt.datetime(2020, 1, 2, 3, 4, 5, 6, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("arrow", "value", "reason"),
    [
        (pa.int32(), 1.5, "whole number"),
        (pa.int32(), Decimal("1.5"), "whole number"),
        (pa.int32(), 2**31, "out of range"),
        (pa.uint8(), -1, "out of range"),
        (pa.decimal128(10, 2), Decimal("1.005"), "2 digits after the point"),
        (pa.decimal128(10, 2), 1.005, "2 digits after the point"),
        (pa.decimal128(10, 2), Decimal("123456789"), "8 digits before the point"),
        (pa.decimal128(10, 2), Decimal("NaN"), "no such number"),
        (pa.decimal128(10, 2), float("inf"), "no such number"),
        (pa.date32(), NAIVE, "time of day"),
        (pa.timestamp("us"), AWARE, "would lose"),
        (pa.timestamp("us", "UTC"), NAIVE, "needs one"),
        (pa.string(), b"bytes", "decode it first"),
        (pa.month_day_nano_interval(), dt.timedelta(days=-1), "no negative"),
        (pa.month_day_nano_interval(), dt.timedelta(microseconds=1), "milliseconds"),
    ],
)
def test_a_value_that_would_change_is_refused_alone_and_among_others(
    arrow: pa.DataType, value: Any, reason: str
) -> None:
    with pytest.raises(ValueRefused, match=reason) as caught:
        stored(arrow, None, value)
    assert (caught.value.column, caught.value.position) == ("amount", 1)
    assert repr(caught.value.found) == repr(value)
    with pytest.raises(ValueRefused, match=reason):
        check_set(script_for(arrow).parameters, (value,))


@pytest.mark.parametrize(
    ("arrow", "value", "expected"),
    [
        (pa.int32(), True, 1),
        (pa.int32(), 2.0, 2),
        (pa.decimal128(10, 2), 1.25, Decimal("1.25")),
        (pa.decimal128(10, 2), 7, Decimal("7.00")),
        (pa.decimal128(10, 2), Decimal("1.500"), Decimal("1.50")),
        (pa.decimal128(38, 9), Decimal("9" * 29), Decimal("9" * 29 + ".000000000")),
        (pa.date32(), dt.datetime(2020, 1, 2), dt.date(2020, 1, 2)),  # noqa: DTZ001
        (pa.timestamp("us"), NAIVE, NAIVE),
        (pa.timestamp("us", "UTC"), AWARE, AWARE),
        (pa.string(), 5, "5"),
        (None, [1, 2], [1, 2]),
    ],
)
def test_a_value_that_fits_arrives_as_it_is(
    arrow: pa.DataType | None, value: Any, expected: Any
) -> None:
    check_set(script_for(arrow).parameters, (value,))
    assert stored(arrow, value, None) == [expected, None]


@given(st.decimals(allow_nan=False, allow_infinity=False, places=4))
def test_a_decimal_is_stored_exactly_or_refused(value: Decimal) -> None:
    fits = value == value.quantize(Decimal("0.01")) if abs(value) < 10**8 else False
    try:
        assert stored(pa.decimal128(10, 2), value) == [value]
        assert fits
    except ValueRefused:
        assert not fits


def test_text_for_a_number_is_left_to_the_engine_to_cast() -> None:
    assert stored(pa.int64(), "5") == ["5"]
