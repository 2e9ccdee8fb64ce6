"""The same ON CONFLICT statements on a lake and on SQLite leave the same rows."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import Column, Engine, Integer, MetaData, String, Table, create_engine, select
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
