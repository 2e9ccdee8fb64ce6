"""The same statements on a lake and on SQLite: both take them or both refuse them.

SQLite looks at foreign keys with ``PRAGMA foreign_keys=ON``.  It checks each row of several
as it is changed, where the lake checks what the statement leaves.  So of several rows the
lake may take what SQLite refuses, if SQLite takes all rows that are then there.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sqlalchemy import (
    CheckConstraint,
    Column,
    Engine,
    ForeignKey,
    ForeignKeyConstraint,
    Integer,
    MetaData,
    String,
    Table,
    UniqueConstraint,
    bindparam,
    create_engine,
    delete,
    event,
    exc,
    insert,
    select,
    update,
)
from sqlalchemy.dialects import sqlite

import sqlalchemy_ducklake
from sqlalchemy_ducklake import errors

metadata = MetaData()
parents = Table(
    "parents",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("up", Integer, ForeignKey("parents.id")),
    Column("x", Integer, nullable=False),
    Column("y", String, nullable=False),
    Column("n", Integer, CheckConstraint("n BETWEEN 0 AND 7")),
    UniqueConstraint("x", "y"),
)
children = Table(
    "children",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("parent", Integer, ForeignKey("parents.id")),
    Column("x", Integer),
    Column("y", String),
    Column("code", Integer, unique=True),
    CheckConstraint("code <> parent"),
    ForeignKeyConstraint(["x", "y"], ["parents.x", "parents.y"]),
)
TABLES = (parents, children)
Insert = Callable[[Table], Any]
Action = tuple[Callable[[Insert], Any], Any]


@pytest.fixture
def lite() -> Iterator[Engine]:
    engine = create_engine("sqlite://")

    @event.listens_for(engine, "connect")
    def enforce(connection: Any, _: Any) -> None:
        connection.execute("PRAGMA foreign_keys = ON")

    yield engine
    engine.dispose()


def a_row(chance: random.Random, table: Table) -> dict[str, Any]:
    if table is parents:
        return {
            "id": chance.randrange(8),
            "up": chance.choice([None, None, chance.randrange(8)]),
            "x": chance.randrange(4),
            "y": chance.choice("pq"),
            "n": chance.choice([None, *range(8), 9]),
        }
    return {
        "id": chance.randrange(12),
        "parent": chance.choice([None, *range(6)]),
        "x": chance.choice([None, *range(4)]),
        "y": chance.choice([None, "p", "q"]),
        "code": chance.choice([None, *range(30)]),
    }


def inserts(chance: random.Random, table: Table) -> Action:
    given = [a_row(chance, table) for _ in range(chance.choice([1, 1, 1, 3]))]
    return lambda new: new(table), given if len(given) > 1 else given[0]


def upserts(chance: random.Random, table: Table) -> Action:
    given = [a_row(chance, table) for _ in range(chance.choice([1, 1, 2, 3]))]
    given = list({row["id"]: row for row in given}.values())

    def statement(new: Insert) -> Any:
        made = new(table)
        taken = {c.name: made.excluded[c.name] for c in table.c if c.name != "id"}
        return made.on_conflict_do_update(["id"], set_=taken)

    return statement, given


def one_update(chance: random.Random, table: Table) -> Action:
    given = a_row(chance, table)
    column = chance.choice([c.name for c in table.c])
    where = table.c.id == chance.randrange(8)
    return lambda _: update(table).where(where).values({column: given[column]}), None


def many_updates(chance: random.Random, table: Table) -> Action:
    column = "n" if table is parents else "parent"
    values = {"key": chance.randrange(8), "new": a_row(chance, table)[column]}
    statement = update(table).where(table.c.id == bindparam("key"))
    return lambda _: statement.values({column: bindparam("new")}), [values, values]


def additions(chance: random.Random, _: Table) -> Action:
    plus = chance.choice([-1, 1, 1])
    where = parents.c.id < chance.randrange(8)
    return lambda _: update(parents).where(where).values(n=parents.c.n + plus), None


def deletions(chance: random.Random, table: Table) -> Action:
    if chance.random() < 0.2:
        return lambda _: delete(table).where(table.c.id > 3), None
    return lambda _: delete(table).where(table.c.id == chance_key), {
        "key": chance.randrange(12)
    }


chance_key = bindparam("key", type_=Integer)
ACTIONS = [
    inserts,
    inserts,
    inserts,
    upserts,
    upserts,
    one_update,
    one_update,
    many_updates,
    additions,
    deletions,
]


def attempt(engine: Engine, statement: Any, given: Any) -> Any:
    try:
        with engine.begin() as connection:
            connection.execute(statement, given)
    except exc.IntegrityError as error:
        return error.orig
    return None


def adopt(lite: Engine, tables: list[Any]) -> None:
    """Replace all rows of SQLite, which looks at them when all are there."""
    with lite.begin() as connection:
        connection.exec_driver_sql("PRAGMA defer_foreign_keys = ON")
        for table, found in zip(TABLES, tables, strict=True):
            connection.execute(delete(table))
            if found:
                connection.execute(insert(table).values(found))


def stored(engine: Engine) -> list[Any]:
    with engine.connect() as connection:
        return [
            [tuple(row) for row in connection.execute(select(table).order_by(table.c.id))]
            for table in TABLES
        ]


@pytest.mark.parametrize("seed", range(6))
def test_a_lake_and_sqlite_take_and_refuse_the_same(
    engine: Engine, lite: Engine, snapshots: Callable[[], int], seed: int
) -> None:
    chance = random.Random(seed)
    metadata.create_all(engine)
    metadata.create_all(lite)
    lake = engine.execution_options(enforce_constraints="all")
    taken = refused = 0
    for step in range(80):
        action, table = chance.choice(ACTIONS), chance.choice(TABLES)
        build, given = action(chance, table)
        before = snapshots()
        said = attempt(lake, build(sqlalchemy_ducklake.insert), given)
        wanted = attempt(lite, build(sqlite.insert), given)
        place = (seed, step, action.__name__, table.name, given, said, wanted)
        if said is None and wanted is not None and isinstance(given, list):
            adopt(lite, stored(lake))
        else:
            assert (said is None) == (wanted is None), place
        assert stored(lake) == stored(lite), place
        if said is not None:
            known = (errors.KeyViolation, errors.ForeignKeyViolation, errors.CheckViolation)
            assert isinstance(said, known), place
            assert snapshots() == before
        taken, refused = taken + (said is None), refused + (said is not None)
    assert min(taken, refused) > 10
