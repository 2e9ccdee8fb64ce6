"""Fields of structs, values of maps, elements of lists, and lists in FROM."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import duckdb
import pytest
from sqlalchemy import (
    ARRAY,
    JSON,
    Column,
    Connection,
    Date,
    Double,
    Integer,
    MetaData,
    Numeric,
    String,
    Table,
    Uuid,
    any_,
    bindparam,
    cast,
    column,
    create_engine,
    exc,
    func,
    insert,
    select,
    true,
    update,
)

from sqlalchemy_ducklake import driver, errors
from sqlalchemy_ducklake.dialect import types as lake

ID = uuid.UUID("12345678-9abc-def0-1234-56789abcdef0")
DAY = dt.date(2024, 2, 29)
POINT = lake.STRUCT({"x": Double, "y z": Numeric(10, 2), "it's": lake.STRUCT({"j": JSON})})

things = Table(
    "things",
    MetaData(),
    Column("id", Integer),
    Column("point", POINT),
    Column("owners", lake.MAP(String, lake.STRUCT({"u": Uuid(as_uuid=False)}))),
    Column("tags", ARRAY(String)),
    Column("parts", ARRAY(lake.STRUCT({"a": JSON}))),
    Column("days", lake.MAP(Date, Integer)),
    Column("any", lake.VARIANT()),
)
THING = {
    "id": 1,
    "point": {"x": 1.5, "y z": Decimal("2.50"), "it's": {"j": {"a": 1}}},
    "owners": {"k": {"u": str(ID)}},
    "tags": ["a", "b"],
    "parts": [{"a": [1]}],
    "days": {DAY: 5},
    "any": {"x": [1, 2]},
}
c = things.c


@pytest.fixture(scope="module")
def connection() -> Iterator[Connection]:
    engine = create_engine("ducklake://")
    with engine.begin() as connection:
        things.create(connection)
        connection.execute(insert(things), THING)
        yield connection
    engine.dispose()


@pytest.mark.parametrize(
    ("expression", "found"),
    [
        (c.point["x"], 1.5),
        (c.point["y z"], Decimal("2.50")),
        (c.point["it's"]["j"], {"a": 1}),
        (c.point["it's"]["j"]["a"].as_integer(), 1),
        (c.owners["k"], {"u": str(ID)}),
        (c.owners["k"]["u"], str(ID)),
        (c.owners["nobody"], None),
        (c.owners["nobody"]["u"], None),
        (c.parts[1]["a"], [1]),
        (c.parts[9]["a"], None),
        (c.tags[1:1], ["a"]),
        (c.days[DAY], 5),
        (c.days[DAY] + 1, 6),
        (cast(c.any["x"][2], Integer), 2),
    ],
)
def test_what_is_inside_is_addressed_and_has_its_type(
    connection: Connection, expression: Any, found: Any
) -> None:
    assert connection.scalar(select(expression)) == found
    literally = select(expression).compile(connection, compile_kwargs={"literal_binds": True})
    assert len(connection.exec_driver_sql(str(literally)).all()) == 1


@pytest.mark.parametrize(
    "condition",
    [
        c.point["x"] == 1.5,
        c.point["y z"] + 1 > 3,
        c.point["x"].in_([1.5, 2]),
        c.owners["k"]["u"] == str(ID),
        c.owners["nobody"].is_(None),
        any_(c.tags) == "a",
        c.days[bindparam("day", DAY)] == 5,
    ],
)
def test_conditions_reach_inside(connection: Connection, condition: Any) -> None:
    assert connection.scalars(select(c.id).where(condition)).all() == [1]
    assert connection.scalars(select(c.id).where(~condition)).all() == []


def test_the_key_of_a_map_is_a_parameter_and_a_field_is_none(connection: Connection) -> None:
    def key(expression: Any) -> Any:
        found: Any = select(expression)._generate_cache_key()
        return found.key

    assert key(c.owners["a"]) == key(c.owners["b"])
    assert key(c.point["x"]) != key(c.point["y z"])
    assert connection.scalar(select(c.point["x"] + c.days[DAY])) == 6.5


def test_many_updates_find_their_rows_by_a_field(connection: Connection) -> None:
    statement = update(things).where(c.point["x"] == bindparam("at")).values(tags=c.tags)
    assert connection.execute(statement, [{"at": 1.5}, {"at": 2}]).rowcount == 1


def test_a_field_that_is_not_there_is_named() -> None:
    with pytest.raises(exc.ArgumentError, match="no field 'w'; its fields are x, y z, it's"):
        c.point["w"]


unnested = func.unnest(c.tags, type_=String)
by_row = func.unnest(c.tags).table_valued(column("tag", String))
beside = func.unnest(c.tags).table_valued("tag", name="beside").lateral()
counted = func.unnest(c.tags).table_valued("tag", with_ordinality="n")


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        (select(c.id, unnested.column_valued("tag")), [(1, "a"), (1, "b")]),
        (select(unnested.column_valued("tag"), c.id), [("a", 1), ("b", 1)]),
        (select(c.id, unnested.column_valued()), [(1, "a"), (1, "b")]),
        (select(unnested), [("a",), ("b",)]),
        (select(c.id, by_row.c.tag), [(1, "a"), (1, "b")]),
        (select(by_row.c.tag).select_from(things.join(by_row, true())), [("a",), ("b",)]),
        (select(beside.c.tag).select_from(things.join(beside, true())), [("a",), ("b",)]),
        (select(c.id, counted.c.tag, counted.c.n), [(1, "a", 1), (1, "b", 2)]),
        (select(func.range(2).column_valued("n")), [(0,), (1,)]),
        (select(func.generate_series(1, 2).table_valued("n").c.n), [(1,), (2,)]),
    ],
)
def test_lists_stand_in_from(connection: Connection, query: Any, rows: list[Any]) -> None:
    assert sorted(connection.execute(query).all()) == rows


TAG = lake.STRUCT({"key": String, "value": String})


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (TAG, {"key": "a", "value": "b"}),
        (ARRAY(TAG), [{"key": "a", "value": "b"}, {"key": "ab", "value": None}]),
        (
            lake.STRUCT({"value": ARRAY(Integer), "key": ARRAY(Integer)}),
            {"key": [1], "value": [2]},
        ),
        (lake.MAP(String, TAG), {"k": {"key": "a", "value": "b"}}),
        (lake.MAP(String, lake.STRUCT({"u": Integer})), {"k": {"u": 1}}),
    ],
    ids=repr,
)
@pytest.mark.parametrize("times", [1, 2])
def test_a_struct_with_a_key_and_a_value_is_no_map(
    connection: Connection, kind: Any, value: Any, times: int
) -> None:
    table = Table("tagged", MetaData(), Column("v", kind), prefixes=["TEMPORARY"])
    table.create(connection)
    connection.execute(insert(table), [{"v": value}] * times)
    if times == 1:
        connection.execute(insert(table), {"v": value})
    assert connection.scalars(select(table.c.v)).all() == [value] * 2
    table.drop(connection)


def test_a_plain_dict_that_would_kill_the_client_is_refused(
    connection: Connection,
) -> None:
    own: Any = connection.connection.driver_connection
    pair = {"key": "a", "value": "b"}
    with pytest.raises(errors.ValueRefused, match="Fields"):
        own.cursor().execute("SELECT ?", ([pair],))
    cursor = own.cursor().execute(
        "SELECT ?::STRUCT(key TEXT, value TEXT)", (driver.Fields(pair),)
    )
    assert cursor.fetchall() == [(pair,)]
    lists = {"key": ["a"], "value": ["b"]}
    assert own.cursor().execute("SELECT ?", (lists,)).fetchall() == [({"a": "b"},)]
    assert issubclass(errors.ValueRefused, duckdb.DataError)


@pytest.mark.parametrize("times", [1, 2])
def test_a_field_too_many_is_refused_and_one_too_few_is_null(
    connection: Connection, times: int
) -> None:
    table = Table(
        "fields",
        MetaData(),
        Column("v", lake.STRUCT({"a": Integer, "b": Integer})),
        prefixes=["TEMPORARY"],
    )
    table.create(connection)
    with pytest.raises(exc.DataError, match="no field 'B', 'c'"):
        connection.execute(insert(table), [{"v": {"a": 1, "B": 2, "c": 3}}] * times)
    connection.execute(insert(table), [{"v": {"b": 1}}] * times)
    assert connection.scalars(select(table.c.v)).all() == [{"a": None, "b": 1}] * times
    table.drop(connection)
