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
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

from sqlalchemy import exc, func, type_coerce
from sqlalchemy import types as sqltypes
from sqlalchemy.engine.interfaces import Dialect
from sqlalchemy.sql import operators
from sqlalchemy.sql.elements import BindParameter, ColumnElement
from sqlalchemy.sql.sqltypes import _AbstractInterval
from sqlalchemy.sql.type_api import NativeForEmulated, TypeEngine

from sqlalchemy_ducklake.dialect import values
from sqlalchemy_ducklake.dialect.access import FieldAccess, PartAccess, ValueAccess
from sqlalchemy_ducklake.dialect.standard import (
    LakeArray,
    LakeBinary,
    LakeDate,
    LakeFloat,
    LakeJSON,
    LakeJSONIndex,
    LakeJSONPath,
    LakeNumeric,
    LakeTime,
    LakeUuid,
)
from sqlalchemy_ducklake.dialect.values import Processor
from sqlalchemy_ducklake.driver import Fields

# SQLAlchemy 2.1 asks which operators a type has; 2.0 lets every type have all.
_ANY_OPERATOR: Any = getattr(getattr(operators, "OperatorClass", None), "ANY", None)


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
        return None if str(coltype) in ("HUGEINT", "UHUGEINT") else values.whole_number


class UHUGEINT(HUGEINT):
    """An integer of up to 38 digits, not negative, created as DECIMAL(38, 0)."""

    __visit_name__ = "UHUGEINT"


class _Coarse(sqltypes.DateTime):
    """A date and time in steps of ``step`` microseconds; the engine would round to them."""

    step = 1

    def literal_processor(self, dialect: Dialect) -> Processor | None:
        """Write a value; raises CompileError for one between two steps."""
        write = cast("Processor", super().literal_processor(dialect))

        def process(value: dt.datetime) -> str:
            if value.microsecond % self.step:
                raise exc.CompileError(f"{value!r} is between two steps of {self!r}")
            return str(write(value))

        return process


class TIMESTAMP_S(_Coarse):  # noqa: N801 - as the engine names it
    """A date and time without zone, in seconds."""

    __visit_name__ = "TIMESTAMP_S"
    step = 1_000_000


class TIMESTAMP_MS(_Coarse):  # noqa: N801
    """A date and time without zone, in milliseconds."""

    __visit_name__ = "TIMESTAMP_MS"
    step = 1_000


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


class LakeType(TypeEngine[Any]):
    """A type that SQLAlchemy has not, compared with values of its own kind only."""

    operator_classes = _ANY_OPERATOR

    def coerce_compared_value(self, op: Any, value: Any) -> TypeEngine[Any]:
        """Take what a column is compared with for a value of the column."""
        return self


class VARIANT(sqltypes.Indexable, LakeType):
    """Any value, each with a type of its own; ``v["x"]`` and ``v[1]`` are its parts."""

    __visit_name__ = "VARIANT"
    comparator_factory = PartAccess
    render_bind_cast = True

    def bind_processor(self, dialect: Dialect) -> Processor | None:
        """Send dicts as STRUCTs, which the driver refuses where the client would not."""
        return values.no_map


class GEOMETRY(LakeType):
    """A shape, in well-known binary; ``cast(literal("POINT (1 2)"), GEOMETRY)`` reads text."""

    __visit_name__ = "GEOMETRY"

    def bind_expression(self, bindvalue: BindParameter[Any]) -> ColumnElement[Any]:
        """Let the engine read well-known binary, which it does not cast."""
        return func.ST_GeomFromWKB(type_coerce(bindvalue, sqltypes.LargeBinary), type_=self)


class STRUCT(sqltypes.Indexable, LakeType):
    """Named fields, each with its type: ``STRUCT({"x": Double, "y": Double})``."""

    __visit_name__ = "STRUCT"
    comparator_factory = FieldAccess
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
        """Give all fields, in order; raises ValueRefused for one that there is not."""
        return values.struct_of(
            {name: values.binding(kind, dialect) for name, kind in self.fields},
            str(self.compile(dialect=dialect)),
        )

    def result_processor(self, dialect: Dialect, coltype: object) -> Processor | None:
        """Convert the fields whose own types convert."""
        return values.of_fields(
            {name: values.reading(kind, dialect) for name, kind in self.fields}
        )

    def literal_processor(self, dialect: Dialect) -> Processor | None:
        """Write each field as a literal of its type."""
        writers = {name: values.writing(kind, dialect) for name, kind in self.fields}
        return values.struct_literal(writers, str(self.compile(dialect=dialect)))


class MAP(sqltypes.Indexable, LakeType):
    """Values by key: ``MAP(String, Integer)``."""

    __visit_name__ = "MAP"
    comparator_factory = ValueAccess
    render_bind_cast = True

    def __init__(self, key_type: Any, value_type: Any) -> None:
        self.key_type = cast("TypeEngine[Any]", sqltypes.to_instance(key_type))
        self.value_type = cast("TypeEngine[Any]", sqltypes.to_instance(value_type))

    @property
    def python_type(self) -> type[dict[Any, Any]]:
        """Name the Python type of the values."""
        return dict

    def bind_expression(self, bindvalue: BindParameter[Any]) -> ColumnElement[Any]:
        """Send a list of entries.

        DuckDB would take a dict for a STRUCT, whose keys are text without regard to case, and
        one with the keys ``key`` and ``value`` for something else again.
        """
        entries = _Entries(self.key_type, self.value_type)
        return func.map_from_entries(type_coerce(bindvalue, entries), type_=self)

    def bind_processor(self, dialect: Dialect) -> Processor | None:
        """Convert keys and values inside of another type; a whole MAP goes as entries."""
        return self._converting(values.binding, dialect)

    def literal_processor(self, dialect: Dialect) -> Processor | None:
        """Write keys and values as literals of their types."""
        key = values.writing(self.key_type, dialect)
        value = values.writing(self.value_type, dialect)

        def process(entries: Mapping[Any, Any]) -> str:
            written = (f"{key(name)}: {value(one)}" for name, one in entries.items())
            return "MAP {" + ", ".join(written) + "}"

        return process

    def result_processor(self, dialect: Dialect, coltype: object) -> Processor | None:
        """Convert keys and values if their types convert."""
        return self._converting(values.reading, dialect)

    def _converting(
        self, conversion: Callable[[Any, Dialect], Processor | None], dialect: Dialect
    ) -> Processor | None:
        found = conversion(self.key_type, dialect), conversion(self.value_type, dialect)
        if found == (None, None):
            return None
        key_of, value_of = (process or values.same for process in found)

        def process(value: Mapping[Any, Any] | None) -> Any:
            if value is None:
                return None
            return {key_of(key): value_of(one) for key, one in value.items()}

        return process


class _Entries(LakeArray):
    """The entries of a map, as a list of structs with ``key`` and ``value``."""

    def __init__(self, key_type: Any, value_type: Any) -> None:
        super().__init__(STRUCT([("key", key_type), ("value", value_type)]))
        self.key_type, self.value_type = key_type, value_type

    def bind_processor(self, dialect: Dialect) -> Processor | None:
        """Turn a dict into its entries."""
        key_of = values.binding(self.key_type, dialect) or values.same
        value_of = values.binding(self.value_type, dialect) or values.same

        def process(value: Mapping[Any, Any] | None) -> Any:
            if value is None:
                return None
            return [Fields(key=key_of(key), value=value_of(one)) for key, one in value.items()]

        return process

    def literal_processor(self, dialect: Dialect) -> Processor | None:
        """Write the entries, with their type for the sake of a map that has none."""
        write = values.list_literal(values.writing(self.item_type, dialect))
        kind = duckdb_type(self, dialect)

        def process(value: Mapping[Any, Any]) -> str:
            entries = [{"key": key, "value": one} for key, one in value.items()]
            return f"CAST({write(entries)} AS {kind})"

        return process


COLSPECS: dict[type[TypeEngine[Any]], type[TypeEngine[Any]]] = {
    sqltypes.ARRAY: LakeArray,
    sqltypes.Date: LakeDate,
    sqltypes.Float: LakeFloat,
    sqltypes.Interval: INTERVAL,
    sqltypes.JSON: LakeJSON,
    sqltypes.JSON.JSONIndexType: LakeJSONIndex,
    sqltypes.JSON.JSONPathType: LakeJSONPath,
    sqltypes.LargeBinary: LakeBinary,
    sqltypes.Numeric: LakeNumeric,
    sqltypes.Time: LakeTime,
    sqltypes.Uuid: LakeUuid,
}


def duckdb_type(sqltype: TypeEngine[Any], dialect: Dialect) -> str:
    """Write a type as DuckDB spells it, as in ``CREATE TABLE`` and ``CAST``."""
    return dialect.type_compiler_instance.process(sqltype)
