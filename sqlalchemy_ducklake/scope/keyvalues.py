"""Values in Python: which are exact, and which may be told apart without the engine."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from sqlalchemy_ducklake.driver.batch import column_of
from sqlalchemy_ducklake.driver.script import Parameter
from sqlalchemy_ducklake.errors import ValueRefused
from sqlalchemy_ducklake.scope.kept import Key


def key_columns(keys: Sequence[Key]) -> dict[str, Any]:
    """Give keys as columns ``k0``, ``k1``, … of text, which the engine casts exactly."""
    return {
        f"k{place}": pa.array(list(map(str, values)), pa.string())
        for place, values in enumerate(zip(*keys, strict=True))
    }


def exact_values(
    stored: Iterable[Parameter], sets: Sequence[Sequence[Any]], required: Collection[str]
) -> dict[str, Sequence[Any]] | None:
    """Give the values that parameter sets store, by column.

    None if one is not exactly what its column holds, or NULL where a value is ``required``.
    """
    found: dict[str, Sequence[Any]] = {}
    for each in stored:
        values = [one[each.index] for one in sets]
        if each.label in required and any(value is None for value in values):
            return None
        if each.type_name == "UUID" and None in map(_uuid, filter(None, values)):
            return None  # it travels as text, of which the engine knows less
        try:
            array = column_of(each, values)
        except (ValueRefused, UnicodeError):
            return None
        if array.type != each.arrow or bytearray in map(type, values):
            return None
        found[each.label] = values
    return found


def squeezed(type_name: str) -> str:
    """Write a type as the engine does."""
    return type_name.replace(", ", ",")


def _integer(value: Any) -> Any:
    return value if type(value) is int else None


def _text(value: Any) -> Any:
    if type(value) is not str:
        return None
    try:
        value.encode()
    except UnicodeError:
        return None
    return value


def _date(value: Any) -> Any:
    return value if type(value) is dt.date else None


def _uuid(value: Any) -> Any:
    if isinstance(value, uuid.UUID):
        return value
    try:
        return uuid.UUID(value)
    except (TypeError, ValueError, AttributeError):
        return None


#: The types whose values are equal in Python exactly where they are in the engine, each
#: with what makes a key of such a value; None for a value that is none.
NORMAL: Mapping[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("TINYINT", "SMALLINT", "INTEGER", "BIGINT"), _integer),
    **dict.fromkeys(("UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT"), _integer),
    "VARCHAR": _text,
    "DATE": _date,
    "UUID": _uuid,
}
