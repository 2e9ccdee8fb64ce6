"""How single values cross the border between Python and DuckDB, where they need help.

Each conversion stands against something that was measured on DuckDB 1.5.5's client.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, cast
from uuid import UUID

from sqlalchemy import exc
from sqlalchemy.engine.interfaces import Dialect

from sqlalchemy_ducklake.driver import Fields
from sqlalchemy_ducklake.driver.parameters import VariantFields
from sqlalchemy_ducklake.errors import ValueRefused

Processor = Callable[[Any], Any]


def same(value: Any) -> Any:
    """Return the value as it is."""
    return value


def whole_number(value: Any) -> Any:
    """Return an int for a DECIMAL without scale."""
    return None if value is None else int(value)


def exact_number(value: Any) -> Any:
    """Return a number that the client sends exactly."""
    number = Decimal(repr(value)) if isinstance(value, float) else value
    # DuckDB's client reads Decimal("1E+5") as 1.00000.  Its text has an "E+" exactly if its
    # exponent is positive, and is made four times faster than its tuple.
    if isinstance(number, Decimal) and "E+" in str(number):
        return Decimal(f"{number:f}")
    return number


def decimal_of_float(value: float | None) -> Decimal | None:
    """Return the 15 digits that a double is sure of."""
    return None if value is None else Decimal(f"{value:.15g}")


def nearest_float(value: Any) -> Any:
    """Return a float for a Decimal."""
    return float(value) if isinstance(value, Decimal) else value


def day(value: Any) -> Any:
    """Return the date of a datetime."""
    return value.date() if isinstance(value, dt.datetime) else value


def digits(value: Any) -> str:
    """Write a number in plain digits: ``1E+5`` would be a DOUBLE to the engine."""
    return f"{Decimal(repr(value)) if isinstance(value, float) else Decimal(value):f}"


# A FLOAT is sure of seven digits; a point comes with them.
_FLOAT_DIGITS = 8


def float_literal(value: Any) -> str:
    """Write a float, also one that is not made of digits.

    Without an exponent it would be a DECIMAL to the engine, whose cast to FLOAT is exact for
    few digits only, and which has no negative zero.
    """
    text = repr(float(value))
    if not text[-1].isdigit():
        return f"'{text}'::DOUBLE"
    short = len(text) <= _FLOAT_DIGITS and text != "-0.0"
    return text if short or "e" in text else f"{text}e0"


def blob_literal(value: bytes) -> str:
    """Write every byte as two hexadecimal digits."""
    return "'" + "".join(f"\\x{byte:02X}" for byte in bytes(value)) + "'::BLOB"


def time_in_utc(value: Any) -> Any:
    """Return the same time of day in UTC."""
    if not isinstance(value, dt.time) or value.tzinfo is None:
        return value
    # Any day will do for an offset that is fixed; a zone has none without a day.
    moment = dt.datetime.combine(dt.date(2000, 1, 1), value)
    return value if moment.utcoffset() is None else moment.astimezone(dt.UTC).timetz()


def uuid_text(value: Any) -> Any:
    """Return the text of a UUID."""
    return str(value) if isinstance(value, UUID) else value


def text_literal(text: str) -> str:
    """Write text in quotes."""
    return "'" + text.replace("'", "''") + "'"


def list_literal(element: Processor) -> Processor:
    """Write a list, or a list of lists, of literals."""

    def process(value: Any) -> str:
        if isinstance(value, list | tuple):
            return f"[{', '.join(process(one) for one in value)}]"
        return str(element(value))

    return process


def struct_literal(fields: Mapping[str, Processor], kind: str) -> Processor:
    """Write the fields of a struct, those that are missing as NULL, and no others."""

    def process(value: Mapping[str, Any]) -> str:
        _refuse_unknown(value, fields, kind)
        written = (
            f"{text_literal(name)}: {write(value.get(name))}" for name, write in fields.items()
        )
        return "{" + ", ".join(written) + "}"

    return process


def json_step(value: int | str) -> str:
    """Write one step into JSON as a path."""
    return json_path((value,))


def json_path(value: Sequence[int | str]) -> str:
    """Write steps into JSON as a path."""
    return "$" + "".join(
        f"[{step}]" if isinstance(step, int) else f'."{_escaped(step)}"' for step in value
    )


def _escaped(step: str) -> str:
    return step.replace("\\", "\\\\").replace('"', '\\"')


def of_elements(element: Processor | None, depth: int) -> Processor | None:
    """Convert the elements of lists that are ``depth`` deep."""
    if element is None:
        return None
    inner = element if depth == 1 else of_elements(element, depth - 1)
    assert inner is not None

    def process(value: Iterable[Any] | None) -> Any:
        return None if value is None else [inner(one) for one in value]

    return process


def struct_of(fields: Mapping[str, Processor | None], kind: str) -> Processor:
    """Make a STRUCT of a mapping, with all its fields and no others.

    What the engine does not know it would drop without a word.
    """

    def process(value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        _refuse_unknown(value, fields, kind)
        return Fields(
            (name, convert(value.get(name)) if convert else value.get(name))
            for name, convert in fields.items()
        )

    return process


def _refuse_unknown(value: Mapping[str, Any], fields: Mapping[str, Any], kind: str) -> None:
    unknown = value.keys() - fields.keys()
    if unknown:
        names = ", ".join(sorted(map(repr, unknown)))
        raise ValueRefused("?", kind, value, 0, f"the STRUCT has no field {names}")


def no_map(value: Any) -> Any:
    """Return a value to be sent as a VARIANT, whose dicts are to be STRUCTs."""
    if isinstance(value, list | tuple):
        return [no_map(one) for one in value]
    if not isinstance(value, Mapping):
        return value
    return VariantFields((name, no_map(one)) for name, one in value.items())


def of_fields(fields: Mapping[str, Processor | None]) -> Processor | None:
    """Convert those fields that have a conversion."""
    converting = {name: process for name, process in fields.items() if process is not None}
    if not converting:
        return None

    def process(value: Mapping[str, Any] | None) -> Any:
        if value is None:
            return None
        return {
            name: converting[name](one) if name in converting else one
            for name, one in value.items()
        }

    return process


def binding(kind: Any, dialect: Dialect) -> Processor | None:
    """Return what converts values of a type on the way in."""
    return cast("Processor | None", kind.dialect_impl(dialect).bind_processor(dialect))


def reading(kind: Any, dialect: Dialect) -> Processor | None:
    """Return what converts values of a type on the way out."""
    return cast("Processor | None", kind.dialect_impl(dialect).result_processor(dialect, None))


def writing(kind: Any, dialect: Dialect) -> Processor:
    """Return what writes values of a type as literals; NULL for None."""
    process = kind.dialect_impl(dialect).literal_processor(dialect)
    if process is None:
        raise exc.CompileError(f"no literal can be written for a value of {kind!r}")
    return lambda value: "NULL" if value is None else process(value)
