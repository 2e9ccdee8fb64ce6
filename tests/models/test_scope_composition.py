"""M1: a scope writes what the changes of each key come to, and nothing else."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import (
    Column,
    Connection,
    Engine,
    Integer,
    MetaData,
    Table,
    create_engine,
    delete,
    select,
    text,
    update,
)
from sqlalchemy.exc import IntegrityError

from models.composition import Effect, Kind, compose
from models.test_writers import noted
from sqlalchemy_ducklake import insert

Rows = dict[int, tuple[int | None, int | None]]
t = Table(
    "t",
    MetaData(),
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("a", Integer),
    Column("b", Integer),
)


def change(connection: Connection, kind: Kind, key: int, values: dict[str, int | None]) -> bool:
    """Run a change; tell whether it had an effect on its key."""
    if kind is Kind.DELETE:
        return connection.execute(delete(t).where(t.c.id == key)).rowcount == 1
    if kind is Kind.UPDATE:
        return connection.execute(update(t).where(t.c.id == key).values(values)).rowcount == 1
    add = insert(t).values(id=key, **values)
    if kind is Kind.UPSERT:
        connection.execute(add.on_conflict_do_update())
        return True
    try:
        connection.execute(add)
    except IntegrityError:
        return False
    return True


def first_rows() -> Rows:
    return {key: (key, None) for key in range(3)}


def outcome(base: Rows, effects: dict[int, Effect | None]) -> tuple[Rows, dict[int, str]]:
    """Give the rows that are left, and what the lake must be told of each key."""
    expected, told = dict(base), {}
    for key, left in effects.items():
        if left is None:
            continue
        old = expected.pop(key, None)
        if left.kind is not Kind.DELETE:
            row = {**dict(zip("ab", old or (None, None), strict=True)), **left.values}
            expected[key] = (row["a"], row["b"])
        # A key that is deleted may have been there through an upsert only.
        if old != expected.get(key):
            told[key] = "insert" if old is None else "update_postimage"
        if old is not None and key not in expected:
            told[key] = "delete"
    return expected, told


def feed(engine: Engine, snapshot: int) -> dict[int, str]:
    """Give what the lake says of each key in a snapshot."""
    query = text("SELECT id, change_type FROM lake.table_changes('t', :s, :s)")
    with engine.connect() as connection:
        found = connection.execute(query, {"s": snapshot}).all()
    return {row.id: row.change_type for row in found if row.change_type != "update_preimage"}


@pytest.mark.parametrize("turn", range(6))
def test_the_lake_is_told_what_the_changes_of_a_key_come_to(
    engine: Engine, snapshots: Callable[[], int], turn: int
) -> None:
    seed = random.randrange(1 << 30) + turn
    chance, base = random.Random(seed), first_rows()
    t.create(engine)
    with engine.begin() as connection:
        rows = [{"id": key, "a": a, "b": b} for key, (a, b) in base.items()]
        connection.execute(insert(t), rows)
    effects: dict[int, Effect | None] = {}
    scoped = create_engine(engine.url, ducklake_write_scope=True)
    before = snapshots()
    with noted(seed), scoped.begin() as connection:
        for _ in range(15):
            kind, key = chance.choice(list(Kind)), chance.randrange(5)
            names = ("a", "b") if kind is not Kind.UPDATE else (chance.choice("ab"),)
            values: dict[str, Any] = {name: chance.choice([None, 0, 1]) for name in names}
            if change(connection, kind, key, values):
                effect = Effect(kind, {} if kind is Kind.DELETE else values)
                effects[key] = compose(effects.get(key), effect)
    expected, told = outcome(base, effects)
    with scoped.connect() as connection:
        assert {row.id: (row.a, row.b) for row in connection.execute(select(t))} == expected
    assert snapshots() == before + bool(told)
    if told:
        assert feed(engine, snapshots()) == told
    scoped.dispose()
