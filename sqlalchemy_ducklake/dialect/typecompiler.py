"""Every SQLAlchemy type as DuckDB text, or the reason why a lake cannot store it.

Where a generic type leaves room, the choice is what a Python program means by it:

- ``Float`` is DOUBLE, because a Python float is one.  ``REAL``, the upper-case ``FLOAT``
  and ``Float(p)`` with p ≤ 24 are the 32-bit FLOAT that DuckDB means by these names.
- ``Numeric`` without precision is DECIMAL(38, 9): 29 digits before the point and 9 after.
  DuckDB's own choice, DECIMAL(18, 3), would round money at the third digit.
- ``Enum`` is VARCHAR, ``HUGEINT`` is DECIMAL(38, 0): DuckLake has no enum types and loses
  digits of a HUGEINT.
- A length of VARCHAR or CHAR is accepted and dropped by the engine.
"""

# The methods are named as SQLAlchemy calls them, after the types.
# ruff: noqa: N802, N815

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlalchemy import exc
from sqlalchemy import types as sqltypes
from sqlalchemy.sql.compiler import GenericTypeCompiler

from sqlalchemy_ducklake.dialect.types import MAP, STRUCT

WIDEST_DECIMAL = 38
WIDEST_FLOAT = 24
DEFAULT_DECIMAL = "DECIMAL(38, 9)"


def _spelled(text: str) -> Callable[..., str]:
    def visit(_compiler: GenericTypeCompiler, _type: Any, **_: Any) -> str:
        return text

    return visit


class DuckLakeTypeCompiler(GenericTypeCompiler):
    """Write types as DuckDB spells them."""

    visit_REAL = _spelled("FLOAT")
    visit_DOUBLE_PRECISION = _spelled("DOUBLE")
    visit_TINYINT = _spelled("TINYINT")
    visit_UTINYINT = _spelled("UTINYINT")
    visit_USMALLINT = _spelled("USMALLINT")
    visit_UINTEGER = _spelled("UINTEGER")
    visit_UBIGINT = _spelled("UBIGINT")
    visit_HUGEINT = _spelled("DECIMAL(38, 0)")
    visit_UHUGEINT = _spelled("DECIMAL(38, 0)")
    visit_TIMESTAMP_S = _spelled("TIMESTAMP_S")
    visit_TIMESTAMP_MS = _spelled("TIMESTAMP_MS")
    visit_TIMESTAMP_NS = _spelled("TIMESTAMP_NS")
    visit_INTERVAL = _spelled("INTERVAL")
    visit_enum = _spelled("VARCHAR")
    visit_ENUM = _spelled("VARCHAR")
    visit_BINARY = _spelled("BLOB")
    visit_VARBINARY = _spelled("BLOB")
    visit_JSON = _spelled("JSON")
    visit_VARIANT = _spelled("VARIANT")
    visit_GEOMETRY = _spelled("GEOMETRY")

    def visit_float(self, type_: sqltypes.Float[Any], **kw: Any) -> str:
        """Write DOUBLE unless a small precision is asked for."""
        return "DOUBLE" if type_.precision is None else self.visit_FLOAT(type_, **kw)

    def visit_FLOAT(self, type_: sqltypes.Float[Any], **_: Any) -> str:
        """Write the 32-bit FLOAT, or DOUBLE for a precision it has not."""
        return "DOUBLE" if (type_.precision or 0) > WIDEST_FLOAT else "FLOAT"

    def visit_NUMERIC(self, type_: sqltypes.Numeric[Any], **_: Any) -> str:
        """Write DECIMAL with precision and scale."""
        if type_.precision is None:
            return DEFAULT_DECIMAL
        precision, scale = type_.precision, type_.scale or 0
        if not 0 < precision <= WIDEST_DECIMAL or not 0 <= scale <= precision:
            raise exc.CompileError(
                f"DECIMAL({precision}, {scale}) cannot be stored: a lake has 1 to "
                f"{WIDEST_DECIMAL} digits, and no more of them after the point than in all"
            )
        return f"DECIMAL({precision}, {scale})"

    def visit_DECIMAL(self, type_: sqltypes.DECIMAL[Any], **kw: Any) -> str:
        """Write DECIMAL with precision and scale."""
        return self.visit_NUMERIC(type_, **kw)

    def visit_TIMESTAMP(self, type_: sqltypes.DateTime, **_: Any) -> str:
        """Write TIMESTAMP, with its zone if it has one."""
        return "TIMESTAMP WITH TIME ZONE" if type_.timezone else "TIMESTAMP"

    def visit_DATETIME(self, type_: sqltypes.DateTime, **kw: Any) -> str:
        """Write TIMESTAMP, with its zone if it has one."""
        return self.visit_TIMESTAMP(type_, **kw)

    def visit_TIME(self, type_: sqltypes.Time, **_: Any) -> str:
        """Write TIME, with its zone if it has one."""
        return "TIME WITH TIME ZONE" if type_.timezone else "TIME"

    def visit_VARCHAR(self, type_: sqltypes.String, **_: Any) -> str:
        """Write VARCHAR, for every type of text."""
        if type_.collation:
            raise exc.CompileError(
                f"a lake has no collations, so {type_.collation!r} cannot be kept; leave it "
                "out and collate in the query"
            )
        return f"VARCHAR({type_.length})" if type_.length else "VARCHAR"

    visit_CHAR = visit_NCHAR = visit_NVARCHAR = visit_VARCHAR
    visit_TEXT = visit_CLOB = visit_NCLOB = visit_VARCHAR

    def visit_uuid(self, type_: sqltypes.Uuid[Any], **_: Any) -> str:
        """Write UUID, or text where the user wants no native one."""
        return "UUID" if type_.native_uuid else "VARCHAR(32)"

    def visit_ARRAY(self, type_: Any, **kw: Any) -> str:
        """Write a list of lists as deep as its dimensions."""
        return self.process(type_.item_type, **kw) + "[]" * (type_.dimensions or 1)

    def visit_STRUCT(self, type_: STRUCT, **kw: Any) -> str:
        """Write the fields in order, their names quoted."""
        if not type_.fields:
            raise exc.CompileError("a STRUCT needs at least one field")
        quote = self.dialect.identifier_preparer.quote_identifier
        fields = (f"{quote(name)} {self.process(kind, **kw)}" for name, kind in type_.fields)
        return f"STRUCT({', '.join(fields)})"

    def visit_MAP(self, type_: MAP, **kw: Any) -> str:
        """Write the types of key and value."""
        key, value = self.process(type_.key_type, **kw), self.process(type_.value_type, **kw)
        return f"MAP({key}, {value})"

    def visit_BIT(self, _type: Any, **_: Any) -> str:
        """Refuse: DuckLake has no such type."""
        raise exc.CompileError(
            "a lake cannot store BIT; use LargeBinary, an integer or ARRAY(Boolean)"
        )
