"""The Arrow type of each DuckDB type, for batches of parameters.

UUID, JSON and TIME WITH TIME ZONE travel as text: pyarrow builds no UUID from Python's,
and drops the offset of a time without a word; the engine casts text exactly.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import pyarrow as pa

from sqlalchemy_ducklake.dialect.reflection.typenames import TypeName, parse

# DuckDB's own default for DECIMAL without numbers.
_BARE_DECIMAL = (18, 3)


@lru_cache(maxsize=1024)
def arrow_type(text: str) -> pa.DataType | None:
    """Return the Arrow type of a DuckDB type text, None where the values should decide.

    None too for a type that no lake stores, and for what is no type at all: the engine
    has the better error.
    """
    try:
        return _arrow(parse(text))
    except (KeyError, ValueError):
        return None


def _arrow(name: TypeName) -> pa.DataType:
    build = _NESTED.get(name.name)
    return _PLAIN[_ALIASES.get(name.name, name.name)] if build is None else build(name)


def _decimal(name: TypeName) -> pa.DataType:
    precision, scale = (*name.numbers, 0)[:2] if name.numbers else _BARE_DECIMAL
    return pa.decimal128(precision, scale)


def _list(name: TypeName) -> pa.DataType:
    return pa.list_(_arrow(name.inside[0][1]))


def _struct(name: TypeName) -> pa.DataType:
    return pa.struct([pa.field(field, _arrow(kind)) for field, kind in name.inside])


def _map(name: TypeName) -> pa.DataType:
    (_, key), (_, value) = name.inside
    return pa.map_(_arrow(key), _arrow(value))


_NESTED: dict[str, Callable[[TypeName], pa.DataType]] = {
    "DECIMAL": _decimal,
    "LIST": _list,
    "MAP": _map,
    "NUMERIC": _decimal,
    "STRUCT": _struct,
}

_PLAIN: dict[str, pa.DataType] = {
    "BIGINT": pa.int64(),
    "BLOB": pa.binary(),
    "BOOLEAN": pa.bool_(),
    "DATE": pa.date32(),
    "DOUBLE": pa.float64(),
    "FLOAT": pa.float32(),
    "HUGEINT": pa.decimal128(38, 0),
    "INTEGER": pa.int32(),
    "INTERVAL": pa.month_day_nano_interval(),
    "JSON": pa.string(),
    "SMALLINT": pa.int16(),
    "TIME": pa.time64("us"),
    "TIME WITH TIME ZONE": pa.string(),
    "TIMESTAMP": pa.timestamp("us"),
    "TIMESTAMP WITH TIME ZONE": pa.timestamp("us", "UTC"),
    "TIMESTAMP_MS": pa.timestamp("ms"),
    "TIMESTAMP_NS": pa.timestamp("ns"),
    "TIMESTAMP_S": pa.timestamp("s"),
    "TINYINT": pa.int8(),
    "UBIGINT": pa.uint64(),
    "UHUGEINT": pa.decimal128(38, 0),
    "UINTEGER": pa.uint32(),
    "USMALLINT": pa.uint16(),
    "UTINYINT": pa.uint8(),
    "UUID": pa.string(),
    "VARCHAR": pa.string(),
}

# Spellings that a user's own type may give.
_ALIASES = {
    "BOOL": "BOOLEAN",
    "BYTEA": "BLOB",
    "CHAR": "VARCHAR",
    "DATETIME": "TIMESTAMP",
    "DOUBLE PRECISION": "DOUBLE",
    "INT": "INTEGER",
    "REAL": "FLOAT",
    "STRING": "VARCHAR",
    "TEXT": "VARCHAR",
    "TIMESTAMPTZ": "TIMESTAMP WITH TIME ZONE",
    "TIMETZ": "TIME WITH TIME ZONE",
}
