"""What a write scope promises of statements, checks and its end, whichever way they go."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from sqlalchemy import (
    Column,
    Connection,
    Engine,
    Integer,
    MetaData,
    String,
    Table,
    bindparam,
    exc,
    insert,
    literal,
    select,
)

from fixtures.scoped import accounts, events
from sqlalchemy_ducklake import driver, errors, run_transaction
from sqlalchemy_ducklake.driver.statements import may_change

Snapshots = Callable[[], int]
wide = Table(
    "wide",
    MetaData(),
    Column("id", Integer, primary_key=True, autoincrement=False),
    *(Column(f"c{number}", Integer) for number in range(3)),
    Column("s", String),
)
SIZE = 300


@pytest.fixture
def lake(open_scoped: Callable[..., Engine]) -> Engine:
    engine = open_scoped()
    wide.create(engine)
    with engine.begin() as connection:
        connection.execute(insert(wide), [{"id": n, "c0": n} for n in range(SIZE)])
    return engine


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The statements that change the lake itself."""
    found: list[str] = []
    send = driver.Connection.send

    def spy(self: driver.Connection, statement: Any, values: Any) -> None:
        if not self.staging and may_change(statement):
            found.append(statement.type.name)
        send(self, statement, values)

    monkeypatch.setattr(driver.Connection, "send", spy)
    return found


def test_m4_many_single_changes_are_few_statements_and_one_snapshot(
    lake: Engine, written: list[str], snapshots: Snapshots
) -> None:
    before = snapshots()
    with lake.begin() as connection:
        for number in range(SIZE // 3):
            change = wide.update().where(wide.c.id == number)
            connection.execute(change.values({f"c{number % 3}": 7}))
            connection.execute(wide.delete().where(wide.c.id == number + SIZE // 3))
            connection.execute(insert(wide).values(id=number + SIZE, s="new"))
        assert written == []
    assert sorted(written) == ["DELETE", "INSERT", "UPDATE"]
    assert snapshots() == before + 1


def test_m6_a_column_that_no_statement_assigns_stays_as_it_is(lake: Engine) -> None:
    with lake.begin() as connection:
        connection.execute(wide.update().where(wide.c.id == 5).values(c1=1))
        connection.execute(wide.update().where(wide.c.id == 5).values(s=None))
        connection.execute(wide.update().where(wide.c.id == 6).values(c0=None))
    with lake.connect() as connection:
        rows = connection.execute(select(wide).where(wide.c.id.in_([5, 6])).order_by("id"))
        assert rows.all() == [(5, 5, 1, None, None), (6, None, None, None, None)]


alias = wide.alias("w")
MUTATIONS: Sequence[tuple[Any, Any]] = (
    (wide.update().where(wide.c.id == 1), {"c0": 9}),
    (wide.update().where(literal(1) == wide.c.id), {"c0": 9}),
    (wide.update().where(wide.c.id.in_([1, 2, 999])), {"c0": 9}),
    (wide.update().where(wide.c.id == bindparam("i")), [{"i": 1, "c0": 8}, {"i": 1, "c0": 9}]),
    (wide.update().where(wide.c.id == 1, wide.c.c0 == 5).values(c0=9), {}),
    (wide.update().where(wide.c.id == 1).values(c0=wide.c.c0 + 1), {}),
    (wide.update().where(wide.c.id == 1).values(id=5000), {}),
    (wide.update().where(wide.c.id == alias.c.c0, alias.c.id < 3).values(c1=alias.c.id), {}),
    (wide.delete().where(wide.c.id == 1), {}),
    (wide.delete().where(wide.c.id.in_([1, 2, 999])), {}),
    (wide.delete().where(wide.c.id == alias.c.c0, alias.c.id < 3), {}),
    (insert(wide).values(id=1000, c0=3), {}),
    (insert(wide).from_select(["id", "c0"], select(wide.c.id + 1000, wide.c.c0)), {}),
)


@pytest.mark.parametrize(("statement", "parameters"), MUTATIONS)
def test_m8_edge_39_each_way_has_the_same_result(
    lake: Engine, open_scoped: Callable[..., Engine], statement: Any, parameters: Any
) -> None:
    def changed(connection: Connection) -> tuple[int, set[Any]]:
        # Something is kept already, also of a row that the statement is about.
        connection.execute(wide.update().where(wide.c.id == 1), {"c0": 5})
        connection.execute(insert(wide), {"id": 999, "c0": 1})
        count = connection.execute(statement, parameters).rowcount
        return count, set(connection.execute(select(wide)))

    with open_scoped(False).connect() as connection:
        expected = changed(connection)
        connection.rollback()
    with lake.connect() as connection:
        assert changed(connection) == expected
        connection.commit()
        assert set(connection.execute(select(wide))) == expected[1]


def test_m24_a_check_looks_at_what_the_row_has_become(scoped: Engine) -> None:
    taken = accounts.update().where(accounts.c.id == 1)
    with scoped.begin() as connection:
        connection.execute(taken.values(balance=accounts.c.balance - 8))
        with pytest.raises(exc.IntegrityError) as caught:
            connection.execute(taken.values(balance=accounts.c.balance - 3))
        assert isinstance(caught.value.orig, errors.CheckViolation)
        # What is not known is not refused.
        connection.execute(accounts.update().where(accounts.c.id == 2).values(balance=None))
    with scoped.connect() as connection:
        rows = connection.execute(select(accounts.c.balance).order_by(accounts.c.id))
        assert rows.scalars().all() == [2, None]


def test_m28_after_a_rollback_checks_look_at_what_is_there(scoped: Engine) -> None:
    taken = accounts.update().where(accounts.c.id == 1)
    with scoped.connect() as connection:
        connection.execute(taken.values(balance=1))
        connection.rollback()
        connection.execute(taken.values(balance=accounts.c.balance - 10))
        connection.commit()
        assert connection.scalar(select(accounts.c.balance).filter_by(id=1)) == 0


def test_m31_what_throws_publishes_nothing_and_neither_does_nothing(
    lake: Engine, snapshots: Snapshots
) -> None:
    before = snapshots()

    def work(connection: Connection) -> None:
        connection.execute(insert(wide), {"id": 5000})
        raise LookupError("it went wrong")

    with pytest.raises(LookupError):
        run_transaction(lake, work)
    with lake.begin() as connection:
        connection.execute(wide.update().where(wide.c.id == -1), {"c0": 1})
        connection.execute(insert(wide), {"id": 5000})
        connection.execute(wide.delete().where(wide.c.id == 5000))
        connection.execute(wide.update().where(wide.c.id == 7), {"c0": 7})
    assert snapshots() == before


def test_m3_rows_without_a_key_are_each_of_their_own(scoped: Engine) -> None:
    with scoped.begin() as connection:
        for _ in range(3):
            connection.execute(insert(events), [{"what": "same", "n": 1}] * 2)
        connection.execute(events.update().where(events.c.n == 1).values(n=2))
        connection.execute(insert(events), {"what": "same", "n": 1})
    with scoped.connect() as connection:
        assert sorted(connection.scalars(select(events.c.n))) == [1, 2, 2, 2, 2, 2, 2]


def test_m14_a_generated_value_is_known_at_once(open_scoped: Callable[..., Engine]) -> None:
    engine = open_scoped()
    counted = Table("counted", MetaData(), Column("id", Integer, primary_key=True))
    counted.create(engine)
    with engine.begin() as connection:
        keys = [connection.execute(insert(counted)).inserted_primary_key for _ in range(3)]
    assert [tuple(key) for key in keys if key is not None] == [(1,), (2,), (3,)]
