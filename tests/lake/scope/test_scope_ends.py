"""Savepoints, budgets, failures and conflicts of a scope."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest
from sqlalchemy import Connection, Engine, create_engine, exc, func, select, text

from fixtures.scoped import accounts, events, metadata, owners
from sqlalchemy_ducklake import driver, errors, merge_result, run_transaction
from sqlalchemy_ducklake.scope.options import WriteScope

Snapshots = Callable[[], int]


def names(connection: Connection) -> list[str]:
    """Read the names of all owners."""
    return list(connection.scalars(select(owners.c.name).order_by(owners.c.name)))


def add(connection: Connection, number: int) -> None:
    """Insert an owner."""
    connection.execute(owners.insert(), {"id": number, "name": f"n{number}"})


def own(connection: Connection) -> driver.Connection:
    """Give the driver's connection."""
    return cast("driver.Connection", connection.connection.dbapi_connection)


def test_m27_edge_38_nested_savepoints_bring_back_exactly_what_was(scoped: Engine) -> None:
    with scoped.begin() as connection:
        add(connection, 3)
        outer = connection.begin_nested()
        connection.execute(owners.delete().where(owners.c.id == 3))
        connection.execute(owners.update().where(owners.c.id == 1).values(name="x"))
        inner = connection.begin_nested()
        add(connection, 3)
        connection.execute(owners.update().values(name=owners.c.name + "!"))
        assert names(connection) == ["b!", "n3!", "x!"]
        inner.rollback()
        assert names(connection) == ["b", "x"]
        outer.rollback()
        assert names(connection) == ["a", "b", "n3"]
        with pytest.raises(exc.IntegrityError), connection.begin_nested():
            add(connection, 3)
        with connection.begin_nested():
            add(connection, 4)
    with scoped.connect() as connection:
        assert names(connection) == ["a", "b", "n3", "n4"]


def test_savepoints_as_text_nested_and_shadowed(scoped: Engine) -> None:
    with scoped.begin() as connection:
        for number, statement in enumerate(
            ("SAVEPOINT s", "savepoint inner_one", 'SAVEPOINT "S"'), start=3
        ):
            connection.execute(text(statement))
            add(connection, number)
        connection.exec_driver_sql("ROLLBACK TO SAVEPOINT s")
        assert names(connection) == ["a", "b", "n3", "n4"]
        connection.exec_driver_sql("RELEASE s")
        connection.exec_driver_sql("ROLLBACK TO s")
        assert names(connection) == ["a", "b"]
        with pytest.raises(exc.ProgrammingError, match="no savepoint 'inner_one'"):
            connection.exec_driver_sql("ROLLBACK TO inner_one")
        connection.exec_driver_sql("RELEASE SAVEPOINT s")
        add(connection, 5)
    with scoped.connect() as connection:
        assert names(connection) == ["a", "b", "n5"]


def test_a_savepoint_before_the_first_write_and_after_one_that_was_direct(
    scoped: Engine,
) -> None:
    with scoped.begin() as connection:
        first = connection.begin_nested()
        add(connection, 3)
        first.rollback()
        connection.execute(text("INSERT INTO events VALUES ('t', 1)"))
        second = connection.begin_nested()
        connection.execute(events.update().values(n=2))
        connection.execute(events.insert().values(what="u"))
        second.rollback()
        connection.execute(events.update().values(what="w"))
    with scoped.connect() as connection:
        assert connection.execute(select(events)).all() == [("w", 1)]
        assert names(connection) == ["a", "b"]


def test_without_a_scope_savepoints_are_refused_and_the_option_is_named(scoped: Engine) -> None:
    plain = scoped.execution_options(ducklake_write_scope=False)
    with plain.begin() as connection:
        with pytest.raises(exc.NotSupportedError, match="ducklake_write_scope=True"):
            connection.begin_nested()
        add(connection, 3)
    for option in ("yes", 3):
        with pytest.raises(errors.OptionError):
            scoped.execution_options(ducklake_write_scope=option)
    with pytest.raises(errors.OptionError):
        WriteScope(max_rows=0)


def test_an_option_of_a_connection_opens_a_scope(scoped: Engine) -> None:
    plain = create_engine(scoped.url)
    with plain.connect() as connection:
        connection.execution_options(ducklake_write_scope=True)
        add(connection, 3)
        with connection.begin_nested() as savepoint:
            add(connection, 4)
            savepoint.rollback()
        connection.commit()
        assert names(connection) == ["a", "b", "n3"]
    plain.dispose()


def test_autocommit_needs_no_scope(scoped: Engine) -> None:
    with scoped.connect() as connection:
        connection.execution_options(isolation_level="AUTOCOMMIT")
        add(connection, 3)
        connection.execute(owners.delete().where(owners.c.id == 3))
    with scoped.connect() as connection:
        assert names(connection) == ["a", "b"]


@pytest.mark.parametrize("limits", [WriteScope(max_rows=4), WriteScope(max_bytes=64)])
def test_m12_past_a_budget_what_is_kept_is_written_first(
    open_scoped: Callable[..., Engine], scoped: Engine, snapshots: Snapshots, limits: WriteScope
) -> None:
    engine, before = open_scoped(limits), snapshots()
    with engine.begin() as connection:
        for number in range(3, 12):
            add(connection, number)
        assert own(connection).work.direct
        connection.execute(
            owners.update().where(owners.c.id > 5).values(name="_" + owners.c.name)
        )
        with connection.begin_nested() as savepoint:
            for number in range(12, 20):
                add(connection, number)
            connection.execute(owners.delete().where(owners.c.id.between(3, 7)))
            savepoint.rollback()
        connection.execute(owners.delete().where(owners.c.id > 9))
        seen = names(connection)
    assert snapshots() == before + 1
    with scoped.connect() as connection:
        assert (
            names(connection)
            == seen
            == ["_n6", "_n7", "_n8", "_n9", "a", "b", "n3", "n4", "n5"]
        )


def test_m10_edge_40_many_rows_between_few_of_the_same_keys(
    open_scoped: Callable[..., Engine], scoped: Engine
) -> None:
    engine = open_scoped(WriteScope(direct_rows=50))
    with engine.begin() as connection:
        add(connection, 3)
        connection.execute(owners.update().values(name=owners.c.name + "1"))
        rows = [{"id": number, "name": f"bulk {number}"} for number in range(4, 60)]
        connection.execute(owners.insert(), rows)
        assert own(connection).work.direct
        connection.execute(owners.delete().where(owners.c.id > 10))
        connection.execute(owners.update().where(owners.c.id == 4).values(id=99))
        add(connection, 12)
        seen = names(connection)
        assert len(seen) == 11
    with scoped.connect() as connection:
        assert names(connection) == seen


def test_m34_a_definition_inside_a_scope_comes_after_what_is_kept(
    scoped: Engine, snapshots: Snapshots
) -> None:
    before = snapshots()
    with scoped.begin() as connection:
        add(connection, 3)
        savepoint = connection.begin_nested()
        connection.execute(text("ALTER TABLE owners ADD COLUMN more INTEGER"))
        connection.execute(text("UPDATE owners SET more = id"))
        add(connection, 4)
        assert connection.scalar(text("SELECT sum(more) FROM owners")) == 6
        with pytest.raises(exc.OperationalError, match="cannot be rolled back to"):
            savepoint.rollback()
    assert snapshots() == before + 1
    with scoped.connect() as connection:
        found = connection.execute(text("SELECT id, more FROM owners ORDER BY id")).all()
        assert found == [(1, 1), (2, 2), (3, 3), (4, None)]


def test_m29_an_error_of_the_engine_leaves_nothing_but_rollback(scoped: Engine) -> None:
    with scoped.connect() as connection:
        add(connection, 3)
        savepoint = connection.begin_nested()
        with pytest.raises(exc.DBAPIError):
            connection.execute(owners.update().values(name=func.error("half-way")))
        with pytest.raises(exc.DBAPIError) as caught:
            names(connection)
        assert isinstance(caught.value.orig, errors.TransactionAborted)
        with pytest.raises(exc.DBAPIError):
            savepoint.rollback()
        connection.rollback()
        add(connection, 3)
        connection.commit()
        assert names(connection) == ["a", "b", "n3"]


def test_m29_a_statement_that_fails_half_way_poisons_the_scope(scoped: Engine) -> None:
    with scoped.connect() as connection:
        unknown = owners.insert().values(id=3, name="c").returning(func.no_such(owners.c.id))
        with pytest.raises(exc.ProgrammingError, match="no_such"):
            connection.execute(unknown)
        for statement in (select(owners), owners.delete()):
            with pytest.raises(exc.OperationalError, match="no_such") as caught:
                connection.execute(statement)
            assert isinstance(caught.value.orig, errors.TransactionAborted)
        with pytest.raises(exc.OperationalError, match="no_such"):
            connection.commit()
        connection.rollback()
        assert names(connection) == ["a", "b"]


def test_a_rollback_and_a_commit_leave_nothing_temporary(scoped: Engine) -> None:
    left = text(
        "SELECT table_name FROM duckdb_tables() WHERE temporary UNION ALL "
        "SELECT view_name FROM duckdb_views() WHERE temporary AND NOT internal"
    )
    with scoped.connect() as connection:
        for end in (connection.rollback, connection.commit):
            add(connection, 3)
            assert len(names(connection)) == 3
            end()
            assert connection.execute(left).all() == []
            connection.rollback()
        connection.execute(owners.delete().where(owners.c.id == 99))
        connection.commit()
        assert connection.execute(left).all() == []


def test_s5_writers_of_other_tables_are_no_conflict_and_of_the_same_are(
    scoped: Engine, open_scoped: Callable[..., Engine], snapshots: Snapshots
) -> None:
    other, before = open_scoped(), snapshots()
    with scoped.connect() as connection:
        add(connection, 3)
        with other.begin() as second:
            second.execute(events.insert().values(what="x"))
        connection.commit()
    assert snapshots() == before + 2
    with scoped.connect() as connection:
        add(connection, 4)
        with other.begin() as second:
            second.execute(owners.update().where(owners.c.id == 1).values(name="theirs"))
        with pytest.raises(exc.OperationalError) as caught:
            connection.commit()
        failure = caught.value.orig
        assert isinstance(failure, errors.SerializationFailure)
        assert failure.tables == ("main.owners",)
        assert errors.classify(failure).retry
        connection.rollback()
        assert names(connection) == ["b", "n3", "theirs"]


def test_appends_without_a_key_never_conflict(
    scoped: Engine, open_scoped: Callable[..., Engine]
) -> None:
    other = open_scoped()
    with scoped.connect() as connection:
        connection.execute(events.insert().values(what="x"))
        with other.begin() as second:
            second.execute(events.insert().values(what="y"))
        connection.commit()
        assert sorted(connection.scalars(select(events.c.what))) == ["x", "y"]


def test_a_parent_that_others_delete_is_a_conflict(
    scoped: Engine, open_scoped: Callable[..., Engine]
) -> None:
    """M26: what the checks looked at is compared again at the commit."""
    other = open_scoped()
    with scoped.connect() as connection:
        connection.execute(accounts.delete())
        connection.commit()
        connection.execute(accounts.insert(), {"id": 9, "owner": 2, "balance": 1})
        with other.begin() as second:
            second.execute(owners.delete().where(owners.c.id == 2))
        with pytest.raises(exc.OperationalError):
            connection.commit()


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE owners ADD COLUMN more INTEGER",
        "ALTER TABLE owners RENAME TO people",
        "COMMENT ON TABLE owners IS 'new'",
    ],
)
def test_m36_a_definition_that_others_change_is_an_error_of_its_own(
    scoped: Engine, open_scoped: Callable[..., Engine], statement: str
) -> None:
    other = open_scoped()
    with scoped.connect() as connection:
        add(connection, 3)
        with other.begin() as second:
            second.execute(text(statement))
        with pytest.raises(exc.OperationalError) as caught:
            connection.commit()
        assert isinstance(caught.value.orig, errors.SchemaChanged)
        assert caught.value.orig.table == "main.owners"


def test_a_serializable_scope_bears_no_other_commit(
    scoped: Engine, open_scoped: Callable[..., Engine]
) -> None:
    other = open_scoped()
    with scoped.connect().execution_options(isolation_level="SERIALIZABLE") as connection:
        add(connection, 3)
        with other.begin() as second:
            second.execute(events.insert().values(what="x"))
        with pytest.raises(exc.OperationalError) as caught:
            connection.commit()
        assert isinstance(caught.value.orig, errors.SerializationFailure)


def test_a_loser_wins_at_the_second_try(
    scoped: Engine, open_scoped: Callable[..., Engine]
) -> None:
    other, tries = open_scoped(), []

    def work(connection: Connection) -> Any:
        tries.append(1)
        result = connection.execute(owners.insert(), {"id": 10 + len(tries), "name": "mine"})
        if len(tries) == 1:
            with other.begin() as second:
                add(second, 3)
        return result

    run_transaction(scoped, work)
    assert len(tries) == 2
    with scoped.connect() as connection:
        assert names(connection) == ["a", "b", "mine", "n3"]


def test_the_snapshot_tells_what_was_written_and_is_known(scoped: Engine) -> None:
    with scoped.begin() as connection:
        add(connection, 3)
        result = connection.execute(owners.update().where(owners.c.id == 3).values(name="c"))
    with scoped.connect() as connection:
        newest = "FROM lake.snapshots() ORDER BY snapshot_id DESC LIMIT 1"
        row = connection.execute(
            text(f"SELECT snapshot_id, author, commit_message {newest}")
        ).one()
    assert merge_result(result).snapshot_id == row[0]
    assert row[1:] == ("sqlalchemy_ducklake", "insert main.owners, update main.owners")


def test_a_cursor_of_the_driver_sees_what_is_kept(scoped: Engine) -> None:
    with scoped.begin() as connection:
        add(connection, 3)
        cursor = own(connection).cursor()
        assert cursor.execute("SELECT count(*) FROM owners").fetchone() == (3,)
        cursor.execute("UPDATE owners SET name = 'z' WHERE id = 3")
        add(connection, 4)
        assert names(connection) == ["a", "b", "n4", "z"]
    with scoped.connect() as connection:
        assert names(connection) == ["a", "b", "n4", "z"]


def test_keys_are_counted_up_across_statements(open_scoped: Callable[..., Engine]) -> None:
    from sqlalchemy import Column, Integer, MetaData, Table

    engine, wanted = open_scoped(), MetaData()
    table = Table(
        "counted", wanted, Column("id", Integer, primary_key=True), Column("n", Integer)
    )
    wanted.create_all(engine)
    with engine.begin() as connection:
        for number in range(3):
            result = connection.execute(table.insert().values(n=number))
            assert result.inserted_primary_key == (number + 1,)
        with connection.begin_nested() as savepoint:
            connection.execute(table.insert().values(n=3))
            savepoint.rollback()
        assert connection.execute(table.insert().values(n=4)).inserted_primary_key == (4,)
    assert metadata.tables
