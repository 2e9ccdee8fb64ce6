"""M7, M38: the reads of a transaction see what it keeps aside, whatever way they ask."""

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
    String,
    Table,
    exc,
    func,
    inspect,
    select,
    text,
    union_all,
)
from sqlalchemy.orm import Session, registry

from fixtures.scoped import accounts, events, owners


def kept(connection: Connection) -> None:
    """Keep an insert, an update and a delete aside."""
    connection.execute(owners.insert(), {"id": 3, "name": "c"})
    connection.execute(accounts.update().where(accounts.c.id == 1).values(balance=11))
    connection.execute(accounts.delete().where(accounts.c.id == 2))
    connection.execute(accounts.insert(), {"id": 3, "owner": 3, "balance": 30})


_JOINED = "SELECT o.name, a.balance FROM owners o JOIN accounts a ON a.owner = o.id"
QUERIES: dict[str, tuple[Any, list[Any]]] = {
    "core": (select(accounts.c.id, accounts.c.balance), [(1, 11), (3, 30)]),
    "join": (select(owners.c.name, accounts.c.balance).join(accounts), [("a", 11), ("c", 30)]),
    "aggregate": (select(func.sum(accounts.c.balance), func.count()), [(41, 2)]),
    "subquery": (
        select(owners.c.id).where(owners.c.id.in_(select(accounts.c.owner))),
        [(1,), (3,)],
    ),
    "alias": (select(accounts.alias("x").c.id), [(1,), (3,)]),
    "union": (
        union_all(select(owners.c.id), select(accounts.c.id)),
        [(1,), (1,), (2,), (3,), (3,)],
    ),
    "cte": (select(select(accounts).cte("c").c.balance), [(11,), (30,)]),
    "window": (select(func.row_number().over(order_by=accounts.c.id)), [(1,), (2,)]),
    "text": (text("SELECT id, balance FROM accounts"), [(1, 11), (3, 30)]),
    "qualified text": (text("SELECT main.accounts.id FROM lake.main.accounts"), [(1,), (3,)]),
    "quoted text": (text('SELECT "ACCOUNTS".id FROM "Accounts"'), [(1,), (3,)]),
    "from first": (text("FROM accounts SELECT id"), [(1,), (3,)]),
    "joined text": (text(_JOINED), [("a", 11), ("c", 30)]),
    "text with a parameter": (
        text("SELECT id FROM accounts WHERE balance > :least").bindparams(least=20),
        [(3,)],
    ),
    "correlated": (
        text(
            "SELECT id, (SELECT max(balance) FROM accounts a WHERE a.owner = o.id) "
            "FROM owners AS o"
        ),
        [(1, 11), (2, None), (3, 30)],
    ),
    "asof": (
        text("SELECT a.id FROM owners o ASOF JOIN accounts a ON o.id >= a.id"),
        [(1,), (1,), (3,)],
    ),
    "nothing of the lake": (select(func.abs(-1)), [(1,)]),
    "a hidden name": (text("WITH accounts AS (SELECT 7 AS id) FROM accounts"), [(7,)]),
    "another snapshot": (
        text("SELECT id FROM accounts AT (VERSION => 2) WHERE id = 2"),
        [(2,)],
    ),
    "explained": (text("SELECT count(*) FROM (SUMMARIZE accounts)"), [(3,)]),
}


@pytest.mark.parametrize("name", QUERIES)
def test_every_query_sees_the_transactions_own_writes(scoped: Engine, name: str) -> None:
    query, expected = QUERIES[name]
    with scoped.begin() as connection:
        kept(connection)
        assert sorted(map(tuple, connection.execute(query))) == expected
        # Once more, from the cache, after another change.
        connection.execute(events.insert(), {"what": "x"})
        assert sorted(map(tuple, connection.execute(query))) == expected


def test_views_and_macros_show_them_too(scoped: Engine) -> None:
    with scoped.begin() as connection:
        connection.execute(
            text("CREATE VIEW rich AS SELECT id FROM accounts WHERE balance > 10")
        )
        connection.execute(text("CREATE MACRO total() AS (SELECT sum(balance) FROM accounts)"))
    for query, expected in (("SELECT id FROM rich", [1, 3]), ("SELECT total()", [41])):
        with scoped.connect() as connection:
            kept(connection)
            assert sorted(connection.scalars(text(query))) == expected


def test_a_query_through_a_view_costs_the_savepoints_before_it(scoped: Engine) -> None:
    with scoped.begin() as connection:
        connection.execute(
            text("CREATE VIEW rich AS SELECT id FROM accounts WHERE balance > 10")
        )
    with scoped.connect() as connection:
        savepoint = connection.begin_nested()
        kept(connection)
        assert connection.scalars(text("SELECT id FROM rich ORDER BY id")).all() == [1, 3]
        with pytest.raises(exc.OperationalError, match="cannot be rolled back to"):
            savepoint.rollback()
        assert connection.scalar(select(func.sum(accounts.c.balance))) == 41
        connection.rollback()
        assert connection.scalar(select(func.sum(accounts.c.balance))) == 30


def test_names_with_dots_quotes_and_other_schemas(open_scoped: Callable[..., Engine]) -> None:
    engine, other = open_scoped(), MetaData()
    with engine.begin() as connection:
        connection.execute(text('CREATE SCHEMA "s.2"'))
    tables = [
        Table(
            name,
            other,
            Column('i"d', Integer, primary_key=True),
            Column("V %", String),
            schema=s,
        )
        for name in ("same", 'we.ird "t" %s')
        for s in (None, "s.2")
    ]
    other.create_all(engine)
    with engine.begin() as connection:
        for number, table in enumerate(tables):
            connection.execute(table.insert(), [_row(1, f"v{number}"), _row(2, "x")])
            connection.execute(table.update().where(table.c["V %"] == "x").values({"V %": "y"}))
        for number, table in enumerate(tables):
            own = [(1, f"v{number}"), (2, "y")]
            assert sorted(map(tuple, connection.execute(select(table)))) == own
        quoted = 'SELECT "s.2"."same"."V %" FROM "s.2"."same" ORDER BY 1'
        assert connection.exec_driver_sql(quoted).scalars().all() == ["v1", "y"]
        assert connection.exec_driver_sql("SELECT same FROM same ORDER BY 1").all() != []
    with engine.connect() as connection:
        for number, table in enumerate(tables):
            found = connection.scalar(select(table.c["V %"]).where(table.c['i"d'] == 1))
            assert found == f"v{number}"


def test_reflection_costs_no_savepoint_and_shows_nothing_of_the_scope(scoped: Engine) -> None:
    with scoped.begin() as connection:
        savepoint = connection.begin_nested()
        kept(connection)
        inspector = inspect(connection)
        assert inspector.get_table_names() == ["accounts", "events", "owners"]
        assert inspector.get_temp_table_names() == inspector.get_temp_view_names() == []
        assert inspector.get_view_names() == []
        again = Table("owners", MetaData(), autoload_with=connection)
        assert [column.name for column in again.c] == ["id", "name"]
        assert inspector.get_pk_constraint("accounts")["constrained_columns"] == ["id"]
        assert connection.scalar(text("SELECT max(snapshot_id) FROM lake.snapshots()")) == 2
        savepoint.rollback()
        assert connection.scalar(select(func.count()).select_from(owners)) == 2


@pytest.mark.parametrize(
    "statement",
    [
        'USE lake."o"',
        "/* c */ USE lake.o",
        "SET schema='lake.o'",
        "SET SESSION schema = 'lake.o'",
    ],
)
def test_names_that_mean_something_else_from_now_on(scoped: Engine, statement: str) -> None:
    with scoped.begin() as connection:
        connection.execute(text("CREATE SCHEMA o"))
        connection.execute(text("CREATE TABLE o.accounts AS SELECT 7 AS id, 7 AS balance"))
    with scoped.connect() as connection:
        kept(connection)
        connection.exec_driver_sql(statement)
        assert connection.execute(text("SELECT * FROM accounts")).all() == [(7, 7)]
        assert connection.scalar(text("SELECT count(*) FROM lake.main.owners")) == 3
        connection.execute(text("UPDATE accounts SET balance = 8"))
        connection.exec_driver_sql("USE lake.main")
        connection.execute(accounts.insert(), {"id": 9, "owner": 1, "balance": 9})
        assert connection.scalar(select(func.sum(accounts.c.balance))) == 50
        connection.commit()
        assert connection.scalar(text("SELECT balance FROM o.accounts")) == 8
        assert connection.scalar(select(func.sum(accounts.c.balance))) == 50


def _row(number: int, value: str) -> dict[str, Any]:
    return {'i"d': number, "V %": value}


def test_objects_are_read_back_in_a_session(scoped: Engine) -> None:
    class Owner:
        pass

    mapping = registry()
    mapping.map_imperatively(Owner, owners)
    with Session(scoped) as session:
        session.add_all([_with(Owner(), id=7, name="q"), _with(Owner(), id=8, name="r")])
        session.flush()
        session.expunge_all()
        again: Any = session.get(Owner, 7)
        again.name = "changed"
        session.flush()
        session.refresh(again)
        assert again.name == "changed"
        assert session.scalar(select(func.count()).select_from(Owner)) == 4
        session.commit()
    mapping.dispose()


def _with(owner: Any, **values: Any) -> Any:
    for name, value in values.items():
        setattr(owner, name, value)
    return owner


def test_a_result_that_is_open_stays_whole_while_rows_change(scoped: Engine) -> None:
    with scoped.begin() as connection:
        kept(connection)
        query = select(accounts.c.id).order_by(accounts.c.id)
        open_result = connection.execute(query, execution_options={"yield_per": 1})
        assert open_result.fetchone() == (1,)
        connection.execute(accounts.delete())
        assert open_result.fetchone() == (3,)
