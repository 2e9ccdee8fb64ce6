"""What was found in the catalog, as the dictionaries that SQLAlchemy's Inspector returns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy.engine.reflection import ReflectionDefaults

from sqlalchemy_ducklake import keys
from sqlalchemy_ducklake.compat import SQLALCHEMY
from sqlalchemy_ducklake.dialect.reflection.found import Found, FoundColumn
from sqlalchemy_ducklake.dialect.reflection.typenames import TypeName, parse, sql_type

_INTEGER_BITS = {"TINYINT": 8, "SMALLINT": 16, "INTEGER": 32}


def columns(found: Found) -> list[dict[str, Any]]:
    """Describe the columns."""
    said = found.constraints()
    return [_column(column, said) for column in found.columns]


def _column(column: FoundColumn, said: keys.Constraints) -> dict[str, Any]:
    kind = _declared_type(column, said) if said.types else column.type
    one: dict[str, Any] = {
        "name": column.name,
        "type": sql_type(kind),
        "nullable": column.nullable,
        "default": column.default,
        "comment": column.comment and keys.split_comment(column.comment)[0],
    }
    if column.name in said.identity:
        one["identity"] = _identity(said.identity[column.name], column.type)
    if column.name in said.computed:
        one["computed"] = {"sqltext": said.computed[column.name], "persisted": True}
    return one


def _declared_type(column: FoundColumn, said: keys.Constraints) -> TypeName:
    """Return the type with the length that was declared, if it is still one of text."""
    declared = said.types.get(column.name)
    return column.type if declared is None or column.type.name != "VARCHAR" else parse(declared)


def _identity(options: Mapping[str, Any], kind: TypeName) -> dict[str, Any]:
    """Add what was not said; the numbers are limited by the type of the column."""
    highest = 2 ** (_INTEGER_BITS.get(kind.name, 64) - 1) - 1
    up = options.get("increment", 1) > 0
    lowest_said, highest_said = (1, highest) if up else (-highest - 1, -1)
    said: dict[str, Any] = {
        "always": False,
        "increment": 1,
        "minvalue": lowest_said,
        "maxvalue": highest_said,
        "cycle": False,
        "cache": 1,
        **options,
    }
    said.setdefault("start", said["minvalue"] if up else said["maxvalue"])
    return said


def primary_key(found: Found) -> Any:
    """Describe the primary key."""
    key = found.primary_key()
    if key is None:
        return ReflectionDefaults.pk_constraint()
    return {"constrained_columns": list(key.columns), "name": key.name}


def _by_name(described: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Sort as SQLAlchemy wants it: those without a name first."""
    return sorted(described, key=lambda one: (one["name"] is not None, one["name"] or ""))


def unique_constraints(found: Found) -> list[dict[str, Any]]:
    """Describe the unique constraints."""
    return _by_name(
        {"name": one.name, "column_names": list(one.columns)}
        for one in found.constraints().unique
    )


def foreign_keys(found: Found, schema: str | None, default: str | None) -> list[dict[str, Any]]:
    """Describe the foreign keys, seen from a schema that was asked for."""
    return _by_name(
        {
            "name": one.name,
            "constrained_columns": list(one.columns),
            "referred_schema": _referred_schema(one.schema, schema, default),
            "referred_table": one.table,
            "referred_columns": list(one.referred),
            "options": _foreign_key_options(one.options),
        }
        for one in found.constraints().foreign_keys
    )


def _referred_schema(stored: str | None, asked: str | None, default: str | None) -> str | None:
    if stored is None:
        return asked
    return None if stored == default else stored


def _foreign_key_options(options: Mapping[str, Any]) -> dict[str, Any]:
    kept = {name: value for name, value in options.items() if value != "NO ACTION"}
    if "initially" in kept:
        kept["initially"] = kept["initially"].upper()
    return kept


def check_constraints(found: Found) -> list[dict[str, Any]]:
    """Describe the check constraints."""
    return _by_name(
        {"name": one.name, "sqltext": one.sqltext} for one in found.constraints().checks
    )


def indexes(found: Found) -> list[dict[str, Any]]:
    """Describe the declared indexes."""
    return _by_name(_index(one) for one in found.constraints().indexes)


def _index(index: keys.Index) -> dict[str, Any]:
    described: dict[str, Any] = {
        "name": index.name,
        "column_names": list(index.columns),
        "unique": index.unique,
        "dialect_options": {"ducklake_include": list(index.include)},
    }
    if SQLALCHEMY < (2, 1):
        described["include_columns"] = list(index.include)
    if index.expressions:
        described["expressions"] = list(index.expressions)
    if index.sorting:
        described["column_sorting"] = {name: tuple(one) for name, one in index.sorting.items()}
    return described


def table_comment(found: Found) -> dict[str, Any]:
    """Describe the user's comment."""
    comment, _ = keys.split_comment(found.comment)
    return {"text": comment}
