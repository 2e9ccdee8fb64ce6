"""The types a lake stores beyond SQLAlchemy's own, and how values cross the border.

DuckDB's Python client already takes and gives the right Python type for nearly all of
them, so a processor stands here only where it does not (measured on 1.5.5).  Whether a
value fits its column exactly is not asked here, because a bind processor cannot tell a
value to store from a value to compare; the driver's batches refuse what would change.
"""

# SQLAlchemy hands every processor a dialect, and most need none.
# ruff: noqa: ARG002, ARG003

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping
from typing import Any, cast

from sqlalchemy import func
from sqlalchemy import types as sqltypes
from sqlalchemy.engine.interfaces import Dialect
from sqlalchemy.sql.elements import BindParameter, ColumnElement
from sqlalchemy.sql.sqltypes import _AbstractInterval
from sqlalchemy.sql.type_api import NativeForEmulated, TypeEngine

from sqlalchemy_ducklake.dialect import values
from sqlalchemy_ducklake.dialect.values import Processor


class TINYINT(sqltypes.SmallInteger):
    """An integer of 8 bits."""

    __visit_name__ = "TINYINT"


class UTINYINT(sqltypes.SmallInteger):
    """An integer of 8 bits, not negative."""

    __visit_name__ = "UTINYINT"


class USMALLINT(sqltypes.Integer):
    """An integer of 16 bits, not negative."""

    __visit_name__ = "USMALLINT"


class UINTEGER(sqltypes.BigInteger):
    """An integer of 32 bits, not negative."""

    __visit_name__ = "UINTEGER"


class UBIGINT(sqltypes.BigInteger):
    """An integer of 64 bits, not negative."""

    __visit_name__ = "UBIGINT"


class HUGEINT(sqltypes.BigInteger):
    """An integer of up to 38 digits, created as DECIMAL(38, 0).

    DuckLake writes its own HUGEINT to Parquet as DOUBLE, which loses digits.
    """

    __visit_name__ = "HUGEINT"

    def result_processor(self, dialect: Dialect, coltype: object) -> Processor | None:
        """Give int also where the column is a DECIMAL."""
        return values.whole_number


class UHUGEINT(HUGEINT):
    """An integer of up to 38 digits, not negative, created as DECIMAL(38, 0)."""

    __visit_name__ = "UHUGEINT"


class TIMESTAMP_S(sqltypes.DateTime):  # noqa: N801 - as the engine names it
    """A date and time without zone, in seconds."""

    __visit_name__ = "TIMESTAMP_S"


class TIMESTAMP_MS(sqltypes.DateTime):  # noqa: N801
    """A date and time without zone, in milliseconds."""

    __visit_name__ = "TIMESTAMP_MS"


class TIMESTAMP_NS(sqltypes.DateTime):  # noqa: N801
    """A date and time without zone, in nanoseconds; Python sees microseconds."""

    __visit_name__ = "TIMESTAMP_NS"


class INTERVAL(NativeForEmulated, _AbstractInterval):
    """A span of time; Python sees a timedelta, in which a month has 30 days."""

    __visit_name__ = "INTERVAL"

    @classmethod
    def adapt_emulated_to_native(cls, impl: Any, **_: Any) -> INTERVAL:
        """Stand in for SQLAlchemy's generic Interval."""
        return cls()

    @property
    def python_type(self) -> type[dt.timedelta]:
        """Name the Python type of the values."""
        return dt.timedelta

    def literal_processor(self, dialect: Dialect) -> Processor | None:
        """Write days and microseconds, which is all that a timedelta holds."""

        def process(value: dt.timedelta) -> str:
            rest = value - dt.timedelta(value.days)
            micros = rest // dt.timedelta(microseconds=1)
            return f"INTERVAL '{value.days} days {micros} microseconds'"

        return process


class VARIANT(TypeEngine[Any]):
    """Any value, each with a type of its own."""

    __visit_name__ = "VARIANT"
    render_bind_cast = True


class GEOMETRY(TypeEngine[bytes]):
    """A shape; Python sees well-known binary, and may also write well-known text."""

    __visit_name__ = "GEOMETRY"

    def bind_expression(self, bindvalue: BindParameter[Any]) -> ColumnElement[Any] | None:
        """Let the engine read well-known binary; text it casts by itself."""
        if isinstance(bindvalue.value, str):
            return None
        return func.ST_GeomFromWKB(bindvalue, type_=self)


class STRUCT(TypeEngine[dict[str, Any]]):
    """Named fields, each with its type: ``STRUCT({"x": Double, "y": Double})``."""

    __visit_name__ = "STRUCT"
    render_bind_cast = True

    def __init__(self, fields: Mapping[str, Any] | Iterable[tuple[str, Any]]) -> None:
        pairs = fields.items() if isinstance(fields, Mapping) else fields
        self.fields = tuple((name, sqltypes.to_instance(type_)) for name, type_ in pairs)

    @property
    def _static_cache_key(self) -> Any:
        # SQLAlchemy's own looks for types among the arguments, not inside of them; without
        # this, equal STRUCTs would each be compiled anew.
        keys = ((name, kind._static_cache_key) for name, kind in self.fields)  # noqa: SLF001
        return (type(self), *keys)

    @property
    def python_type(self) -> type[dict[str, Any]]:
        """Name the Python type of the values."""
        return dict

    def bind_processor(self, dialect: Dialect) -> Processor | None:
        """Convert the fields whose own types convert."""
        return values.of_fields({name: _binding(kind, dialect) for name, kind in self.fields})

    def result_processor(self, dialect: Dialect, coltype: object) -> Processor | None:
        """Convert the fields whose own types convert."""
        return values.of_fields({name: _reading(kind, dialect) for name, kind in self.fields})


class MAP(TypeEngine[dict[Any, Any]]):
    """Values by key: ``MAP(String, Integer)``."""

    __visit_name__ = "MAP"
    render_bind_cast = True

    def __init__(self, key_type: Any, value_type: Any) -> None:
        self.key_type = cast("TypeEngine[Any]", sqltypes.to_instance(key_type))
        self.value_type = cast("TypeEngine[Any]", sqltypes.to_instance(value_type))

    @property
    def python_type(self) -> type[dict[Any, Any]]:
        """Name the Python type of the values."""
        return dict

    def bind_processor(self, dialect: Dialect) -> Processor | None:
        """Send keys and values as two lists.

        DuckDB would take a plain dict for a STRUCT, whose keys are text, and one whose keys
        happen to be ``key`` and ``value`` for the two lists.
        """
        key_of = _binding(self.key_type, dialect) or values.same
        value_of = _binding(self.value_type, dialect) or values.same

        def process(value: Mapping[Any, Any] | None) -> Any:
            if value is None:
                return None
            return {
                "key": [key_of(key) for key in value],
                "value": [value_of(one) for one in value.values()],
            }

        return process

    def result_processor(self, dialect: Dialect, coltype: object) -> Processor | None:
        """Convert keys and values if their types convert."""
        reading = _reading(self.key_type, dialect), _reading(self.value_type, dialect)
        if reading == (None, None):
            return None
        key_of, value_of = (process or values.same for process in reading)

        def process(value: Mapping[Any, Any] | None) -> Any:
            if value is None:
                return None
            return {key_of(key): value_of(one) for key, one in value.items()}

        return process


class LakeArray(sqltypes.ARRAY):  # type: ignore[type-arg]  # generic in SQLAlchemy 2.1 only
    """A list of any length; elements cross the border as their own type does."""

    render_bind_cast = True

    def bind_processor(self, dialect: Dialect) -> Processor | None:
        """Convert the elements if their type converts."""
        return values.of_elements(_binding(self.item_type, dialect), self.dimensions or 1)

    def result_processor(self, dialect: Dialect, coltype: object) -> Processor | None:
        """Convert the elements if their type converts."""
        return values.of_elements(_reading(self.item_type, dialect), self.dimensions or 1)

    def literal_processor(self, dialect: Dialect) -> Processor | None:
        """Write a list of literals."""
        element = self.item_type.dialect_impl(dialect).literal_processor(dialect)
        if element is None:
            return None

        def process(value: Any) -> str:
            if isinstance(value, list | tuple):
                return f"[{', '.join(process(one) for one in value)}]"
            return "NULL" if value is None else element(value)

        return process


class LakeNumeric(sqltypes.Numeric[Any]):
    """An exact number."""

    def bind_processor(self, dialect: Dialect) -> Processor | None:
        """Send exactly what Python holds, with no float on the way."""
        return values.exact_number

    def literal_processor(self, dialect: Dialect) -> Processor | None:
        """Write plain digits: ``1E+5`` would be a DOUBLE to the engine."""
        return values.digits


class LakeFloat(sqltypes.Float[Any]):
    """A floating point number."""

    def literal_processor(self, dialect: Dialect) -> Processor | None:
        """Write also those floats that are no digits."""
        return values.float_literal


class LakeBinary(sqltypes.LargeBinary):
    """Bytes, which the client takes and gives as they are."""

    def bind_processor(self, dialect: Dialect) -> Processor | None:
        """Send the value as it is."""
        return None

    def result_processor(self, dialect: Dialect, coltype: object) -> Processor | None:
        """Give the value as it is."""
        return None

    def literal_processor(self, dialect: Dialect) -> Processor | None:
        """Write every byte as two hexadecimal digits."""
        return values.blob_literal


class LakeUuid(sqltypes.Uuid[Any]):
    """A UUID; cast, because ``as_uuid=False`` sends text."""

    render_bind_cast = True

    def bind_processor(self, dialect: Dialect) -> Processor | None:
        """Send a UUID as text too, so that both spellings share one plan."""
        return values.uuid_text if self.native_uuid else super().bind_processor(dialect)


class LakeJSON(sqltypes.JSON):
    """JSON, as text on the way in and out, through the engine's serializers."""

    render_bind_cast = True


class LakeJSONIndex(sqltypes.JSON.JSONIndexType):
    """One step into JSON, as a path of one step."""

    def bind_processor(self, dialect: Dialect) -> Processor:
        """Turn the key or place into a path."""
        return values.json_step

    def literal_processor(self, dialect: Dialect) -> Processor:
        """Turn the key or place into the literal of a path."""
        return lambda value: values.text_literal(values.json_step(value))


class LakeJSONPath(sqltypes.JSON.JSONPathType):
    """Several steps into JSON."""

    def bind_processor(self, dialect: Dialect) -> Processor:
        """Turn the keys and places into a path."""
        return values.json_path

    def literal_processor(self, dialect: Dialect) -> Processor:
        """Turn the keys and places into the literal of a path."""
        return lambda value: values.text_literal(values.json_path(value))


COLSPECS: dict[type[TypeEngine[Any]], type[TypeEngine[Any]]] = {
    sqltypes.ARRAY: LakeArray,
    sqltypes.Float: LakeFloat,
    sqltypes.Interval: INTERVAL,
    sqltypes.JSON: LakeJSON,
    sqltypes.JSON.JSONIndexType: LakeJSONIndex,
    sqltypes.JSON.JSONPathType: LakeJSONPath,
    sqltypes.LargeBinary: LakeBinary,
    sqltypes.Numeric: LakeNumeric,
    sqltypes.Uuid: LakeUuid,
}


def duckdb_type(sqltype: TypeEngine[Any], dialect: Dialect) -> str:
    """Write a type as DuckDB spells it, as in ``CREATE TABLE`` and ``CAST``."""
    return dialect.type_compiler_instance.process(sqltype)


def _binding(kind: Any, dialect: Dialect) -> Processor | None:
    return cast("Processor | None", kind.dialect_impl(dialect).bind_processor(dialect))


def _reading(kind: Any, dialect: Dialect) -> Processor | None:
    return cast("Processor | None", kind.dialect_impl(dialect).result_processor(dialect, None))
