"""INSERT through a table that declares no key is held to the key that the lake's table has."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest
from sqlalchemy import (
    Column,
    Connection,
    Engine,
    Insert,
    Integer,
    MetaData,
    String,
    Table,
    column,
    exc,
    insert,
    select,
    table,
    text,
)

from sqlalchemy_ducklake.errors import KeyNotDeclared, KeyViolation

keyed = Table(
    "Keyed t",
    MetaData(),
    Column("Id", Integer, primary_key=True, autoincrement=False),
    Column("at", String, primary_key=True),
    Column("n", Integer),
)
bare = Table(
    "Keyed t",
    MetaData(),
    Column("id", Integer, key="i"),
    Column("at", String),
    Column("n", Integer),
)
light = table("Keyed t", column("Id", Integer), column("at", String), column("n", Integer))
untyped = table("Keyed t", column("Id"), column("at"), column("n"))
other = Table("other", MetaData(), Column("n", Integer))


@pytest.fixture
def lake(engine: Engine) -> Engine:
    for each in (keyed, other):
        each.metadata.create_all(engine)
    with engine.begin() as connection:
        connection.execute(insert(keyed).values(Id=1, at="x", n=1))
    return engine


def rows(connection: Connection) -> list[tuple[Any, ...]]:
    found = connection.execute(select(keyed).order_by(keyed.c.Id, keyed.c.at))
    return [tuple(row) for row in found]


ROADS: tuple[tuple[Insert, Any], ...] = (
    (insert(bare), {"i": 1, "at": "x"}),
    (insert(bare), [{"i": 1, "at": "x"}, {"i": 2, "at": "x"}]),
    (insert(bare), [{"i": 3, "at": "x"}, {"i": 3, "at": "x"}]),
    (insert(bare).values(i=1, at="x"), {}),
    (insert(bare).values({bare.c.i: 1, bare.c.at: "x"}), {}),
    (insert(bare).values([{"i": 1, "at": "x"}, {"i": 2, "at": "x"}]), {}),
    (insert(bare).from_select(["i", "at"], select(keyed.c.Id, keyed.c.at)), {}),
    (insert(light).values(Id=1, at="x"), {}),
    (insert(untyped), [{"Id": 1, "at": "x"}]),
)


@pytest.mark.parametrize(("statement", "parameters"), ROADS)
def test_no_road_leads_to_a_second_row_of_a_key(
    lake: Engine, statement: Insert, parameters: Any
) -> None:
    with lake.begin() as connection:
        with pytest.raises(exc.IntegrityError) as caught:
            connection.execute(statement, parameters)
        assert isinstance(caught.value.orig, KeyViolation)
        # The transaction goes on, and other keys are welcome; the statement is cached.
        connection.execute(insert(bare), [{"i": 7, "at": "x", "n": 2}])
        connection.execute(insert(bare), [{"i": 8, "at": "x", "n": 3}])
    with lake.connect() as connection:
        assert rows(connection) == [(1, "x", 1), (7, "x", 2), (8, "x", 3)]


def test_what_cannot_have_the_key_is_refused(lake: Engine) -> None:
    part = Table("keyed T", MetaData(), Column("id", Integer), Column("n", Integer))
    for statement in (insert(part).values(id=2), insert(bare).returning(bare.c.n).values(i=2)):
        with lake.begin() as connection:
            with pytest.raises(exc.ProgrammingError) as caught:
                connection.execute(statement)
            error = caught.value.orig
            assert isinstance(error, KeyNotDeclared)
            assert (error.table, error.columns) == (
                f"main.{statement.table.name}",
                ("Id", "at"),
            )
            assert rows(connection) == [(1, "x", 1)]


def test_tables_without_a_key_and_a_lake_that_enforces_none_are_left_alone(
    lake: Engine,
) -> None:
    with lake.begin() as connection:
        connection.execute(insert(other), [{"n": 1}, {"n": 1}])
        unchecked = connection.execution_options(enforce_constraints="none")
        unchecked.execute(insert(bare), [{"i": 1, "at": "x"}])
    with lake.connect() as connection:
        assert connection.scalar(text('SELECT count(*) FROM "Keyed t"')) == 2
        assert connection.scalar(text("SELECT count(*) FROM other")) == 2


def test_a_table_that_lost_its_key_in_this_transaction_has_none(lake: Engine) -> None:
    with lake.begin() as connection:
        connection.execute(text('DROP TABLE "Keyed t"'))
        connection.execute(text('CREATE TABLE "Keyed t" (id INTEGER, "at" VARCHAR, n INTEGER)'))
        connection.execute(insert(bare), [{"i": 1, "at": "x"}, {"i": 1, "at": "x"}])
    with lake.begin() as connection:
        connection.execute(insert(bare), {"i": 1, "at": "x"})
        assert connection.scalar(text('SELECT count(*) FROM "Keyed t"')) == 3


def test_a_table_that_this_transaction_left_alone_keeps_its_key(lake: Engine) -> None:
    with lake.begin() as connection:
        connection.execute(text("CREATE TABLE another (id INTEGER)"))
        connection.execute(text("DROP TABLE other"))
        with pytest.raises(exc.IntegrityError):
            connection.execute(insert(bare), {"i": 1, "at": "x"})
        # Whatever was dropped here, the catalog does not know it yet.
        connection.execute(text("CREATE SCHEMA s"))
        connection.execute(insert(bare), {"i": 1, "at": "x"})


def test_schemas_are_translated(lake: Engine) -> None:
    elsewhere = Table(
        "Keyed t", MetaData(), Column("id", Integer), Column("at", String), schema="here"
    )
    connection: Connection
    with lake.connect() as connection:
        moved = connection.execution_options(schema_translate_map={"here": "main"})
        with pytest.raises(exc.IntegrityError):
            moved.execute(insert(elsewhere).values(id=1, at="x"))


@pytest.mark.parametrize("method", [None, "multi"])
def test_to_sql_of_pandas_appends_what_has_new_keys(lake: Engine, method: Any) -> None:
    frame = pd.DataFrame({"Id": [1, 2], "at": ["y", "y"], "n": [5, 6]})
    frame.to_sql(keyed.name, lake, if_exists="append", index=False, method=method)
    with pytest.raises(pd.errors.DatabaseError, match="duplicate key"):
        frame.to_sql(keyed.name, lake, if_exists="append", index=False, method=method)
    with lake.connect() as connection:
        assert rows(connection) == [(1, "x", 1), (1, "y", 5), (2, "y", 6)]
    # Replaced, it is a table of pandas, which has no keys.
    twice = pd.DataFrame({"Id": [1, 1], "at": ["y", "y"]})
    twice.to_sql(keyed.name, lake, if_exists="replace", index=False, method=method)
    with lake.connect() as connection:
        assert connection.scalar(text('SELECT count(*) FROM "Keyed t"')) == 2
