"""Arrow arrays as lists of Python values, the same values that DuckDB's own fetch gives.

DuckDB makes a Python object of every cell by itself, which is most of what reading costs.
A converter here makes a whole column at once, by the C code of pyarrow and numpy, and is
exact: decimals go through their digits and times through whole microseconds, never
through a float.  What no converter knows (UNION, BIT, a MAP whose keys Python cannot hash)
and values that Python's types cannot hold (a date before year 1, an infinity) are read by
DuckDB itself, a column of a batch at a time.

One thing differs from DuckDB's own fetch on purpose: a TIMESTAMP WITH TIME ZONE is in a
``zoneinfo.ZoneInfo`` or ``datetime.UTC`` instead of a ``pytz`` zone, whose arithmetic over a
change of the clocks is a trap.
"""

from __future__ import annotations

import datetime as dt
import itertools
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pyarrow as pa

#: Makes a list of Python values, with None for NULL, of an array.
Convert = Callable[[Any], list[Any]]

# 0001-01-01 and 9999-12-31, counted from 1970.
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896
_MICROSECONDS_OF_DAY = 24 * 60 * 60 * 1_000_000
_FIRST_MICROSECOND = _FIRST_DAY * _MICROSECONDS_OF_DAY
_LAST_MICROSECOND = (_LAST_DAY + 1) * _MICROSECONDS_OF_DAY - 1

# The infinities, whose count is the widest, aside; and no sum with them overflows.
_NANOSECONDS = (-(2**63) + 1000, 2**63 - 1000)

# From so many values on it is faster to cast an array than to ask for each value.
_SEVERAL = 16

_LONG = pa.int64()

# How many microseconds a unit has.
_LONGER = {"s": 1_000_000, "ms": 1000, "us": 1}

_UTC_NAMES = {"UTC", "Etc/UTC"}


def converter(kind: Any, engine: Convert) -> Convert:
    """Give the converter for an Arrow type; ``engine`` is DuckDB's own."""
    build = _BUILDERS.get(kind.id)
    return engine if build is None else build(kind, engine)


def _past_nulls(convert: Convert) -> Convert:
    """Let a converter see no NULL."""

    def convert_all(array: Any) -> list[Any]:
        if not array.null_count:
            return convert(array)
        values = iter(convert(array.drop_null()))
        return [next(values) if there else None for there in array.is_valid().to_pylist()]

    return convert_all


def _beside_nulls(convert: Convert) -> Convert:
    """Let a converter make something of a NULL, and forget what it made.

    Arrow cannot copy what is left of a nested array if that has a type of an extension.
    """

    def convert_all(array: Any) -> list[Any]:
        values = convert(array)
        if not array.null_count:
            return values
        valid = array.is_valid().to_pylist()
        return [value if there else None for value, there in zip(values, valid, strict=True)]

    return convert_all


def _as_it_is(_kind: Any, _engine: Convert) -> Convert:
    return _listed


def _listed(array: Any) -> list[Any]:
    values: list[Any] = array.to_pylist()
    return values


def _extension(kind: Any, engine: Convert) -> Convert:
    for applies, build in _EXTENSIONS:
        if applies(kind):
            return build(kind, engine)
    return engine


def _boolean(_kind: Any, _engine: Convert) -> Convert:
    stored = _past_nulls(lambda array: list(array.to_numpy().view(bool).tolist()))
    return lambda array: _listed(array) if len(array) < _SEVERAL else stored(array.storage)


def _json(_kind: Any, _engine: Convert) -> Convert:
    return lambda array: _listed(array.storage)


def _uuid(_kind: Any, _engine: Convert) -> Convert:
    stored = _past_nulls(lambda array: [UUID(bytes=one) for one in _listed(array)])
    return lambda array: stored(array.storage)


def _huge(kind: Any, _engine: Convert) -> Convert:
    signed = kind.type_name == "hugeint"
    stored = _past_nulls(
        lambda array: [int.from_bytes(one, "little", signed=signed) for one in _listed(array)]
    )
    return lambda array: stored(array.storage)


def _decimal(_kind: Any, _engine: Convert) -> Convert:
    # Arrow writes every digit that the scale has, so the exponent comes along.
    several = _past_nulls(lambda array: list(map(Decimal, _listed(array.cast(pa.string())))))
    return lambda array: _listed(array) if len(array) < _SEVERAL else several(array)


def _few(convert: Convert, engine: Convert) -> Convert:
    """Let Arrow itself convert few values, and the engine what no Python value can hold."""

    def convert_all(array: Any) -> list[Any]:
        if len(array) >= _SEVERAL:
            return convert(array)
        try:
            return _listed(array)
        except (OverflowError, ValueError):
            return engine(array)

    return convert_all


def _date(_kind: Any, engine: Convert) -> Convert:
    def convert(array: Any) -> list[Any]:
        days = array.view(pa.int32()).to_numpy()
        if _outside(days, _FIRST_DAY, _LAST_DAY):
            return engine(array)
        return list(days.astype("datetime64[D]").tolist())

    return _few(_past_nulls(convert), engine)


def _time(kind: Any, engine: Convert) -> Convert:
    def convert(array: Any) -> list[Any]:
        moments = _microseconds(array, kind.unit, 0, _MICROSECONDS_OF_DAY - 1)
        if moments is None:
            return engine(array)
        return list(map(dt.datetime.time, moments.view("datetime64[us]").tolist()))

    several = _past_nulls(convert)
    return several if kind.unit == "ns" else _few(several, engine)


def _timestamp(kind: Any, engine: Convert) -> Convert:
    if kind.tz is not None:
        return _zoned(kind, engine)

    def convert(array: Any) -> list[Any]:
        moments = _microseconds(array, kind.unit, _FIRST_MICROSECOND, _LAST_MICROSECOND)
        if moments is None:
            return engine(array)
        return list(moments.view("datetime64[us]").tolist())

    several = _past_nulls(convert)
    # Arrow wants pandas for nanoseconds.
    return several if kind.unit == "ns" else _few(several, engine)


def _zoned(kind: Any, engine: Convert) -> Convert:
    zone = _zone(kind.tz)
    if zone is None:
        return engine
    epoch = dt.datetime(1970, 1, 1, tzinfo=zone)
    # A day at both ends, where the local time may be of no year that Python has.
    margin = 0 if zone is dt.UTC else _MICROSECONDS_OF_DAY
    first, last = _FIRST_MICROSECOND + margin, _LAST_MICROSECOND - margin

    def convert(array: Any) -> list[Any]:
        moments = _microseconds(array, kind.unit, first, last)
        if moments is None:
            return engine(array)
        since = map(epoch.__add__, moments.view("timedelta64[us]").tolist())
        return list(since if zone is dt.UTC else map(zone.fromutc, since))

    def convert_few(array: Any) -> list[Any]:
        counts = array.view(_LONG).to_pylist()
        if counts and (min(counts) < first or max(counts) > last):
            return engine(array)
        since = [epoch + dt.timedelta(microseconds=each) for each in counts]
        return list(since if zone is dt.UTC else map(zone.fromutc, since))

    few, several = _past_nulls(convert_few), _past_nulls(convert)
    if kind.unit != "us":
        return several
    return lambda array: few(array) if len(array) < _SEVERAL else several(array)


def _zone(name: str) -> dt.tzinfo | None:
    if name in _UTC_NAMES:
        return dt.UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError):
        return None


def _microseconds(array: Any, unit: str, first: int, last: int) -> Any:
    """Count in microseconds; None if one is not from ``first`` to ``last``."""
    counts = array.view(_LONG).to_numpy()
    if unit == "ns":
        # Towards zero, as DuckDB does it.
        micros = (counts + (counts < 0) * 999) // 1000
        return (
            None if _outside(counts, *_NANOSECONDS) or _outside(micros, first, last) else micros
        )
    factor = _LONGER[unit]
    if _outside(counts, -(-first // factor), last // factor):
        return None
    return counts * factor


def _outside(values: Any, first: int, last: int) -> bool:
    return bool(len(values)) and bool(values.min() < first or values.max() > last)


def _list(kind: Any, engine: Convert) -> Convert:
    convert = converter(kind.value_type, engine)

    def convert_lists(array: Any) -> list[Any]:
        start, end, ends = _ends(array)
        values = convert(array.values[start:end])
        return [values[one:other] for one, other in itertools.pairwise(ends)]

    return _beside_nulls(convert_lists)


def _ends(array: Any) -> tuple[int, int, list[int]]:
    """Tell which part of its children a slice has, and where in it each row begins."""
    offsets = _listed(array.offsets)
    return offsets[0], offsets[-1], [offset - offsets[0] for offset in offsets]


def _fixed_list(kind: Any, engine: Convert) -> Convert:
    convert, size = converter(kind.value_type, engine), kind.list_size

    def convert_lists(array: Any) -> list[Any]:
        first, last = array.offset * size, (array.offset + len(array)) * size
        values = convert(array.values[first:last])
        return list(zip(*[iter(values)] * size, strict=True))

    return _beside_nulls(convert_lists)


def _struct(kind: Any, engine: Convert) -> Convert:
    names = [field.name for field in kind]
    converters = [converter(field.type, engine) for field in kind]

    def convert(array: Any) -> list[Any]:
        columns = [
            each(column) for each, column in zip(converters, array.flatten(), strict=True)
        ]
        rows = zip(*columns, strict=True)
        # The fields of row(1, 2) have no names.
        return [dict(zip(names, row, strict=True)) for row in rows] if any(names) else [*rows]

    return _beside_nulls(convert)


def _map(kind: Any, engine: Convert) -> Convert:
    if pa.types.is_nested(kind.key_type):
        return engine  # Python cannot hash it
    key_of = converter(kind.key_type, engine)
    value_of = converter(kind.item_type, engine)

    def convert(array: Any) -> list[Any]:
        start, end, ends = _ends(array)
        keys, values = key_of(array.keys[start:end]), value_of(array.items[start:end])
        pairs = list(zip(keys, values, strict=True))
        return [dict(pairs[one:other]) for one, other in itertools.pairwise(ends)]

    return _beside_nulls(convert)


def _enum(kind: Any, engine: Convert) -> Convert:
    if not pa.types.is_string(kind.value_type):
        return engine
    return lambda array: _listed(array.dictionary_decode())


def _is_huge(kind: Any) -> bool:
    return isinstance(kind, pa.OpaqueType) and kind.type_name in ("hugeint", "uhugeint")


_Builder = Callable[[Any, Convert], Convert]
_EXTENSIONS: Sequence[tuple[Callable[[Any], bool], _Builder]] = (
    (lambda kind: isinstance(kind, pa.Bool8Type), _boolean),
    (lambda kind: isinstance(kind, pa.JsonType), _json),
    (lambda kind: isinstance(kind, pa.UuidType), _uuid),
    (_is_huge, _huge),
)

_EXACT = (
    pa.null(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(),
    pa.uint32(), pa.uint64(), pa.float16(), pa.float32(), pa.float64(), pa.string(),
    pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(), pa.binary_view(),
)  # fmt: skip
# An example of each kind; those of one kind share its number.
_BUILDERS: dict[int, _Builder] = {
    **{kind.id: _as_it_is for kind in _EXACT},
    pa.decimal128(1).id: _decimal,
    pa.decimal256(1).id: _decimal,
    pa.timestamp("us").id: _timestamp,
    pa.date32().id: _date,
    pa.time64("us").id: _time,
    pa.dictionary(pa.int8(), pa.string()).id: _enum,
    pa.list_(pa.null()).id: _list,
    pa.large_list(pa.null()).id: _list,
    pa.list_(pa.null(), 1).id: _fixed_list,
    pa.struct([]).id: _struct,
    pa.map_(pa.int8(), pa.null()).id: _map,
    pa.bool8().id: _extension,
}
