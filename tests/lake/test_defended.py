"""defend_foreign: writers that leave collisions to DuckLake's retry see what we wrote."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import duckdb
import pytest
from sqlalchemy import (
    URL,
    Column,
    Engine,
    Integer,
    MetaData,
    String,
    Table,
    create_engine,
    delete,
    func,
    insert,
    select,
)

from sqlalchemy_ducklake import delete_keys, driver, merge_result, upsert

metadata = MetaData()
t = Table(
    'a "table"',
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("n", String),
)
NAME = '"a ""table"""'


@pytest.fixture(params=[3, 200], ids=["inlined", "in a file"])
def engine(request: pytest.FixtureRequest, lake_url: URL) -> Iterator[Engine]:
    engine = create_engine(lake_url)
    metadata.create_all(engine)
    with engine.begin() as connection:
        connection.execute(insert(t), [{"id": n, "n": "old"} for n in range(request.param)])
    yield engine
    engine.dispose()


def race(engine: Engine, foreign_text: str, statement: Any, *, defend: bool) -> bool:
    """Let a foreign transaction begin, commit ours, and tell whether theirs still commits."""
    with engine.connect() as other:
        # DuckDB's own connection: it knows nothing of this package.
        raw = other.connection.driver_connection
        foreign = cast("driver.Connection", raw).duck
        foreign.execute("BEGIN")
        foreign.execute(foreign_text)
        ours = engine.execution_options(defend_foreign=defend)
        with ours.begin() as connection:
            connection.execute(statement)
        try:
            foreign.execute("COMMIT")
        except duckdb.Error:
            return False
        return True


@pytest.mark.parametrize("defend", [True, False])
def test_a_foreign_insert_of_the_same_key(engine: Engine, *, defend: bool) -> None:
    """Not defended, the key is there twice: that is what the option is for."""
    theirs = f"INSERT INTO {NAME} VALUES (1000, 'theirs')"
    ours = insert(t).values(id=1000, n="ours")
    assert race(engine, theirs, ours, defend=defend) is not defend
    with engine.connect() as connection:
        same = select(func.count()).where(t.c.id == 1000)
        assert connection.scalar(same) == (1 if defend else 2)


def test_a_foreign_delete_against_ours(engine: Engine) -> None:
    statements = [delete(t).where(t.c.id == 1), delete_keys(t, [{"id": 2}])]
    for key, ours in zip((1, 2), statements, strict=True):
        theirs = f"DELETE FROM {NAME} WHERE id = {key}"
        assert not race(engine, theirs, ours, defend=True)


def test_an_update_needs_no_touch_and_no_effect_leaves_no_snapshot(
    engine: Engine, lake_url: URL
) -> None:
    defending = create_engine(lake_url, defend_foreign=True)
    statements: list[Any] = [
        upsert(t, [{"id": 1, "n": "old"}]),
        delete(t).where(t.c.id == -1),
        upsert(t, [{"id": 1, "n": "new"}]),
    ]
    for statement, written in zip(statements, [False, False, True], strict=True):
        with defending.begin() as connection:
            result = connection.execute(statement)
        assert (merge_result(result).snapshot_id is not None) is written
    with defending.begin() as connection:
        result = connection.execute(insert(t), [{"id": -1, "n": None}])
        assert result.rowcount == 1
    defending.dispose()


def test_an_empty_table_has_nothing_to_touch(lake_url: URL) -> None:
    engine = create_engine(lake_url, defend_foreign=True)
    metadata.create_all(engine)
    with engine.begin() as connection:
        connection.execute(insert(t), [{"id": 1, "n": "x"}])
        assert connection.scalar(select(func.count()).select_from(t)) == 1
    engine.dispose()
