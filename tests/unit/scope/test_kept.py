"""What is drained from kept rows, laid over what was logged before, is what they became."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from sqlalchemy_ducklake.driver.script import Parameter
from sqlalchemy_ducklake.scope.kept import KeptRows
from sqlalchemy_ducklake.scope.keyvalues import NORMAL, exact_values
from sqlalchemy_ducklake.scope.log import FIRST_OWN_ROW

Log = dict[int, list[object]]


def lay_over(log: Log, kept: KeptRows) -> None:
    drained = kept.drain()
    own = drained.own
    assert drained.logged == bool(own.gone or log.keys() & own.rows.keys())
    log.update({row: list(values) for row, values in own.rows.items()})
    for row in own.gone:
        del log[row]
    for names, rows in drained.patches.items():
        for each in rows:
            assert log[each.row][0] == each.key[0]
            for name in names:
                log[each.row][kept.names.index(name)] = each.values[name]
    for each in drained.removed:
        assert log.pop(each.row)[0] == each.key[0]


@pytest.mark.parametrize("seed", range(50))
def test_drained_rows_are_what_statements_made(seed: int) -> None:
    chance = random.Random(seed)
    log: Log = {row: [row, 0, 0] for row in range(4)}
    expected = {(row,): [row, 0, 0] for row in range(4)}
    kept = KeptRows(["k", "a", "b"], FIRST_OWN_ROW)
    kept.learn([(row, row) for row in range(4)])
    kept.complete = True
    for step in range(60):
        keys = [(each,) for each in chance.sample(range(8), 3)]
        draw = chance.random()
        if draw < 0.3:
            new = [key for key in keys if key not in expected]
            assert kept.are_new(keys) == (new == keys)
            kept.insert(new, [(key[0], step, 0) for key in new])
            expected.update({key: [key[0], step, 0] for key in new})
        elif draw < 0.6:
            name = chance.choice(["a", "b"])
            there = [key for key in keys if key in expected]
            assert kept.update(keys, [name], [(step,)] * 3) == len(there)
            for key in there:
                expected[key][kept.names.index(name)] = step
        elif draw < 0.8:
            there = [key for key in keys if expected.pop(key, None)]
            assert kept.delete(keys) == len(there)
        else:
            lay_over(log, kept)
            assert not kept.waits
            assert sorted(log.values()) == sorted(expected.values())
    lay_over(log, kept)
    assert sorted(log.values()) == sorted(expected.values())


def test_rows_without_a_key_are_forgotten_once_logged() -> None:
    kept = KeptRows(["a"], FIRST_OWN_ROW)
    kept.insert([], [(1,), (2,)])
    assert list(kept.drain().own.rows.values()) == [(1,), (2,)]
    kept.insert([], [(3,)])
    assert kept.drain().own.rows == {FIRST_OWN_ROW + 2: (3,)}


def test_a_key_found_twice_is_told() -> None:
    kept = KeptRows(["k"], FIRST_OWN_ROW)
    assert kept.learn([("x", 1), ("y", 2)], [("x",), ("y",), ("z",)])
    assert kept.unknown([("x",), ("z",), ("w",)]) == [("w",)]
    assert not kept.learn([("x", 5)])


@pytest.mark.parametrize(
    ("type_name", "value"),
    [("INTEGER", True), ("INTEGER", 1.0), ("VARCHAR", 1), ("VARCHAR", "\ud800"), ("DATE", "x")],
)
def test_values_that_may_equal_others_make_no_key(type_name: str, value: object) -> None:
    assert NORMAL[type_name](value) is None


@pytest.mark.parametrize("value", ["6e8bc430-9c3a-11d9-9669-0800200c9a66", b"x", "x", 1])
def test_only_texts_of_an_id_are_exact_as_one(value: object) -> None:
    parameter = Parameter(0, "", "id", pa.string(), "UUID")
    found = exact_values([parameter], [[value], [None]], [])
    assert (found is not None) == (value == "6e8bc430-9c3a-11d9-9669-0800200c9a66")
