"""Batches of changes leave what a dictionary holds that was changed in the same order."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from sqlalchemy import BigInteger, Column, Engine, Float, MetaData, String, Table, select, text

from sqlalchemy_ducklake import MergeResult, merge, merge_result

metadata = MetaData()
t = Table(
    "t",
    metadata,
    Column("b", String, primary_key=True),
    Column("a", BigInteger, primary_key=True, autoincrement=False),
    Column("x", Float),
    Column("s", String),
)
SCHEMA: Any = pa.schema(
    [  # type: ignore[arg-type]
        ("b", pa.string()),
        ("a", pa.int64()),
        ("x", pa.float64()),
        ("s", pa.string()),
        ("what", pa.string()),
    ]
)
Key = tuple[str, int]
Model = dict[Key, tuple[Any, Any]]


def same(one: Any, other: Any) -> bool:
    """Compare as the engine does: NULL is NULL, NaN is NaN, 0.0 is -0.0."""
    both_nan = isinstance(one, float) and isinstance(other, float)
    return one == other or (both_nan and math.isnan(one) and math.isnan(other))


def batch(chance: random.Random, size: int) -> list[dict[str, Any]]:
    keys = ["x", "x|", "|x", "é'", ""]
    values = [None, 0.0, -0.0, 1.5, float("nan"), float("inf")]
    return [
        {
            "b": chance.choice(keys),
            "a": chance.randrange(max(4, size // 20)),
            "x": chance.choice(values),
            "s": chance.choice([None, "", "p", "p\n"]),
            "what": chance.choice(["upsert", "upsert", "delete"]),
        }
        for _ in range(size)
    ]


def apply(model: Model, changes: list[dict[str, Any]]) -> MergeResult:
    """Apply changes one after another; count what differs from before, key by key."""
    before = dict(model)
    for change in changes:
        key = (change["b"], change["a"])
        model.pop(key, None)
        if change["what"] == "upsert":
            model[key] = (change["x"], change["s"])
    touched = {(change["b"], change["a"]) for change in changes}
    kept = [key for key in touched if key in before and key in model]
    equal = [key for key in kept if all(map(same, before[key], model[key]))]
    for key in equal:
        model[key] = before[key]
    return MergeResult(
        inserted=len(model.keys() - before.keys()),
        updated=len(kept) - len(equal),
        deleted=len(before.keys() - model.keys()),
        unchanged=len(equal),
    )


def stored(engine: Engine) -> dict[Key, tuple[Any, ...]]:
    with engine.connect() as connection:
        found = connection.execute(select(t.c.b, t.c.a, t.c.x, t.c.s)).all()
    by_key = {(row.b, row.a): (row.x, row.s) for row in found}
    assert len(by_key) == len(found), "a key is there twice"
    return by_key


def feed_counts(engine: Engine, snapshot: int) -> dict[str, int]:
    """Count the rows of the change feed by what happened to them.

    Rows, not lines: a file that two statements of one transaction emptied has the rows of
    the first one twice in the engine's feed (measured on 1.5.5, also without this package).
    """
    query = text(
        "SELECT change_type, count(DISTINCT rowid) "
        "FROM lake.table_changes('t', :s, :s) GROUP BY 1"
    )
    with engine.connect() as connection:
        found = connection.execute(query, {"s": snapshot}).all()
    return {row[0]: row[1] for row in found}


@pytest.mark.parametrize(("seed", "keeps"), [*((seed, True) for seed in range(4)), (4, False)])
def test_rows_counts_snapshots_and_change_feed_agree_with_a_replay(
    engine: Engine, snapshots: Callable[[], int], seed: int, *, keeps: bool
) -> None:
    """An update that does not keep the row id is a delete and an insert in the feed."""
    metadata.create_all(engine)
    chance = random.Random(seed)
    model: Model = {}
    for size in [1, 2, 50, 1, 400, 3, 10_000, 30, 5, 2000]:
        changes = batch(chance, size)
        rows = pa.Table.from_pylist(changes, schema=SCHEMA)
        expected, snapshot = apply(model, changes), snapshots()
        with engine.begin() as connection:
            statement = merge(t, preserve_row_ids=keeps).changes(rows, kind="what")
            result = merge_result(connection.execute(statement))
        assert result == expected, (seed, size)
        found = stored(engine)
        assert found.keys() == model.keys(), (seed, size)
        assert all(all(map(same, found[key], model[key])) for key in model), (seed, size)
        assert snapshots() == snapshot + bool(expected.written)
        if expected.written:
            counts = feed_counts(engine, snapshots())
            paired, apart = (expected.updated, 0) if keeps else (0, expected.updated)
            assert counts.get("insert", 0) == expected.inserted + apart, (seed, size)
            assert counts.get("delete", 0) == expected.deleted + apart, (seed, size)
            assert counts.get("update_postimage", 0) == paired, (seed, size)
            assert counts.get("update_preimage", 0) == paired, (seed, size)


@pytest.mark.parametrize("keeps", [True, False])
def test_unconditional_upserts_write_every_row_and_count_what_was_there(
    engine: Engine, snapshots: Callable[[], int], *, keeps: bool
) -> None:
    """What is written without a look counts as updated, even if it is equal."""
    metadata.create_all(engine)
    chance = random.Random(11)
    model: Model = {}
    for size in [1, 2, 300, 1, 5000, 7]:
        changes = [{**change, "what": "upsert"} for change in batch(chance, size)]
        rows = pa.Table.from_pylist(changes, schema=SCHEMA).drop_columns(["what"])
        expected, snapshot = apply(model, changes), snapshots()
        model.update({(row["b"], row["a"]): (row["x"], row["s"]) for row in changes})
        with engine.begin() as connection:
            statement = merge(t, unconditional=True, preserve_row_ids=keeps).changes(rows)
            result = merge_result(connection.execute(statement))
        assert result == MergeResult(
            inserted=expected.inserted, updated=expected.updated + expected.unchanged
        ), size
        found = stored(engine)
        assert found.keys() == model.keys(), size
        assert all(all(map(same, found[key], model[key])) for key in model), size
        assert snapshots() == snapshot + 1
