"""Statements that are scripts can be read, and run as they are in DuckDB's own shell."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any, cast

import duckdb
import pytest
from sqlalchemy import (
    ARRAY,
    Column,
    Date,
    Engine,
    Integer,
    MetaData,
    Numeric,
    String,
    Table,
    UniqueConstraint,
    bindparam,
    delete,
    select,
    update,
)
from sqlalchemy.exc import IntegrityError

from sqlalchemy_ducklake import driver, insert, merge, patch

metadata = MetaData()
t = Table(
    "t",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", String, server_default='it\'s; "new"'),
    Column("price", Numeric(10, 2)),
    Column("day", Date),
    UniqueConstraint("name"),
)
news = Table("news", metadata, *(Column(each.name, each.type) for each in t.c))
feed = Table(
    "feed",
    metadata,
    Column("place", Integer),
    Column("kind", String),
    Column("sets", ARRAY(String)),
    *(Column(each.name, each.type) for each in t.c),
)
DAY = dt.date(2024, 2, 29)
CHANGES = [
    (3, 5, "patch", ["name"], "later", 0),
    (1, 5, "patch", ["name", "price"], "sooner", 50),
    (2, 8, "upsert", None, "whole", 8),
    (4, 8, "patch", ["price"], None, 80),
    (5, 77, "patch", ["price"], None, 1),
    (6, 1, "delete", None, None, None),
]


def statements() -> dict[str, Any]:
    """Give one statement of each kind that becomes a script, with its values in it."""
    row = {"id": 2, "name": "b'; DROP TABLE t; --", "price": Decimal("1.50"), "day": DAY}
    add = insert(t)
    combined = merge(t).using(news).when_matched_update().when_not_matched_insert()
    return {
        "insert": add.values(row),
        "insert with defaults": add.values(price=Decimal("9.99"), day=DAY),
        "insert from select": add.from_select(
            ["id", "name"], select(news.c.id, news.c.name).where(news.c.id > 1)
        ),
        "upsert": add.values([row, {**row, "id": 1}]).on_conflict_do_update(
            ["id"], set_={"price": t.c.price + add.excluded.price, "name": t.c.name + "x"}
        ),
        "ignore": add.values(row).on_conflict_do_nothing(),
        "merge": combined.when_not_matched_by_source_delete(where=t.c.price > 100),
        "changes": merge(t).changes(feed, kind="kind", sequence="place", assigned="sets"),
        "replace": merge(t, unconditional=True, preserve_row_ids=False).changes(news),
        "patch": patch(t, select(news.c.id, news.c.price)),
        "update a key": update(t).where(t.c.id == 1).values(id=7, day=DAY),
        "delete": delete(t).where(t.c.name == "a"),
    }


def fill(engine: Engine) -> None:
    metadata.create_all(engine)
    with engine.begin() as connection:
        first = [{"id": n, "name": f"n{n}", "price": n, "day": DAY} for n in (1, 5)]
        connection.execute(insert(t), first)
        connection.execute(
            insert(news), [{**first[0], "name": "new"}, {**first[1], "id": 9, "name": "z"}]
        )
        names = ("place", "id", "kind", "sets", "name", "price")
        connection.execute(
            insert(feed), [dict(zip(names, each, strict=True)) for each in CHANGES]
        )


def rows(engine: Engine) -> list[Any]:
    with engine.connect() as connection:
        return list(map(tuple, connection.execute(select(t).order_by(t.c.id))))


def in_shell(engine: Engine, script: str) -> list[Any]:
    """Run a text with DuckDB alone; give the rows that it leaves, and undo it."""
    with engine.connect() as connection:
        own = cast("driver.Connection", connection.connection.driver_connection)
        own.duck.execute("BEGIN")
        try:
            own.duck.execute(script)
            return own.duck.execute("SELECT * FROM t ORDER BY id").fetchall()
        finally:
            own.duck.execute("ROLLBACK")


@pytest.mark.parametrize("name", sorted(statements()))
def test_a_script_with_its_values_runs_in_duckdb_alone(engine: Engine, name: str) -> None:
    statement = statements()[name]
    fill(engine)
    script = str(statement.compile(engine, compile_kwargs={"literal_binds": True}))
    found = in_shell(engine, script)
    with engine.begin() as connection:
        connection.execute(statement)
    assert found == rows(engine)


def test_a_check_stops_the_script(engine: Engine) -> None:
    fill(engine)
    twice = insert(t).values([{"id": 5, "name": "x"}, {"id": 6, "name": "y"}])
    script = str(twice.compile(engine, compile_kwargs={"literal_binds": True}))
    with pytest.raises(duckdb.Error, match=r"refused: .*5"):
        in_shell(engine, script)


def test_rows_that_see_the_rows_before_them_need_more_than_a_shell(engine: Engine) -> None:
    fill(engine)
    add = insert(t).values([{"id": 5, "price": 1}, {"id": 5, "price": 2}])
    statement = add.on_conflict_do_update(
        ["id"], set_={"price": t.c.price + add.excluded.price}
    )
    script = str(statement.compile(engine, compile_kwargs={"literal_binds": True}))
    with pytest.raises(duckdb.Error, match="more than once"):
        in_shell(engine, script)


def test_a_statement_reads_as_what_it_does() -> None:
    """str() needs no engine; parameters are named as the engine numbers them."""
    text = str(insert(t).values(id=bindparam("key")).on_conflict_do_nothing(["id"]))
    assert "ON CONFLICT" in text or "INSERT INTO t" in text
    combined = merge(t).using(news).when_matched_delete(where=news.c.price > 3)
    assert "DELETE FROM t" in str(combined)


def test_the_error_of_a_script_shows_the_step_that_failed(engine: Engine) -> None:
    table = Table("keyed", MetaData(), Column("id", Integer, primary_key=True))
    table.create(engine)
    with engine.begin() as connection:
        connection.execute(insert(table), [{"id": 1}])
        with pytest.raises(IntegrityError) as caught:
            connection.execute(insert(table), [{"id": 1}])
    message = str(caught.value)
    assert "violations" in message
    assert "-- step " in message
    assert "INSERT INTO keyed" not in message
