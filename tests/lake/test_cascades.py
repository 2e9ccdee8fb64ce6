"""M23: ON DELETE CASCADE and SET NULL, with a write scope and without; SQLite is the oracle."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import (
    URL,
    Column,
    Connection,
    Engine,
    ForeignKey,
    Integer,
    MetaData,
    String,
    Table,
    bindparam,
    create_engine,
    event,
    exc,
    insert,
    null,
    select,
)
from sqlalchemy.orm import Session, registry, relationship

from sqlalchemy_ducklake.errors import (
    CascadeTooDeep,
    RowReferenced,
    StatementRefused,
    TransactionAborted,
)

metadata = MetaData()


def table(name: str, **references: str) -> Table:
    """Describe a table whose columns refer to others, each with its action."""
    columns: list[Column[Any]] = [
        Column(parent, ForeignKey(f"{parent}.id", ondelete=action))
        for parent, action in references.items()
    ]
    return Table(name, metadata, Column("id", Integer, primary_key=True), *columns)


parent = table("parent")
child = table("child", parent="CASCADE")
grandchild = table("grandchild", child="cascade", parent="SET NULL")
note = table("note", child="SET NULL")
tree = table("tree", tree="CASCADE")
SIZE = 20
TABLES = (parent, child, grandchild, note, tree)
guarded = MetaData()
owner = Table("owner", guarded, Column("id", Integer, primary_key=True))
a_pet = Table(
    "a_pet",
    guarded,
    Column("id", Integer, primary_key=True),
    Column("owner", ForeignKey("owner.id", ondelete="CASCADE")),
)
b_debt = Table(
    "b_debt",
    guarded,
    Column("id", Integer, primary_key=True),
    Column("owner", ForeignKey("owner.id")),
    Column("why", String),
)


@pytest.fixture(params=[True, False], ids=["scope", "no scope"])
def lake(request: pytest.FixtureRequest, lake_url: URL) -> Iterator[Engine]:
    engine = create_engine(
        lake_url, enforce_constraints="all", ducklake_write_scope=request.param
    )
    yield engine
    engine.dispose()


@pytest.fixture
def oracle(tmp_path: Path) -> Iterator[Engine]:
    engine = create_engine(URL.create("sqlite", database=str(tmp_path / "oracle.sqlite")))
    event.listen(engine, "connect", lambda raw, _: raw.execute("PRAGMA foreign_keys = ON"))
    yield engine
    engine.dispose()


def content(connection: Connection) -> dict[str, list[tuple[Any, ...]]]:
    return {
        each.name: [tuple(row) for row in connection.execute(select(each).order_by(each.c.id))]
        for each in TABLES
    }


def rows_of(target: Table, chance: random.Random) -> list[dict[str, Any]]:
    """Make rows that refer to others at random; those of the tree to earlier ones."""
    return [
        {
            "id": number,
            **{
                key.parent.name: chance.choice(
                    [None, *range(number if key.column.table is target else SIZE)]
                )
                for key in target.foreign_keys
            },
        }
        for number in range(SIZE)
    ]


def deletes(chance: random.Random) -> Iterator[tuple[Any, Any]]:
    for _ in range(8):
        target = chance.choice((parent, child, tree))
        low = chance.randrange(SIZE)
        yield chance.choice(
            [
                (target.delete().where(target.c.id == low), {}),
                (target.delete().where(target.c.id.in_([low, low + 1, 3])), {}),
                (
                    target.delete().where(target.c.id == bindparam("id")),
                    [{"id": low}, {"id": 5}],
                ),
                (target.delete().where(target.c.id.between(low, low + 2)), {}),
            ]
        )


@pytest.mark.parametrize("seed", range(3))
def test_rows_go_as_they_do_in_sqlite(lake: Engine, oracle: Engine, seed: int) -> None:
    chance = random.Random(seed)
    for engine in (lake, oracle):
        metadata.create_all(engine)
    with lake.connect() as one, oracle.connect() as other:
        for target in TABLES:
            rows = rows_of(target, chance)
            for connection in (one, other):
                connection.execute(insert(target), rows)
        for statement, parameters in deletes(chance):
            counts = [each.execute(statement, parameters).rowcount for each in (one, other)]
            assert content(one) == content(other)
            assert counts[0] == counts[1]
        for connection in (one, other):
            connection.commit()
        assert content(one) == content(other)


def test_what_fails_half_way_leaves_nothing_but_a_rollback(lake: Engine) -> None:
    guarded.create_all(lake)
    with lake.begin() as connection:
        connection.execute(insert(owner), [{"id": 1}, {"id": 2}])
        connection.execute(insert(a_pet), [{"id": 1, "owner": 1}, {"id": 2, "owner": 2}])
        connection.execute(insert(b_debt), {"id": 1, "owner": 1})
    with lake.connect() as connection:
        with pytest.raises(exc.IntegrityError) as caught:
            connection.execute(owner.delete().where(owner.c.id == 1))
        assert isinstance(caught.value.orig, RowReferenced)
        with pytest.raises(exc.DBAPIError) as ended:
            connection.execute(select(owner))
        assert isinstance(ended.value.orig, TransactionAborted)
        connection.rollback()
        assert len(connection.execute(select(a_pet)).all()) == 2
        # Nothing referred to the other owner but its pet.
        connection.execute(owner.delete().where(owner.c.id == 2))
        connection.commit()
        assert connection.execute(select(a_pet)).all() == [(1, 1)]


def test_a_chain_that_is_too_long_is_refused_before_anything_is_deleted(lake: Engine) -> None:
    tree.create(lake)
    with lake.begin() as connection:
        chain = [{"id": n, "tree": n - 1 if n > 1 else null()} for n in range(1, 11)]
        for row in chain:
            connection.execute(insert(tree).values(row))
        with pytest.raises(exc.IntegrityError) as caught:
            connection.execute(tree.delete().where(tree.c.id == 1))
        error = caught.value.orig
        assert isinstance(error, CascadeTooDeep)
        assert (error.table, error.levels) == ("main.tree", 8)
        assert connection.execute(tree.delete().where(tree.c.id == 2)).rowcount == 1
    with lake.connect() as connection:
        assert connection.execute(select(tree)).all() == [(1, None)]


def test_actions_are_run_in_transactions_that_enforce_all(lake: Engine) -> None:
    guarded.create_all(lake)
    with lake.begin() as connection:
        connection.execute(insert(owner), [{"id": 1}])
        connection.execute(insert(a_pet), [{"id": 1, "owner": 1}])
    with lake.execution_options(isolation_level="AUTOCOMMIT").connect() as connection:
        with pytest.raises(exc.NotSupportedError) as caught:
            connection.execute(owner.delete())
        assert isinstance(caught.value.orig, StatementRefused)
    with lake.begin() as connection:
        keys = connection.execution_options(enforce_constraints="keys")
        keys.execute(owner.delete())
    with lake.connect() as connection:
        assert connection.execute(select(a_pet)).all() == [(1, 1)]


class Owner:
    id: int


class Pet:
    id: int


def test_a_session_may_leave_them_to_the_database(lake: Engine) -> None:
    mapping = registry()
    mapping.map_imperatively(
        Owner, owner, properties={"pets": relationship(Pet, passive_deletes=True)}
    )
    mapping.map_imperatively(Pet, a_pet)
    guarded.create_all(lake)
    with lake.begin() as connection:
        connection.execute(insert(owner), [{"id": 1}, {"id": 2}])
        connection.execute(insert(a_pet), [{"id": n, "owner": n % 2 + 1} for n in range(6)])
    with Session(lake) as session:
        session.delete(session.get_one(Owner, 1))
        session.flush()
        assert [pet.id for pet in session.scalars(select(Pet).order_by(a_pet.c.id))] == [
            1,
            3,
            5,
        ]
        session.commit()
    mapping.dispose()
