"""Names of types, from the engine and from the catalog, and back."""

from typing import Any

import pytest
from sqlalchemy import exc, types

from sqlalchemy_ducklake.dialect import types as lake
from sqlalchemy_ducklake.dialect.base import DuckLakeDialect
from sqlalchemy_ducklake.dialect.reflection.typenames import (
    CatalogType,
    TypeName,
    of_catalog,
    parse,
    sql_type,
)
from sqlalchemy_ducklake.dialect.types import duckdb_type

INTEGER, VARCHAR = TypeName("INTEGER"), TypeName("VARCHAR")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("INTEGER", INTEGER),
        ("integer", INTEGER),
        ("DECIMAL(10,2)", TypeName("DECIMAL", (10, 2))),
        ("TIMESTAMP WITH TIME ZONE", TypeName("TIMESTAMP WITH TIME ZONE")),
        ("INTEGER[]", TypeName("LIST", (), (("element", INTEGER),))),
        ("INTEGER[3]", TypeName("ARRAY", (3,), (("element", INTEGER),))),
        ("MAP(VARCHAR, INTEGER)", TypeName("MAP", (), (("key", VARCHAR), ("value", INTEGER)))),
        (
            'STRUCT(a INTEGER, "say ""hi"", (x)" VARCHAR)',
            TypeName("STRUCT", (), (("a", INTEGER), ('say "hi", (x)', VARCHAR))),
        ),
    ],
)
def test_the_engines_text_is_read(text: str, name: TypeName) -> None:
    assert parse(text) == name


@pytest.mark.parametrize(
    "text",
    ["", "(", "INTEGER[", "INTEGER]", "DECIMAL(", "DECIMAL(a)", "STRUCT(a", "a; b", "MAP(a)"],
)
def test_what_is_no_type_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not the name of a type"):
        parse(text)


TYPES: list[Any] = [
    types.BOOLEAN(),
    lake.TINYINT(),
    types.SMALLINT(),
    types.INTEGER(),
    types.BIGINT(),
    lake.UTINYINT(),
    lake.USMALLINT(),
    lake.UINTEGER(),
    lake.UBIGINT(),
    types.REAL(),
    types.DOUBLE(),
    types.DECIMAL(12, 3),
    types.VARCHAR(),
    types.BLOB(),
    types.DATE(),
    types.TIME(),
    types.TIME(timezone=True),
    types.TIMESTAMP(),
    types.TIMESTAMP(timezone=True),
    lake.TIMESTAMP_S(),
    lake.TIMESTAMP_MS(),
    lake.TIMESTAMP_NS(),
    lake.INTERVAL(),
    types.UUID(),
    types.JSON(),
    lake.VARIANT(),
    lake.GEOMETRY(),
    types.ARRAY(types.INTEGER()),
    types.ARRAY(types.VARCHAR(), dimensions=3),
    lake.STRUCT({"a": types.INTEGER(), "b c": types.ARRAY(lake.STRUCT({"x": types.DATE()}))}),
    lake.MAP(types.VARCHAR(), lake.MAP(types.DATE(), types.DECIMAL(5, 2))),
]


@pytest.mark.parametrize("kind", TYPES, ids=repr)
def test_a_type_is_read_back_from_its_own_text(kind: Any) -> None:
    text = duckdb_type(kind, DuckLakeDialect())
    again = sql_type(parse(text))
    assert type(again) is type(kind)
    assert repr(again) == repr(kind)


def test_rows_of_the_catalog_become_one_nested_type() -> None:
    inside = {
        1: [CatalogType(2, "n", "int64"), CatalogType(3, "tags", "list")],
        3: [CatalogType(4, "element", "map")],
        4: [CatalogType(5, "key", "varchar"), CatalogType(6, "value", "decimal(5,2)")],
    }
    found = of_catalog(CatalogType(1, "point", "struct"), inside)
    assert found == parse("STRUCT(n BIGINT, tags MAP(VARCHAR, DECIMAL(5,2))[])")


def test_int8_of_the_catalog_has_8_bits_unlike_that_of_the_engine() -> None:
    assert of_catalog(CatalogType(1, "n", "int8"), {}) == TypeName("TINYINT")


def test_an_unknown_type_is_null_with_a_warning() -> None:
    with pytest.warns(exc.SAWarning, match="did not recognize the type 'QUATERNION'"):
        assert isinstance(sql_type(parse("QUATERNION")), types.NullType)
