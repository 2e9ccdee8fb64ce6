"""What few statements did to a table is written from Python, and no log is ever made."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, bindparam, exc, select, text

from fixtures.scoped import events
from lake.scope.test_scope_rows import KEPT, items, pairs
from lake.scope.test_scope_rows import metadata as tables
from sqlalchemy_ducklake import insert
from sqlalchemy_ducklake.errors import SerializationFailure
from sqlalchemy_ducklake.scope.unit import Scope, scope_of

Snapshots = Callable[[], int]


@pytest.fixture
def straight(open_scoped: Callable[..., Engine]) -> Engine:
    """An engine with a write scope on the tables of single rows, three in each."""
    engine = open_scoped(enforce_constraints="keys")
    tables.create_all(engine)
    with engine.begin() as connection:
        connection.execute(insert(items), [{"id": n, "n": n} for n in (1, 2, 3)])
        connection.execute(insert(pairs).values(a="é'", b=dt.date(2024, 1, 2), n=1))
    return engine


def scope(connection: Connection) -> Scope:
    found = scope_of(connection.connection.dbapi_connection)  # type: ignore[arg-type]
    assert found is not None
    return found


@pytest.mark.parametrize(("statement", "parameters"), KEPT)
def test_one_statement_becomes_what_a_read_shows(
    straight: Engine, statement: Any, parameters: Any
) -> None:
    table = statement.table
    with straight.connect() as connection:
        connection.execute(statement, parameters)
        expected = connection.execute(select(table)).all()
        connection.rollback()
        connection.execute(statement, parameters)
        assert not scope(connection).temporary
        connection.commit()
        assert sorted(connection.execute(select(table)), key=str) == sorted(expected, key=str)


def rows(connection: Connection) -> list[tuple[Any, ...]]:
    found = connection.execute(text("SELECT rowid, id, n, s FROM items ORDER BY id"))
    return [tuple(row) for row in found]


def test_rows_keep_their_row_id_whatever_becomes_of_them(straight: Engine) -> None:
    change = items.update().where(items.c.id == bindparam("i"))
    with straight.connect() as connection:
        before = {key: row for row, key, *_ in rows(connection)}
        connection.execute(change, [{"i": 1, "n": 5}, {"i": 2, "n": 6}])
        connection.execute(items.update().where(items.c.id == 2), {"s": "x"})
        connection.execute(items.delete().where(items.c.id == 3))
        connection.execute(insert(items), {"id": 3, "n": 7})
        connection.execute(insert(items), {"id": 9, "n": 8})
        connection.commit()
        found = rows(connection)
        assert [row[1:] for row in found] == [
            (1, 5, None),
            (2, 6, "x"),
            (3, 7, None),
            (9, 8, None),
        ]
        assert [row for row, *_ in found[:3]] == [before[1], before[2], before[3]]


def test_a_row_that_has_the_values_already_is_not_written(
    straight: Engine, snapshots: Snapshots
) -> None:
    before = snapshots()
    with straight.connect() as connection:
        change = items.update().where(items.c.id == 2)
        assert connection.execute(change, {"n": 2}).rowcount == 1
        assert not scope(connection).temporary
        connection.commit()
    assert snapshots() == before


def test_what_came_before_a_savepoint_is_logged_and_what_came_after_is_not(
    straight: Engine,
) -> None:
    with straight.connect() as connection:
        nested = connection.begin_nested()
        connection.execute(insert(items), {"id": 9, "n": 9})
        assert not scope(connection).temporary
        nested.rollback()
        connection.execute(items.delete().where(items.c.id == 1))
        connection.execute(insert(items), {"id": 8, "n": 8})
        connection.commit()
        assert [row[1] for row in rows(connection)] == [2, 3, 8]


def test_rows_without_a_key_are_written_in_their_order(scoped: Engine) -> None:
    with scoped.connect() as connection:
        for number in range(20):
            connection.execute(insert(events), {"what": "x", "n": 20 - number})
        assert not scope(connection).temporary
        connection.commit()
        found = connection.scalars(text("SELECT n FROM events ORDER BY rowid")).all()
        assert found == list(range(20, 0, -1))


def test_a_statement_of_text_comes_after_what_is_kept(straight: Engine) -> None:
    with straight.connect() as connection:
        connection.execute(insert(items), {"id": 9, "n": 9})
        assert not scope(connection).temporary
        connection.execute(text("UPDATE items SET n = n + 1 WHERE id = 9"))
        connection.execute(items.update().where(items.c.id == 1), {"n": 4})
        connection.commit()
        assert [(row[1], row[2]) for row in rows(connection)] == [
            (1, 4),
            (2, 2),
            (3, 3),
            (9, 10),
        ]


def test_a_row_that_others_change_meanwhile_is_a_conflict(
    straight: Engine, open_scoped: Callable[..., Engine]
) -> None:
    change = items.update().where(items.c.id == 1)
    with straight.connect() as connection:
        connection.execute(change, {"n": 4})
        with open_scoped().begin() as another:
            another.execute(change, {"n": 5})
            assert not scope(another).temporary
        with pytest.raises(exc.OperationalError) as caught:
            connection.commit()
        assert isinstance(caught.value.orig, SerializationFailure)
        connection.rollback()
        assert [row[2] for row in rows(connection)] == [5, 2, 3]
