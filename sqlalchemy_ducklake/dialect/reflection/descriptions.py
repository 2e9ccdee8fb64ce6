"""What was found in the catalog, as the dictionaries that SQLAlchemy's Inspector returns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy.engine.reflection import ReflectionDefaults

from sqlalchemy_ducklake import keys
from sqlalchemy_ducklake.dialect.reflection.catalog import Found
from sqlalchemy_ducklake.dialect.reflection.typenames import sql_type


def columns(found: Found) -> list[dict[str, Any]]:
    """Describe the columns."""
    identity = found.constraints().identity
    described = []
    for column in found.columns:
        comment, _ = keys.split_comment(column.comment)
        one = {
            "name": column.name,
            "type": sql_type(column.type),
            "nullable": column.nullable,
            "default": column.default,
            "comment": comment,
        }
        if column.name in identity:
            one["identity"] = dict(identity[column.name])
        described.append(one)
    return described


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
    }
    if index.expressions:
        described["expressions"] = list(index.expressions)
    return described


def table_comment(found: Found) -> dict[str, Any]:
    """Describe the user's comment."""
    comment, _ = keys.split_comment(found.comment)
    return {"text": comment}
