"""Every type as the text that DuckDB understands, and the reasons against the others."""

from typing import Any

import duckdb
import pytest
from sqlalchemy import exc, types
from sqlalchemy.dialects import postgresql

from sqlalchemy_ducklake.dialect import types as lake
from sqlalchemy_ducklake.dialect.base import DuckLakeDialect
from sqlalchemy_ducklake.dialect.types import duckdb_type

dialect = DuckLakeDialect()

SPELLED = [
    (types.Boolean(), "BOOLEAN"),
    (lake.TINYINT(), "TINYINT"),
    (types.SmallInteger(), "SMALLINT"),
    (types.Integer(), "INTEGER"),
    (types.BigInteger(), "BIGINT"),
    (lake.UTINYINT(), "UTINYINT"),
    (lake.USMALLINT(), "USMALLINT"),
    (lake.UINTEGER(), "UINTEGER"),
    (lake.UBIGINT(), "UBIGINT"),
    (lake.HUGEINT(), "DECIMAL(38, 0)"),
    (lake.UHUGEINT(), "DECIMAL(38, 0)"),
    (types.Float(), "DOUBLE"),
    (types.Float(24), "FLOAT"),
    (types.Float(53), "DOUBLE"),
    (types.FLOAT(), "FLOAT"),
    (types.REAL(), "FLOAT"),
    (types.Double(), "DOUBLE"),
    (types.DOUBLE_PRECISION(), "DOUBLE"),
    (types.Numeric(), "DECIMAL(38, 9)"),
    (types.Numeric(10), "DECIMAL(10, 0)"),
    (types.Numeric(10, 2), "DECIMAL(10, 2)"),
    (types.DECIMAL(38, 38), "DECIMAL(38, 38)"),
    (types.String(), "VARCHAR"),
    (types.String(30), "VARCHAR(30)"),
    (types.Text(), "VARCHAR"),
    (types.Unicode(5), "VARCHAR(5)"),
    (types.UnicodeText(), "VARCHAR"),
    (types.CHAR(3), "VARCHAR(3)"),
    (types.NVARCHAR(3), "VARCHAR(3)"),
    (types.CLOB(), "VARCHAR"),
    (types.Enum("a", "b"), "VARCHAR"),
    (postgresql.ENUM("a", name="e"), "VARCHAR"),
    (types.LargeBinary(5), "BLOB"),
    (types.BINARY(5), "BLOB"),
    (types.VARBINARY(5), "BLOB"),
    (types.PickleType(), "BLOB"),
    (types.Date(), "DATE"),
    (types.Time(), "TIME"),
    (types.Time(timezone=True), "TIME WITH TIME ZONE"),
    (types.DateTime(), "TIMESTAMP"),
    (types.DateTime(timezone=True), "TIMESTAMP WITH TIME ZONE"),
    (types.DATETIME(), "TIMESTAMP"),
    (types.TIMESTAMP(timezone=True), "TIMESTAMP WITH TIME ZONE"),
    (lake.TIMESTAMP_S(), "TIMESTAMP_S"),
    (lake.TIMESTAMP_MS(), "TIMESTAMP_MS"),
    (lake.TIMESTAMP_NS(), "TIMESTAMP_NS"),
    (types.Interval(), "INTERVAL"),
    (types.Uuid(), "UUID"),
    (types.Uuid(as_uuid=False), "UUID"),
    (types.UUID(), "UUID"),
    (types.Uuid(native_uuid=False), "VARCHAR(32)"),
    (types.JSON(), "JSON"),
    (postgresql.JSON(), "JSON"),
    (types.ARRAY(types.Integer), "INTEGER[]"),
    (types.ARRAY(types.String(), dimensions=2), "VARCHAR[][]"),
    (lake.STRUCT({"x": types.Double, 'say "hi"': types.Date}), None),
    (lake.MAP(types.String, lake.STRUCT([("n", types.Integer)])), None),
    (types.ARRAY(lake.MAP(types.String, types.JSON)), "MAP(VARCHAR, JSON)[]"),
    (lake.VARIANT(), "VARIANT"),
    (lake.GEOMETRY(), "GEOMETRY"),
]


@pytest.mark.parametrize(("kind", "text"), SPELLED, ids=repr)
def test_a_type_is_spelled_so_that_the_engine_takes_it(kind: Any, text: str | None) -> None:
    spelled = duckdb_type(kind, dialect)
    assert text in {None, spelled}
    duckdb.execute(f"SELECT CAST(NULL AS {spelled})")


def test_fields_of_a_struct_are_quoted() -> None:
    kind = lake.STRUCT({"x": types.Double, 'say "hi"': types.ARRAY(types.Date)})
    assert duckdb_type(kind, dialect) == 'STRUCT("x" DOUBLE, "say ""hi""" DATE[])'


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        (types.Numeric(39, 2), "DECIMAL.39, 2. cannot be stored"),
        (types.Numeric(5, 6), "DECIMAL.5, 6. cannot be stored"),
        (types.Numeric(5, -1), "cannot be stored"),
        (types.String(collation="NOCASE"), "no collations, so 'NOCASE'"),
        (postgresql.BIT(), "cannot store BIT; use"),
        (lake.STRUCT({}), "at least one field"),
        (postgresql.INET(), "INET"),
    ],
    ids=repr,
)
def test_a_type_that_a_lake_cannot_store_is_refused_with_the_reason(
    kind: Any, says: str
) -> None:
    with pytest.raises(exc.CompileError, match=says):
        duckdb_type(kind, dialect)


def test_equal_structs_share_a_compiled_statement() -> None:
    fields = {"x": types.Double, "tags": types.ARRAY(types.String)}
    assert lake.STRUCT(fields)._static_cache_key == lake.STRUCT(fields)._static_cache_key
    hash(lake.STRUCT(fields)._static_cache_key)
