"""Parameter sets become one Arrow table, exactly.

The columns take the types of the target, so the engine casts nothing; and a value that
Arrow would change in silence is refused before the engine sees it (all measured:
``pa.array([1.5], int64)`` gives 1, a time of day falls off in a date column, an aware
datetime loses its zone in a naive column, a naive one is taken for UTC).  The same rules
hold for a single parameter set, so one row and ten thousand behave alike.
"""

from __future__ import annotations

import datetime as dt
import decimal
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pyarrow as pa

from sqlalchemy_ducklake.driver.intervals import MILLISECONDS
from sqlalchemy_ducklake.driver.script import Parameter, Script
from sqlalchemy_ducklake.errors import ValueRefused

_Rule = Callable[[Any, Any], str | None]


def batch_of(script: Script, sets: Sequence[Sequence[Any]]) -> pa.Table:
    """Build the batch of a script from its parameter sets.

    Raises ValueRefused for a value that its column cannot hold exactly.
    """
    arrays = [
        column_of(parameter, [one[parameter.index] for one in sets])
        for parameter in script.parameters
    ]
    names = [parameter.column for parameter in script.parameters]
    arrays.append(pa.array(range(len(sets)), pa.int64()))
    return pa.Table.from_arrays(arrays, [*names, script.sequence])


def check_set(parameters: Iterable[Parameter], values: Sequence[Any]) -> None:
    """Refuse, as :func:`batch_of` would, what one parameter set holds."""
    for parameter in parameters:
        _refuse(parameter, [values[parameter.index]])


def column_of(parameter: Parameter, values: Sequence[Any]) -> Any:
    """Build one column, exactly.

    Raises ValueRefused for a value that the type of the parameter cannot hold.
    """
    if parameter.arrow is None:
        return _inferred(parameter, values)
    kinds = set(map(type, values)) - {type(None)}
    if _suspicious(parameter.arrow, values, kinds):
        _refuse(parameter, values)
    try:
        return pa.array(_converted(parameter.arrow, values, kinds), parameter.arrow)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        _refuse(parameter, values)
        # Text for a number, say: the engine may know a cast, and has its own error.
        return _inferred(parameter, values)


def _inferred(parameter: Parameter, values: Sequence[Any]) -> Any:
    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        position = _first_odd(parameter, values)
        raise ValueRefused(
            parameter.label, parameter.type_name, values[position], position, str(error)
        ) from error


def _first_odd(parameter: Parameter, values: Sequence[Any]) -> int:
    """Find the value that does not go with its column, or else with the first value."""
    present = [(at, value) for at, value in enumerate(values) if value is not None]
    for at, value in present:
        try:
            pa.array([value], parameter.arrow)
        except (pa.ArrowException, OverflowError):
            return at
    kind = type(present[0][1])
    return next((at for at, value in present if type(value) is not kind), present[0][0])


def _converted(arrow: pa.DataType, values: Sequence[Any], kinds: set[type]) -> Sequence[Any]:
    if pa.types.is_decimal(arrow) and float in kinds:
        return [
            decimal.Decimal(repr(value)) if type(value) is float else value for value in values
        ]
    if pa.types.is_string(arrow) and kinds and not kinds <= {str}:
        return [None if value is None else str(value) for value in values]
    return values


def _refuse(parameter: Parameter, values: Sequence[Any]) -> None:
    if parameter.arrow is None:
        return
    for applies, _, rule in _RULES:
        if applies(parameter.arrow):
            _apply(rule, parameter, values)


def _apply(rule: _Rule, parameter: Parameter, values: Sequence[Any]) -> None:
    for position, value in enumerate(values):
        reason = None if value is None else rule(value, parameter.arrow)
        if reason is not None:
            raise ValueRefused(parameter.label, parameter.type_name, value, position, reason)


def _suspicious(arrow: Any, values: Sequence[Any], kinds: set[type]) -> bool:
    """Tell whether Arrow might change one of the values without saying so."""
    if pa.types.is_timestamp(arrow) and arrow.unit in _COARSE:
        return True
    if pa.types.is_timestamp(arrow) and kinds == {dt.datetime}:
        naive = {value.tzinfo is None for value in values if value is not None}
        return naive != {arrow.tz is None}
    return any(applies(arrow) and not kinds <= harmless for applies, harmless, _ in _RULES)


def _whole_number(value: Any, arrow: Any) -> str | None:
    if isinstance(value, float | decimal.Decimal) and value != value // 1:
        return "it is not a whole number and would be rounded"
    if isinstance(value, int) and not _fits(value, arrow):
        return f"it is out of range for {arrow}"
    return None


def _fits(value: int, arrow: pa.DataType) -> bool:
    bits = arrow.bit_width
    if pa.types.is_unsigned_integer(arrow):
        return 0 <= value < 1 << bits
    return -(1 << bits - 1) <= value < 1 << bits - 1


def _exact_decimal(value: Any, arrow: Any) -> str | None:
    if isinstance(value, float):
        value = decimal.Decimal(repr(value))
    if not isinstance(value, decimal.Decimal | int):
        return None
    number = decimal.Decimal(value)
    if not number.is_finite():
        return "a DECIMAL has no such number"
    digits = number.normalize(_WIDE).as_tuple()
    exponent = int(digits.exponent)
    if -exponent > arrow.scale:
        return f"it has more than {arrow.scale} digits after the point and would be rounded"
    if len(digits.digits) + exponent > arrow.precision - arrow.scale and number:
        return f"it has more than {arrow.precision - arrow.scale} digits before the point"
    return None


# Wide enough that normalize() rounds nothing a DECIMAL could hold.
_WIDE = decimal.Context(prec=500)


def _plain_date(value: Any, _: Any) -> str | None:
    if isinstance(value, dt.datetime) and value.time() != dt.time():
        return "a DATE would lose the time of day"
    return None


# How many microseconds a unit has that is longer than one.
_COARSE = {"s": 1_000_000, "ms": 1000}
# What the engine keeps in 64 bits of nanoseconds.
_FIRST = dt.datetime.fromisoformat("1677-09-22")
_LAST = dt.datetime.fromisoformat("2262-04-11T23:47:16.854775")


def _exact_moment(value: Any, arrow: Any) -> str | None:
    if not isinstance(value, dt.datetime):
        return None
    if value.microsecond % _COARSE.get(arrow.unit, 1):
        return f"the column counts in {arrow.unit}, and the rest of the time would be lost"
    if arrow.unit == "ns" and not _FIRST <= value.replace(tzinfo=None) <= _LAST:
        return "nanoseconds are counted from 1677-09-22 to 2262-04-11 only"
    if arrow.tz is None and value.tzinfo is not None:
        return "it has a time zone, which TIMESTAMP would lose; use TIMESTAMP WITH TIME ZONE"
    if arrow.tz is not None and value.tzinfo is None:
        return "it has no time zone; TIMESTAMP WITH TIME ZONE needs one"
    return None


def _storable_interval(value: Any, _: Any) -> str | None:
    if isinstance(value, dt.timedelta):
        # The days, which count apart, are all that is negative.
        months, days, nanoseconds = 0, value.days, value.microseconds * 1000
    elif isinstance(value, pa.MonthDayNano):
        months, days, nanoseconds = value
    else:
        return None
    if min(months, days, nanoseconds) < 0:
        return "Parquet files hold no negative intervals"
    if nanoseconds // 1_000_000 >= MILLISECONDS:
        return "Parquet files have room for 49 days in milliseconds; count them as days"
    if nanoseconds % 1_000_000:
        return "Parquet files keep intervals in milliseconds, the rest would be lost"
    return None


def _text(value: Any, _: Any) -> str | None:
    if isinstance(value, bytes | bytearray):
        return "it is bytes, not text; decode it first"
    return None


# For each family of types: the kinds of value that Arrow takes exactly or refuses by
# itself, and the rule that finds the offender among others.
_RULES: tuple[tuple[Callable[[pa.DataType], bool], frozenset[type], _Rule], ...] = (
    (pa.types.is_integer, frozenset({int, bool}), _whole_number),
    (pa.types.is_decimal, frozenset({decimal.Decimal, int}), _exact_decimal),
    (pa.types.is_date, frozenset({dt.date}), _plain_date),
    (pa.types.is_timestamp, frozenset(), _exact_moment),
    (pa.types.is_interval, frozenset(), _storable_interval),
    (pa.types.is_string, frozenset({str}), _text),
)
