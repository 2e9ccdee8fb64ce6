"""A scope in every kind of catalog."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from sqlalchemy import URL, create_engine, exc, func, select

from fixtures.scoped import accounts, events, metadata, owners
from sqlalchemy_ducklake import errors
from sqlalchemy_ducklake.scope.unit import Scope


def test_what_is_kept_is_seen_undone_and_written(any_url: URL) -> None:
    engine = create_engine(any_url, ducklake_write_scope=True, enforce_constraints="all")
    metadata.create_all(engine)
    with engine.begin() as connection:
        connection.execute(owners.insert(), [{"id": n, "name": f"n{n}"} for n in range(50)])
    with engine.connect() as connection:
        connection.execute(owners.delete().where(owners.c.id < 10))
        connection.execute(
            owners.update().where(owners.c.id < 20).values(name="m" + owners.c.name)
        )
        with connection.begin_nested() as savepoint:
            connection.execute(owners.delete())
            connection.execute(accounts.delete())
            savepoint.rollback()
        connection.execute(accounts.insert(), {"id": 1, "owner": 10, "balance": 1})
        with engine.begin() as other:
            other.execute(events.insert().values(what="x"))
        assert connection.scalar(select(func.count()).select_from(owners)) == 40
        connection.commit()
        assert connection.scalar(select(owners.c.name).where(owners.c.id == 10)) == "mn10"
        assert connection.scalar(select(accounts.c.balance)) == 1
        connection.rollback()
        connection.execute(owners.update().where(owners.c.id == 30).values(name="mine"))
        with engine.begin() as other:
            other.execute(owners.update().where(owners.c.id == 31).values(name="theirs"))
        with pytest.raises(exc.OperationalError) as caught:
            connection.commit()
        assert isinstance(caught.value.orig, errors.SerializationFailure)
        connection.rollback()
        found: Any = connection.scalars(select(owners.c.name).where(owners.c.id.in_([30, 31])))
        assert sorted(found) == ["n30", "theirs"]
    engine.dispose()


@pytest.mark.parametrize("overtakings", [1, 50])
def test_whoever_appends_while_a_scope_writes_is_no_conflict(
    any_url: URL, monkeypatch: pytest.MonkeyPatch, overtakings: int
) -> None:
    """A transaction that nobody lets write is told so, and its connection is as good as new."""
    engine = create_engine(any_url, ducklake_write_scope=True)
    metadata.create_all(engine)
    with engine.begin() as connection:
        connection.execute(owners.insert(), [{"id": n, "name": f"n{n}"} for n in range(5)])
    others, write = itertools.count(), Scope.write

    def overtaken(scope: Scope) -> None:
        if next(others) < overtakings:
            aside = engine.execution_options(ducklake_write_scope=False)
            with aside.begin() as other:
                other.execute(events.insert().values(what="x"))
        write(scope)

    monkeypatch.setattr(Scope, "write", overtaken)
    with engine.connect() as connection:
        connection.execute(owners.update().where(owners.c.id == 3).values(name="mine"))
        if overtakings == 1:
            connection.commit()
        else:
            with pytest.raises(exc.OperationalError) as caught:
                connection.commit()
            assert errors.classify(caught.value).retry
            connection.rollback()
        monkeypatch.undo()
        found = connection.scalar(select(owners.c.name).where(owners.c.id == 3))
        assert found == ("mine" if overtakings == 1 else "n3")
        connection.execute(owners.delete().where(owners.c.id == 3))
        connection.commit()
        assert connection.scalar(select(func.count()).select_from(owners)) == 4
    engine.dispose()
