"""The same ON CONFLICT statements on a lake and on SQLite leave the same rows."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import (
    Column,
    Engine,
    Integer,
    MetaData,
    String,
    Table,
    UniqueConstraint,
    create_engine,
    select,
)
from sqlalchemy.dialects import sqlite

import sqlalchemy_ducklake

metadata = MetaData()
t = Table(
    "t",
    metadata,
    Column("a", Integer, primary_key=True, autoincrement=False),
    Column("b", String, primary_key=True),
    Column("n", Integer),
    Column("s", String),
    Column("u", Integer),
)
KEY = ["a", "b"]

# Each way of writing ON CONFLICT; the insert() of either dialect is handed in.
FORMS: list[Callable[[Any], Any]] = [
    lambda s: s.on_conflict_do_update(KEY, set_={c: s.excluded[c] for c in "nsu"}),
    lambda s: s.on_conflict_do_update(KEY, set_={"n": t.c.n + s.excluded.n}),
    lambda s: s.on_conflict_do_update(
        KEY,
        set_={"n": s.excluded.n, "s": t.c.s + s.excluded.s},
        where=t.c.n < s.excluded.n,
    ),
    lambda s: s.on_conflict_do_update(KEY, set_={"u": 7, "s": s.excluded.s}),
    lambda s: s.on_conflict_do_update(
        KEY, set_={"u": t.c.u + 1}, where=s.excluded.s.is_not(None)
    ),
    lambda s: s.on_conflict_do_nothing(KEY),
]


def batch(chance: random.Random) -> list[dict[str, Any]]:
    """Make 1 to 40 rows over few keys, with NULLs, delimiters in text and repeats."""
    return [
        {
            "a": chance.randrange(4),
            "b": chance.choice(["x", "x|", "|x", "é'\n"]),
            "n": chance.choice([None, *range(5)]),
            "s": chance.choice([None, "p", "q", ""]),
            "u": chance.randrange(3),
        }
        for _ in range(chance.choice([1, 2, 8, 40]))
    ]


def stored(engine: Engine) -> dict[tuple[Any, Any], tuple[Any, ...]]:
    with engine.connect() as connection:
        found = [tuple(row) for row in connection.execute(select(t))]
    by_key = {row[:2]: row for row in found}
    assert len(by_key) == len(found), "a key is there twice"
    return by_key


@pytest.mark.parametrize("seed", range(6))
def test_a_lake_and_sqlite_agree_after_every_batch(
    engine: Engine, snapshots: Callable[[], int], seed: int
) -> None:
    lite = create_engine("sqlite://")
    metadata.create_all(engine)
    metadata.create_all(lite)
    chance = random.Random(seed)
    before = stored(engine)
    for _ in range(25):
        form, rows, snapshot = chance.choice(FORMS), batch(chance), snapshots()
        with engine.begin() as connection:
            result = connection.execute(form(sqlalchemy_ducklake.insert(t)), rows)
            merged = sqlalchemy_ducklake.merge_result(result)
        with lite.begin() as connection:
            connection.execute(form(sqlite.insert(t)), rows)
        after = stored(engine)
        assert after == stored(lite), (seed, rows)
        new = after.keys() - before.keys()
        changed = [key for key in before if before[key] != after[key]]
        assert (merged.inserted, merged.updated) == (len(new), len(changed)), (seed, rows)
        assert snapshots() == snapshot + bool(merged.written)
        before = after
    lite.dispose()


many = Table(
    "many",
    metadata,
    Column("a", Integer, primary_key=True),
    Column("b", String),
    Column("c", Integer),
    Column("d", Integer),
    UniqueConstraint("b"),
    UniqueConstraint("c", "d"),
)


@pytest.mark.parametrize("seed", range(6))
def test_do_nothing_without_a_target_looks_at_every_key(engine: Engine, seed: int) -> None:
    """Rows are taken in order; a row that was skipped is in nobody's way."""
    lite = create_engine("sqlite://")
    metadata.create_all(engine)
    metadata.create_all(lite)
    chance = random.Random(seed)
    for _ in range(12):
        rows = [
            {
                "a": chance.randrange(40),
                "b": chance.choice([None, *"pqrstuv"]),
                "c": chance.choice([None, *range(4)]),
                "d": chance.randrange(3),
            }
            for _ in range(chance.choice([1, 2, 8, 40]))
        ]
        with engine.begin() as connection:
            statement = sqlalchemy_ducklake.insert(many).on_conflict_do_nothing()
            result = sqlalchemy_ducklake.merge_result(connection.execute(statement, rows))
            found = list(map(tuple, connection.execute(select(many).order_by(many.c.a))))
        with lite.begin() as connection:
            connection.execute(sqlite.insert(many).on_conflict_do_nothing(), rows)
            expected = list(map(tuple, connection.execute(select(many).order_by(many.c.a))))
        assert found == expected, (seed, rows)
        assert result.inserted + result.skipped == len(rows)


def test_do_nothing_without_a_target_returns_the_rows_it_took(engine: Engine) -> None:
    metadata.create_all(engine)
    statement = sqlalchemy_ducklake.insert(many).on_conflict_do_nothing()
    rows = [{"b": "p", "c": 1, "d": 1}, {"b": "p", "c": 2, "d": 2}, {"b": "q", "c": 1, "d": 1}]
    with engine.begin() as connection:
        found = connection.execute(statement.returning(many.c.a, many.c.b), rows).all()
        assert found == [(1, "p")]
        one = {"b": "p", "c": 5, "d": 5}
        assert connection.execute(statement.returning(many.c.a), [one]).all() == []
        assert connection.execute(statement, one).rowcount == 0
        assert connection.execute(statement, {**one, "b": "new"}).rowcount == 1
