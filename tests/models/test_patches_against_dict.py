"""Patches, rows and deletes of one batch leave what a dictionary holds after the same."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from sqlalchemy import BigInteger, Column, Engine, Integer, MetaData, String, Table, select

from sqlalchemy_ducklake import (
    Delete,
    MergeResult,
    Patch,
    Upsert,
    begin_merge,
    merge,
    merge_action,
    merge_result,
    patch,
)

metadata = MetaData()
t = Table(
    "t",
    metadata,
    Column("it's", String, primary_key=True),
    Column("id", BigInteger, primary_key=True, autoincrement=False),
    Column("n", Integer),
    Column('a "b"', String),
)
SCHEMA: Any = pa.schema(
    [  # type: ignore[arg-type]
        ("it's", pa.string()),
        ("id", pa.int64()),
        ("n", pa.int32()),
        ('a "b"', pa.string()),
        ("what", pa.string()),
        ("when", pa.int64()),
        ("sets", pa.list_(pa.string())),
    ]
)
VALUES = ("n", 'a "b"')
Key = tuple[str, int]
Model = dict[Key, dict[str, Any]]


def batch(
    chance: random.Random, size: int, *, patches_only: bool = False
) -> list[dict[str, Any]]:
    """Make changes in an order that ``when`` tells."""
    kinds = ["patch"] if patches_only else ["upsert", "patch", "patch", "delete"]
    changes = [
        {
            "it's": chance.choice(["", "x'"]),
            "id": chance.randrange(max(3, size // 8)),
            "n": chance.choice([None, 0, 1]),
            'a "b"': chance.choice([None, "", "p"]),
            "what": chance.choice(kinds),
            "when": place,
            "sets": chance.choice([None, [], ["n"], ['a "b"'], [*VALUES, "id"]]),
        }
        for place in range(size)
    ]
    chance.shuffle(changes)
    return changes


def key_of(change: dict[str, Any]) -> Key:
    return change["it's"], change["id"]


def apply(model: Model, changes: list[dict[str, Any]]) -> MergeResult:
    """Apply changes by their order; count key by key what differs from before."""
    before = {key: dict(row) for key, row in model.items()}
    for change in sorted(changes, key=lambda each: each["when"]):
        key, row = key_of(change), {name: change[name] for name in VALUES}
        if change["what"] == "upsert":
            model[key] = row
        elif change["what"] == "delete":
            model.pop(key, None)
        elif key in model:
            assigned = VALUES if change["sets"] is None else change["sets"]
            model[key] |= {name: row[name] for name in assigned if name in row}
    kept = before.keys() & model.keys()
    touched = kept & {key_of(change) for change in changes}
    return MergeResult(
        inserted=len(model.keys() - before.keys()),
        updated=sum(before[key] != model[key] for key in kept),
        deleted=len(before.keys() - model.keys()),
        unchanged=sum(
            before[key] == model[key] for key in touched & before.keys() & model.keys()
        ),
        skipped=len(_only_patched(changes, before)),
    )


def _only_patched(changes: list[dict[str, Any]], before: Model) -> set[Key]:
    """Give the keys that nothing but patches speak of, and that are not there."""
    others = {key_of(change) for change in changes if change["what"] != "patch"}
    return {key_of(change) for change in changes} - others - before.keys()


def returned(changes: list[dict[str, Any]], before: Model, after: Model) -> list[Any]:
    """Give what a merge returns: in the order in which the keys were first mentioned."""
    keys = dict.fromkeys(
        key_of(each) for each in sorted(changes, key=lambda each: each["when"])
    )
    rows = []
    for key in keys:
        if key in after:
            rows.append(("UPDATE" if key in before else "INSERT", *key, *after[key].values()))
        elif key in before:
            rows.append(("DELETE", *key, *before[key].values()))
    return rows


def stored(engine: Engine) -> Model:
    with engine.connect() as connection:
        rows = connection.execute(select(t)).mappings().all()
    assert len({(row["it's"], row["id"]) for row in rows}) == len(rows)
    return {(row["it's"], row["id"]): {name: row[name] for name in VALUES} for row in rows}


@pytest.mark.parametrize("seed", range(4))
def test_a_feed_with_patches(engine: Engine, snapshots: Callable[[], int], seed: int) -> None:
    metadata.create_all(engine)
    chance = random.Random(seed)
    model: Model = {}
    for size in [1, 2, 40, 3, 2000, 1, 60, 5]:
        changes = batch(chance, size)
        before = {key: dict(row) for key, row in model.items()}
        expected, snapshot = apply(model, changes), snapshots()
        rows = pa.Table.from_pylist(changes, schema=SCHEMA)
        options: Any = {"preserve_row_ids": bool(seed % 2)}
        with engine.begin() as connection:
            statement = merge(t, **options).changes(
                rows, kind="what", sequence="when", assigned="sets"
            )
            if seed < 2:
                result = merge_result(connection.execute(statement))
            else:
                found = connection.execute(statement.returning(merge_action(), t))
                assert list(map(tuple, found)) == returned(changes, before, model)
                result = expected
        assert result == expected, (seed, size)
        assert stored(engine) == model, (seed, size)
        assert snapshots() == snapshot + bool(expected.written)


def test_patches_of_the_same_columns(engine: Engine, snapshots: Callable[[], int]) -> None:
    metadata.create_all(engine)
    chance = random.Random(9)
    model: Model = {("", n): {"n": n, 'a "b"': "old"} for n in range(20)}
    with engine.begin() as connection:
        rows = [{"it's": key, "id": n, **row} for (key, n), row in model.items()]
        connection.execute(t.insert(), rows)
    for size in [1, 3, 50]:
        changes = [{**each, "sets": ["n"]} for each in batch(chance, size, patches_only=True)]
        changes.sort(key=lambda each: each["when"])
        expected, snapshot = apply(model, changes), snapshots()
        rows = [{name: change[name] for name in ("n", "id", "it's")} for change in changes]
        with engine.begin() as connection:
            assert merge_result(connection.execute(patch(t, rows))) == expected
        assert stored(engine) == model
        assert snapshots() == snapshot + bool(expected.written)


def test_patches_in_pieces(engine: Engine) -> None:
    metadata.create_all(engine)
    chance = random.Random(5)
    model: Model = {}
    for _ in range(4):
        changes = sorted(batch(chance, 60), key=lambda each: each["when"])
        expected = apply(model, changes)
        with engine.begin() as connection, begin_merge(connection, t) as merging:
            merging.write(map(piece, changes))
        assert merging.result == expected
        assert stored(engine) == model


def piece(change: dict[str, Any]) -> Upsert | Patch | Delete:
    key = {"it's": change["it's"], "id": change["id"]}
    if change["what"] == "delete":
        return Delete(key)
    if change["what"] == "upsert":
        return Upsert({**key, **{name: change[name] for name in VALUES}})
    assigned = VALUES if change["sets"] is None else change["sets"]
    return Patch({**key, **{name: change[name] for name in assigned}})
