"""What a scope keeps aside, and what it writes at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import pytest
from sqlalchemy import (
    Column,
    Computed,
    Connection,
    Engine,
    Integer,
    MetaData,
    String,
    Table,
    func,
    literal_column,
    select,
    text,
)
from sqlalchemy.orm import Session, registry

from fixtures.scoped import accounts, events, owners
from sqlalchemy_ducklake import driver, insert, merge, merge_result, upsert
from sqlalchemy_ducklake.scope import copies

Snapshots = Callable[[], int]


def is_direct(connection: Connection) -> bool:
    """Tell whether the transaction has written into the lake itself."""
    return cast("driver.Connection", connection.connection.dbapi_connection).work.direct


_UPSERT = insert(owners).values(id=2, name="z")
KEPT: Sequence[Any] = (
    owners.insert().values(id=5, name="q"),
    owners.insert().values(id=5, name="q").returning(owners.c.name),
    events.insert().values(what="x"),
    accounts.update().where(accounts.c.id == 1).values(balance=accounts.c.balance + 1),
    accounts.update().values(balance=0).returning(accounts),
    accounts.update().where(accounts.c.owner.in_(select(owners.c.id))).values(balance=1),
    accounts.update().where(accounts.c.id == 2).values(id=9),
    events.update().values(n=1),
    accounts.delete().where(accounts.c.id == 1),
    accounts.delete().where(accounts.c.id.in_([1, 2])).returning(accounts.c.id),
    events.delete(),
    _UPSERT.on_conflict_do_update(set_={"name": _UPSERT.excluded.name + "!"}),
    _UPSERT.on_conflict_do_update(set_={"name": "w"}, where=owners.c.name == "b"),
    _UPSERT.on_conflict_do_nothing(),
)
AT_ONCE: Sequence[Any] = (
    events.insert(),
    events.insert().from_select(["n"], select(owners.c.id)),
    accounts.update().where(accounts.c.owner == owners.c.id).values(balance=3),
    accounts.delete().where(accounts.c.owner == owners.c.id),
    accounts.update().where(text("accounts.balance > 1")).values(balance=3),
    accounts.update().where(literal_column("accounts.balance") > 1).values(balance=3),
    text("INSERT INTO events VALUES ('t', 1)"),
    upsert(owners, [{"id": 2, "name": "z"}]),
    text("CREATE TABLE other (i INTEGER)"),
)


@pytest.mark.parametrize("number", range(len(KEPT)))
def test_what_changes_single_rows_is_kept(scoped: Engine, number: int) -> None:
    with scoped.begin() as connection:
        connection.execute(KEPT[number])
        assert not is_direct(connection)


@pytest.mark.parametrize("number", range(len(AT_ONCE)))
def test_other_statements_come_after_what_is_kept(scoped: Engine, number: int) -> None:
    with scoped.begin() as connection:
        connection.execute(owners.insert().values(id=5, name="q"))
        connection.execute(accounts.update().values(balance=5))
        connection.execute(AT_ONCE[number])
        assert is_direct(connection)
        connection.execute(accounts.insert().values(id=7, owner=5, balance=7))
        seen = contents(connection)
    with scoped.connect() as connection:
        assert contents(connection) == seen


def contents(connection: Connection) -> list[Any]:
    """Read all tables."""
    tables = (owners, accounts, events)
    return [sorted(map(str, connection.execute(select(table)))) for table in tables]


def test_many_changes_are_one_snapshot_and_few_files(
    scoped: Engine, snapshots: Snapshots
) -> None:
    before = snapshots()
    with scoped.begin() as connection:
        for number in range(10, 40):
            connection.execute(owners.insert().values(id=number, name=f"n{number}"))
        for number in range(10, 40):
            connection.execute(
                owners.update().where(owners.c.id == number).values(name=f"m{number}")
            )
    assert snapshots() == before + 1
    with scoped.connect() as connection:
        files = "SELECT count(*) FROM ducklake_list_files('lake', 'owners')"
        assert connection.scalar(text(files)) <= 2
        feed = text("SELECT DISTINCT change_type FROM lake.table_changes('owners', :n, :n)")
        assert connection.scalars(feed.bindparams(n=before + 1)).all() == ["insert"]


def test_s15_what_comes_to_nothing_makes_no_snapshot(
    scoped: Engine, snapshots: Snapshots
) -> None:
    """Edge 1, edge 36: up, down and back again; inserted and deleted; deleted and put back."""
    before = snapshots()
    with scoped.begin() as connection:
        change = accounts.update().where(accounts.c.id == 1)
        connection.execute(change.values(balance=11))
        connection.execute(change.values(balance=10))
        connection.execute(events.insert().values(what="x"))
        connection.execute(events.delete())
        connection.execute(accounts.delete().where(accounts.c.id == 2))
        connection.execute(accounts.insert().values(id=2, owner=2, balance=20))
    assert snapshots() == before


def test_a_deleted_key_that_is_inserted_again_keeps_its_row(scoped: Engine) -> None:
    with scoped.connect() as connection:
        row = connection.scalar(text("SELECT rowid FROM accounts WHERE id = 1"))
    with scoped.begin() as connection:
        connection.execute(accounts.delete().where(accounts.c.id == 1))
        connection.execute(accounts.insert().values(id=1, owner=2, balance=1))
    with scoped.connect() as connection:
        found = connection.execute(
            text("SELECT rowid, owner, balance FROM accounts WHERE id = 1")
        )
        assert found.all() == [(row, 2, 1)]


def test_s13_new_rows_keep_the_order_of_their_statements(scoped: Engine) -> None:
    with scoped.begin() as connection:
        connection.execute(owners.insert(), [_owner(30), _owner(10)])
        connection.execute(owners.insert(), _owner(20))
        connection.execute(owners.update().where(owners.c.id == 30).values(name="again"))
    with scoped.connect() as connection:
        found = connection.scalars(text("SELECT id FROM owners WHERE id > 9 ORDER BY rowid"))
        assert found.all() == [30, 10, 20]


def _owner(number: int) -> dict[str, Any]:
    return {"id": number, "name": f"o{number}"}


def test_row_counts_and_results_of_merges_are_right(scoped: Engine) -> None:
    """M9: present keys count, missing ones do not fail."""
    with scoped.begin() as connection:
        connection.execute(owners.insert(), [_owner(3), _owner(4)])
        assert (
            connection.execute(owners.update().values(name=owners.c.name + "_")).rowcount == 4
        )
        assert connection.execute(owners.delete().where(owners.c.id > 3)).rowcount == 1
        assert connection.execute(owners.delete().where(owners.c.id == 99)).rowcount == 0
        rows = [_owner(3), _owner(5)]
        result = connection.execute(insert(owners).on_conflict_do_update(), rows)
        counts = merge_result(result)
        assert (counts.inserted, counts.updated) == (1, 1)
    assert merge_result(result).snapshot_id is not None


def test_computed_columns_and_defaults_are_kept_right(
    open_scoped: Callable[..., Engine],
) -> None:
    """M25: what the lake fills in is there for the transaction's own reads."""
    engine, own = open_scoped(), MetaData()
    table = Table(
        "square",
        own,
        Column("id", Integer, primary_key=True),
        Column("side", Integer, server_default="3"),
        Column("area", Integer, Computed("side * side")),
    )
    own.create_all(engine)
    partial = Table("square", MetaData(), Column("id", Integer, primary_key=True))
    with engine.begin() as connection:
        connection.execute(table.insert(), [{"side": 2}, {"side": 5}])
        connection.execute(table.insert())
        connection.execute(table.update().where(table.c.id == 2).values(side=6))
        connection.execute(partial.insert().values(id=9))
        assert not is_direct(connection)
        expected = [(1, 2, 4), (2, 6, 36), (3, 3, 9), (9, 3, None)]
        assert connection.execute(select(table).order_by("id")).all() == expected
    with engine.connect() as connection:
        assert connection.execute(select(table).order_by("id")).all() == expected


def test_m5_m16_m19_m30_a_refused_statement_leaves_the_scope_as_it_was(scoped: Engine) -> None:
    from sqlalchemy import exc

    refused: Sequence[tuple[Any, Any]] = (
        (owners.insert(), [_owner(6), _owner(7), _owner(3)]),
        (owners.insert(), [_owner(8), {"id": 9, "name": None}]),
        (owners.insert(), {"id": None, "name": "n"}),
        (owners.insert(), {"id": 10, "name": "a"}),
        (owners.update().where(owners.c.id == 1).values(name="b"), None),
        (owners.update().where(owners.c.id == 1).values(name=None), None),
        (owners.update().where(owners.c.id == 1).values(id=2), None),
        (owners.delete().where(owners.c.id == 1), None),
        (accounts.insert(), {"id": 9, "owner": 99, "balance": 1}),
        (accounts.insert(), {"id": 9, "owner": 1, "balance": -1}),
        (accounts.update().values(balance=accounts.c.balance - 15), None),
    )
    with scoped.begin() as connection:
        connection.execute(owners.insert(), _owner(3))
        before = contents(connection)
        for statement, parameters in refused:
            with pytest.raises(exc.IntegrityError, match="nothing was written"):
                connection.execute(statement, parameters)
            assert contents(connection) == before
        assert not is_direct(connection)
    with scoped.connect() as connection:
        assert contents(connection) == before


def test_m17_m18_keys_and_terms_are_free_when_their_row_is_gone(scoped: Engine) -> None:
    """Edge 37: a swap in one statement, a term that a deleted row held, one that moved away."""
    with scoped.begin() as connection:
        swapped = {1: "b", 2: "a"}
        connection.execute(
            owners.update().values(
                name=func.replace(func.replace("ba", owners.c.name, ""), "", "")
            )
        )
        assert dict(map(tuple, connection.execute(select(owners)))) == swapped
        connection.execute(accounts.delete())
        connection.execute(owners.delete().where(owners.c.id == 1))
        connection.execute(owners.insert(), [{"id": 1, "name": "c"}, {"id": 3, "name": "b"}])
        connection.execute(owners.update().where(owners.c.id == 2).values(name="x"))
        connection.execute(owners.insert().values(id=4, name="a"))
    with scoped.connect() as connection:
        found = connection.execute(select(owners).order_by("id")).all()
        assert found == [(1, "c"), (2, "x"), (3, "b"), (4, "a")]


def test_m23_a_parent_of_the_same_transaction_counts_and_a_deleted_one_does_not(
    scoped: Engine,
) -> None:
    """Edge 40."""
    from sqlalchemy import exc

    with scoped.begin() as connection:
        connection.execute(owners.insert(), _owner(3))
        connection.execute(accounts.insert(), {"id": 3, "owner": 3, "balance": 1})
        with pytest.raises(exc.IntegrityError):
            connection.execute(owners.delete().where(owners.c.id == 3))
        connection.execute(accounts.delete().where(accounts.c.id == 3))
        connection.execute(owners.delete().where(owners.c.id == 3))
        with pytest.raises(exc.IntegrityError):
            connection.execute(accounts.insert(), {"id": 3, "owner": 3, "balance": 1})


def test_m22_the_guard_of_an_upsert_sees_what_is_kept(scoped: Engine) -> None:
    with scoped.begin() as connection:
        connection.execute(accounts.update().where(accounts.c.id == 1).values(balance=50))
        statement = insert(accounts).values(id=1, owner=1, balance=1)
        guarded = statement.on_conflict_do_update(
            set_={"balance": accounts.c.balance + 1}, where=accounts.c.balance > 20
        )
        assert connection.execute(guarded).rowcount == 1
        assert connection.scalar(select(accounts.c.balance).where(accounts.c.id == 1)) == 51


def test_m6_a_wide_table_only_gets_what_changed(open_scoped: Callable[..., Engine]) -> None:
    engine, own = open_scoped(), MetaData()
    columns = [Column(f"c{number}", String) for number in range(100)]
    wide = Table("wide", own, Column("id", Integer, primary_key=True), *columns)
    own.create_all(engine)
    with engine.begin() as connection:
        connection.execute(wide.insert(), {"id": 1, "c3": "x", "c99": "y"})
    with engine.begin() as connection:
        connection.execute(wide.update().values(c5="new"))
        connection.execute(wide.update().values(c6=None, c3=wide.c.c5))
    with engine.connect() as connection:
        found = connection.execute(select(wide)).mappings().one()
        assert {name: value for name, value in found.items() if value is not None} == {
            "id": 1,
            "c3": "new",
            "c5": "new",
            "c99": "y",
        }


def test_a_session_notices_a_row_that_is_gone(scoped: Engine) -> None:
    """M9: an update by key of a missing row fails in the unit of work."""
    from sqlalchemy.orm.exc import StaleDataError

    class Account:
        balance: int

    mapping = registry()
    mapping.map_imperatively(Account, accounts)
    with Session(scoped) as session:
        account = session.get_one(Account, 1)
        session.connection().execute(accounts.delete().where(accounts.c.id == 1))
        account.balance = 5
        with pytest.raises(StaleDataError):
            session.flush()
    mapping.dispose()


def test_a_merge_sees_what_is_kept_and_is_seen(scoped: Engine) -> None:
    with scoped.begin() as connection:
        connection.execute(owners.insert(), _owner(3))
        source = select(owners.c.id).subquery("source")
        statement = (
            merge(accounts)
            .using(source, on=accounts.c.id == source.c.id)
            .when_not_matched_insert(values={"id": source.c.id, "owner": source.c.id})
        )
        assert merge_result(connection.execute(statement)).inserted == 1
        connection.execute(accounts.update().where(accounts.c.id == 3).values(balance=3))
        assert connection.scalar(select(func.sum(accounts.c.balance))) == 33


def test_partitions_that_a_statement_does_not_need_are_not_read(
    open_scoped: Callable[..., Engine],
) -> None:
    """Their files are missing here; a table in partitions is not copied either."""
    engine, wanted = open_scoped(), MetaData()
    table = Table(
        "parted",
        wanted,
        Column("region", String, primary_key=True),
        Column("id", Integer, primary_key=True, autoincrement=False),
        Column("n", Integer),
        ducklake_partition_by=["region"],
    )
    wanted.create_all(engine)
    regions = ("east", "north", "west")
    with engine.begin() as connection:
        rows = [{"region": each, "id": n, "n": 0} for each in regions for n in range(30)]
        connection.execute(table.insert(), rows)
    listed = text("SELECT data_file FROM ducklake_list_files('lake', 'parted')")
    with engine.connect() as connection:
        files = [Path(each) for each in connection.scalars(listed)]
    hidden = [each for each in files if "region=north" not in str(each)]
    for each in hidden:
        each.rename(each.with_suffix(".hidden"))
    own = (table.c.region == "north") & (table.c.id == 5)
    with engine.begin() as connection:
        connection.execute(table.update().where(own).values(n=1))
        assert connection.scalar(select(table.c.n).where(own)) == 1
        connection.execute(table.insert().values(region="north", id=99, n=9))
        assert not is_direct(connection)
    for each in hidden:
        each.with_suffix(".hidden").rename(each)
    with engine.connect() as connection:
        assert connection.execute(select(func.count(), func.sum(table.c.n))).all() == [(91, 10)]


@pytest.mark.parametrize("size", [3, 30])
def test_a_table_that_was_large_is_copied_again(
    open_scoped: Callable[..., Engine], monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    """Rows that are gone do not count for ever, were they inlined or in files."""
    monkeypatch.setattr(copies, "MOST_ROWS", 40)
    engine = open_scoped()
    table = Table("t", MetaData(), Column("id", Integer, primary_key=True))
    table.create(engine)
    for _ in range(50 // size + 1):
        with engine.begin() as connection:
            connection.execute(table.delete())
            connection.execute(table.insert(), [{"id": each} for each in range(size)])
    with engine.connect() as connection:
        own = cast("driver.Connection", connection.connection.dbapi_connection)
        assert copies.is_small(*own.reading(), ("main", "t"))
        with engine.begin() as other:
            other.execute(table.insert(), [{"id": 100 + each} for each in range(41)])
        own.rollback()
        assert not copies.is_small(*own.reading(), ("main", "t"))
