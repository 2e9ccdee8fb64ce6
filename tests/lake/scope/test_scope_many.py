"""M10: a statement that changes many rows of the lake writes at once, after what was kept."""

from __future__ import annotations

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
    bindparam,
    delete,
    func,
    insert,
    select,
    update,
)
from sqlalchemy.orm import Session, registry

from sqlalchemy_ducklake.scope.options import MOST_KEPT
from sqlalchemy_ducklake.scope.unit import scope_of

Snapshots = Callable[[], int]
SIZE = MOST_KEPT + 1000
many = Table(
    "many",
    MetaData(),
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("n", Integer),
)


@pytest.fixture
def lake(open_scoped: Callable[..., Engine]) -> Engine:
    engine = open_scoped()
    many.create(engine)
    with engine.begin() as connection:
        connection.execute(insert(many), [{"id": n, "n": 0} for n in range(SIZE)])
    return engine


def sums(connection: Connection) -> tuple[int, int]:
    row = connection.execute(select(func.count(), func.sum(many.c.n)).select_from(many)).one()
    return row[0], row[1]


def waits(connection: Connection) -> bool:
    scope = scope_of(connection.connection.dbapi_connection)  # type: ignore[arg-type]
    return scope is not None and scope.waits


def test_what_was_kept_comes_first_and_what_follows_after(
    lake: Engine, snapshots: Snapshots
) -> None:
    before = snapshots()
    with lake.begin() as connection:
        connection.execute(insert(many), {"id": -1, "n": 5})
        # The second is the first from the cache, with other values.
        for value in (1, 2):
            change = update(many).where(many.c.id < SIZE).values(n=many.c.n + value)
            assert connection.execute(change).rowcount == SIZE + 1
            assert not waits(connection)
            assert sums(connection) == (SIZE + 1, (SIZE + 1) * (value + value // 2) + 5)
        gone = connection.execute(delete(many).where(many.c.id >= bindparam("i")), {"i": 10})
        assert gone.rowcount == SIZE - 10
        connection.execute(many.update().where(many.c.id == 3), {"n": 100})
        assert waits(connection)
        assert sums(connection) == (11, 30 + 8 + 97)
    assert snapshots() == before + 1
    with lake.connect() as connection:
        assert sums(connection) == (11, 30 + 8 + 97)


def test_rows_are_returned_and_parameter_sets_are_all_run(lake: Engine) -> None:
    with lake.begin() as connection:
        own = update(many).values(n=many.c.id).returning(many.c.id, many.c.n)
        found = connection.execute(own).all()
        assert sorted(found) == [(n, n) for n in range(SIZE)]
        change = update(many).where(many.c.id >= bindparam("low")).values(n=bindparam("value"))
        sets: list[dict[str, Any]] = [{"low": 0, "value": 1}, {"low": SIZE - 2, "value": 3}]
        assert connection.execute(change, sets).rowcount == SIZE + 2
        assert sums(connection) == (SIZE, SIZE + 4)


def test_after_a_savepoint_all_is_kept(lake: Engine) -> None:
    with lake.begin() as connection:
        nested = connection.begin_nested()
        assert connection.execute(update(many).values(n=7)).rowcount == SIZE
        assert sums(connection) == (SIZE, 7 * SIZE)
        nested.rollback()
        assert sums(connection) == (SIZE, 0)
    with lake.connect() as connection:
        assert sums(connection) == (SIZE, 0)


def test_a_rollback_takes_it_back(lake: Engine, snapshots: Snapshots) -> None:
    before = snapshots()
    with lake.connect() as connection:
        connection.execute(insert(many), {"id": -1, "n": 5})
        connection.execute(delete(many))
        connection.rollback()
        assert sums(connection) == (SIZE, 0)
    assert snapshots() == before


class Many:
    id: int
    n: int


@pytest.mark.parametrize("synchronize", ["fetch", "evaluate", False])
def test_a_session_changes_many_by_entity(lake: Engine, synchronize: Any) -> None:
    mapping = registry()
    mapping.map_imperatively(Many, many)
    with Session(lake) as session:
        one = session.get_one(Many, 1)
        added = Many()
        added.id, added.n = -1, 0
        session.add(added)
        option = {"synchronize_session": synchronize}
        found: Any = session.execute(update(Many).values(n=9), execution_options=option)
        assert found.rowcount == SIZE + 1
        if synchronize is not False:
            assert one.n == 9
        session.commit()
        assert (one.n, added.n) == (9, 9)
    mapping.dispose()
