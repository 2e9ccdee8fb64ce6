"""What a scope wrote goes into the lake in the order of the foreign keys."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import Column, Engine, ForeignKey, Integer, MetaData, Table

from sqlalchemy_ducklake import driver
from sqlalchemy_ducklake.scope.log import Log
from sqlalchemy_ducklake.scope.writing import parents_first

metadata = MetaData()
parents = Table("parents", metadata, Column("id", Integer, primary_key=True))
children = Table(
    "children",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("parent", ForeignKey("parents.id")),
)


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Listen to what is sent to the engine: what is done to which table of the lake."""
    found: list[str] = []
    send = driver.Connection.send

    def listening(connection: driver.Connection, statement: Any, values: Any) -> None:
        words = statement.query.split()
        if words[:2] in (["INSERT", "INTO"], ["DELETE", "FROM"]) and "lake" in words[2]:
            found.append(f"{words[0]} {words[2].split('.')[-1]}")
        send(connection, statement, values)

    monkeypatch.setattr(driver.Connection, "send", listening)
    return found


def test_parents_are_written_before_children_and_go_after_them(
    open_scoped: Callable[..., Engine], written: list[str]
) -> None:
    engine = open_scoped(enforce_constraints="keys")
    metadata.create_all(engine)
    with engine.begin() as connection:
        connection.execute(children.insert(), [{"id": each, "parent": 1} for each in (1, 2)])
        connection.execute(parents.insert(), [{"id": each} for each in (1, 2)])
    with engine.begin() as connection:
        for table in (parents, children):
            connection.execute(table.delete().where(table.c.id == 1))
            connection.execute(table.insert(), {"id": 3})
    assert written == [
        'INSERT "parents"',
        'INSERT "children"',
        'DELETE "children"',
        'DELETE "parents"',
        'INSERT "parents"',
        'INSERT "children"',
    ]


@pytest.mark.parametrize(
    ("references", "expected"),
    [
        ({"a": "b", "b": "c", "c": ""}, "cba"),
        ({"a": "", "b": "", "c": "a"}, "abc"),
        ({"a": "b", "b": "a", "c": "b"}, "bac"),
        ({"a": "a", "b": "z", "c": "ab"}, "abc"),
        ({}, ""),
    ],
)
def test_tables_in_a_circle_are_written_too(references: dict[str, str], expected: str) -> None:
    logs = [
        Log("lake", ("Main", name), (), parents={("main", each) for each in others})
        for name, others in references.items()
    ]
    assert "".join(log.table[1] for log in parents_first(logs)) == expected
