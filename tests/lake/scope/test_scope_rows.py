"""Statements of single rows are kept in Python; whatever is odd of one, the engine looks at."""

from __future__ import annotations

import datetime as dt
import decimal
import uuid
from collections.abc import Callable, Sequence
from typing import Any, cast

import pytest
from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Connection,
    Date,
    DateTime,
    Engine,
    Float,
    Identity,
    Integer,
    LargeBinary,
    MetaData,
    Numeric,
    SmallInteger,
    String,
    Table,
    Time,
    Uuid,
    bindparam,
    exc,
    func,
    select,
    text,
)
from sqlalchemy.orm import Session, registry

from fixtures.scoped import accounts, events, owners
from sqlalchemy_ducklake import driver, insert, merge_result, run_transaction
from sqlalchemy_ducklake.errors import NumbersExhausted, SerializationFailure
from sqlalchemy_ducklake.scope.unit import scope_of

metadata = MetaData()
items = Table(
    "items",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("n", Integer, nullable=False),
    Column("s", String),
)
pairs = Table(
    "pairs",
    metadata,
    Column("a", String, primary_key=True),
    Column("b", Date, primary_key=True),
    Column("n", Integer),
)
wide = Table(
    "wide",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("small", SmallInteger),
    Column("big", BigInteger),
    Column("money", Numeric(10, 2)),
    Column("real", Float),
    Column("yes", Boolean),
    Column("bytes", LargeBinary),
    Column("day", Date),
    Column("at", DateTime),
    Column("moment", DateTime(timezone=True)),
    Column("time", Time),
    Column("text", String),
)
defaults = Table(
    "defaults",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("n", Integer, server_default="7"),
)
always = Table(
    "always", metadata, Column("id", Integer, Identity(always=True), primary_key=True)
)
documents = Table(
    "documents",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("body", JSON),
)
notes = Table("notes", metadata, Column("n", Integer), Column("s", String))


@pytest.fixture
def keeping(open_scoped: Callable[..., Engine]) -> Engine:
    """An engine with a write scope, whose tables hold a few rows."""
    engine = open_scoped(enforce_constraints="keys")
    metadata.create_all(engine)
    with engine.begin() as connection:
        connection.execute(insert(items), [{"n": 1}, {"n": 2}, {"n": 3}])
        connection.execute(insert(pairs), [{"a": "x", "b": dt.date(2024, 1, 1), "n": 1}])
        for table in (defaults, documents):
            connection.execute(insert(table), [{"id": 1}])
    return engine


def waits(connection: Connection, table: Table) -> bool:
    """Tell whether rows of a table are kept in Python just now."""
    scope = scope_of(cast("driver.Connection", connection.connection.dbapi_connection))
    assert scope is not None
    keeper = scope._keepers._keepers.get(("main", table.name))
    return keeper is not None and keeper.kept.waits


_UPSERT = insert(items)
_ONE_PAIR = (pairs.c.a == "x", pairs.c.b == dt.date(2024, 1, 1))
KEPT: Sequence[tuple[Any, Any]] = (
    (insert(items), {"n": 4}),
    (insert(items), [{"n": 4}, {"n": 5}]),
    (insert(items).returning(items.c.id), [{"n": 4}, {"n": 5}]),
    (insert(items), {"id": 9, "n": 4}),
    (insert(pairs), {"a": "x", "b": dt.date(2024, 1, 2)}),
    (insert(notes), {"n": 1}),
    (insert(notes), [{"n": 1}, {"n": 2}]),
    (insert(items).on_conflict_do_update(), {"id": 1, "n": 5}),
    (insert(items).on_conflict_do_update(), [{"id": 1, "n": 5}, {"id": 9, "n": 5}]),
    (_UPSERT.on_conflict_do_update(["id"], set_={"n": _UPSERT.excluded.n}), {"id": 1, "n": 5}),
    (insert(items).on_conflict_do_update().returning(items.c.id), {"id": 1, "n": 5}),
    (insert(items).on_conflict_do_nothing(), {"id": 9, "n": 4}),
    (items.update().where(items.c.id == 1), {"n": 5}),
    (items.update().where(items.c.id == bindparam("i")), [{"i": 1, "n": 5}, {"i": 2, "n": 6}]),
    (pairs.update().where(*_ONE_PAIR).values(n=2), {}),
    (pairs.update().where(_ONE_PAIR[1] & _ONE_PAIR[0]).values(n=2), {}),
    (items.delete().where(items.c.id == 1), {}),
    (items.delete().where(bindparam("i", type_=Integer) == items.c.id), [{"i": 1}, {"i": 2}]),
)
LOOKED_AT: Sequence[tuple[Any, Any]] = (
    (insert(items).values(n=func.abs(-4)), {}),
    (insert(items).values([{"n": 4}, {"n": 5}]), {}),
    (insert(items).returning(items.c.n), {"n": 4}),
    (insert(defaults), {"id": 2}),
    (_UPSERT.on_conflict_do_update(set_={"n": items.c.n + 1}), {"id": 1, "n": 5}),
    (_UPSERT.on_conflict_do_update(where=items.c.n < 5), {"id": 1, "n": 5}),
    (_UPSERT.on_conflict_do_update(), [{"id": 1, "n": 5}, {"id": 1, "n": 6}]),
    (_UPSERT.on_conflict_do_nothing().returning(items.c.n), {"id": 9, "n": 5}),
    (insert(documents), {"id": 2, "body": {"a": 1}}),
    (insert(always), [{}]),
    (items.update().where(items.c.id == 1).values(n=items.c.n + 1), {}),
    (items.update().where(items.c.id > 1), {"n": 5}),
    (items.update().where(items.c.id == 1, items.c.n == 1), {"n": 5}),
    (items.update().where(items.c.id == 1).returning(items.c.n), {"n": 5}),
    (items.update().where(items.c.id == 1), {"id": 8}),
    (items.update().where((items.c.id == 1) | (items.c.id == 2)), {"n": 5}),
    (pairs.update().where(_ONE_PAIR[0]).values(n=2), {}),
    (items.delete().where(items.c.n == 1), {}),
    (items.delete(), {}),
)


@pytest.mark.parametrize(("statement", "parameters"), KEPT)
def test_single_rows_are_kept_and_seen(
    keeping: Engine, statement: Any, parameters: Any
) -> None:
    table = statement.table
    with keeping.connect() as connection:
        found = connection.execute(statement, parameters)
        assert waits(connection, table)
        assert found.rowcount == (len(parameters) if isinstance(parameters, list) else 1)
        rows = set(connection.execute(select(table)))
        assert set(connection.execute(select(table))) == rows
        connection.commit()
        assert set(connection.execute(select(table))) == rows


@pytest.mark.parametrize(("statement", "parameters"), LOOKED_AT)
def test_what_is_more_is_looked_at_by_the_engine(
    keeping: Engine, statement: Any, parameters: Any
) -> None:
    table = statement.table
    with keeping.connect() as connection:
        connection.execute(statement, parameters)
        assert not waits(connection, table)
        rows = set(connection.execute(select(table).with_only_columns(table.c[0])))
        connection.commit()
        again = select(table).with_only_columns(table.c[0])
        assert set(connection.execute(again)) == rows


def test_only_what_a_statement_looks_at_is_logged(keeping: Engine) -> None:
    """M7, M14: a read of one table leaves the others alone, and sees what was logged before."""
    with keeping.connect() as connection:
        connection.execute(insert(items), {"n": 4})
        connection.execute(select(pairs)).all()
        connection.execute(text("SELECT 1"))
        assert waits(connection, items)
        assert connection.scalar(text("SELECT count(*) FROM items")) == 4
        # A statement that the engine runs sees only what is logged.
        connection.execute(items.update().where(items.c.n == 4).values(n=5))
        assert not waits(connection, items)
        assert connection.scalar(text("SELECT sum(n) FROM items")) == 11


VALUES: Sequence[dict[str, Any]] = (
    {"small": -32768, "big": 1 << 62, "money": decimal.Decimal("-0.01"), "yes": False},
    {"real": float("-inf"), "bytes": b"\x00\xff", "text": "\x00é'\"", "small": None},
    {"day": dt.date(1, 1, 1), "at": dt.datetime.fromisoformat("9999-12-31T23:59:59.999999")},
    {"moment": dt.datetime(2024, 3, 31, 1, 30, tzinfo=dt.UTC), "time": dt.time(23, 59, 59, 1)},
)


@pytest.mark.parametrize("values", VALUES)
def test_values_are_exact_before_and_after_the_commit(
    keeping: Engine, values: dict[str, Any]
) -> None:
    first, other = uuid.uuid4(), uuid.uuid4()
    nothing = dict.fromkeys(each.name for each in wide.c)
    with keeping.connect() as connection:
        # The first statement proves the key, so the engine looks.
        connection.execute(insert(wide), {"id": uuid.uuid4()})
        connection.execute(insert(wide), {"id": first, **values})
        connection.execute(insert(wide), {"id": other})
        connection.execute(wide.update().where(wide.c.id == other).values(**values))
        assert waits(connection, wide)
        wanted = [{**nothing, **values, "id": each} for each in (first, other)]
        for each in wanted:
            query = select(wide).where(wide.c.id == each["id"])
            assert dict(connection.execute(query).mappings().one()) == each
        connection.commit()
        for each in wanted:
            query = select(wide).where(wide.c.id == each["id"])
            assert dict(connection.execute(query).mappings().one()) == each


REFUSED: Sequence[tuple[Any, Any, type[Exception]]] = (
    (insert(items), {"id": 1, "n": 1}, exc.IntegrityError),
    (insert(items), [{"id": 7, "n": 1}, {"id": 7, "n": 2}], exc.IntegrityError),
    (insert(items), {"id": None, "n": None}, exc.IntegrityError),
    (insert(items), [{"n": 1}, {"n": None}], exc.IntegrityError),
    (insert(items), {"id": 7, "n": 1 << 40}, exc.DataError),
    (insert(items), {"id": 1 << 40, "n": 1}, exc.DataError),
    (insert(pairs), {"a": None, "b": dt.date(2024, 1, 1)}, exc.IntegrityError),
    (items.update().where(items.c.id == 1), {"n": None}, exc.IntegrityError),
    (items.update().where(items.c.id == 1), {"n": 1.5}, exc.DataError),
    (insert(wide), {"id": uuid.uuid4(), "money": decimal.Decimal("0.001")}, exc.DataError),
)


@pytest.mark.parametrize(("statement", "parameters", "kind"), REFUSED)
def test_what_is_refused_leaves_the_rows_before_it(
    keeping: Engine, statement: Any, parameters: Any, kind: type[Exception]
) -> None:
    """M5, M16, M19, M30: all of a statement or nothing, and the transaction goes on."""
    with keeping.connect() as connection:
        connection.execute(insert(items), {"id": 5, "n": 50})
        with pytest.raises(kind):
            connection.execute(statement, parameters)
        connection.execute(insert(items), {"id": 6, "n": 60})
        connection.commit()
        found = connection.execute(select(items.c.id, items.c.n).order_by("id")).all()
    assert found == [(1, 1), (2, 2), (3, 3), (5, 50), (6, 60)]


def test_an_upsert_counts_as_the_engine_does(
    keeping: Engine, open_scoped: Callable[..., Engine]
) -> None:
    """M20, M21: rows that equal what is there are unchanged, whoever compares them."""
    first = {"id": uuid.UUID(int=7), "money": decimal.Decimal("1.50"), "real": float("nan")}
    first |= {"moment": dt.datetime(2024, 1, 1, tzinfo=dt.UTC), "at": None, "yes": True}
    again = {**first, "money": decimal.Decimal("1.5")}
    east = dt.timezone(dt.timedelta(hours=2))
    again["moment"] = dt.datetime(2024, 1, 1, 2, tzinfo=east)
    other = {**first, "yes": False}
    statement = insert(wide).on_conflict_do_update().returning(wide.c.id)
    counts, returned = [], []
    for engine in (keeping, open_scoped(False)):
        with engine.connect() as connection:
            for values in (first, first, again, other, {**other, "real": 0.0}):
                found = connection.execute(statement, values)
                returned.append(found.scalars().all())
                counts.append(merge_result(found))
            connection.rollback()
    assert counts[:5] == counts[5:]
    assert [each.unchanged for each in counts[:5]] == [0, 1, 1, 0, 0]
    assert returned == [[first["id"]]] * 10


def test_numbers_count_on_from_the_highest(keeping: Engine) -> None:
    """M14, M15, M17: they are known at once, and one that a savepoint undid is free again."""
    with keeping.connect() as connection:
        added = insert(items).returning(items.c.id)
        assert connection.scalars(added, [{"n": 0}, {"n": 0}]).all() == [4, 5]
        connection.execute(insert(items), {"id": 10, "n": 0})
        assert connection.execute(insert(items), {"n": 0}).inserted_primary_key == (11,)
        for gone in (10, 11):
            connection.execute(items.delete().where(items.c.id == gone))
        assert connection.scalars(added, [{"n": 0}]).all() == [6]
        point = connection.begin_nested()
        assert connection.scalars(added, [{"n": 0}]).all() == [7]
        point.rollback()
        assert connection.scalars(added, [{"n": 0}]).all() == [7]
        connection.execute(insert(items), {"id": (1 << 31) - 1, "n": 0})
        with pytest.raises(exc.DBAPIError) as caught:
            connection.execute(insert(items), {"n": 0})
        assert isinstance(caught.value.orig, NumbersExhausted)
        connection.commit()
        assert connection.scalar(select(func.count()).select_from(items)) == 8


def test_ignoring_is_told_row_by_row(
    keeping: Engine, open_scoped: Callable[..., Engine]
) -> None:
    """M20: keys that are there are skipped, and of several new ones the first wins."""
    statement = insert(items).on_conflict_do_nothing()
    sets = [{"id": each, "n": place} for place, each in enumerate((1, 7, 8, 7))]
    for engine in (keeping, open_scoped(False)):
        with engine.connect() as connection:
            connection.execute(insert(items), {"id": 8, "n": 80})
            found = merge_result(connection.execute(statement, sets))
            assert (found.inserted, found.skipped) == (1, 3)
            query = select(items.c.n).where(items.c.id.in_([1, 7, 8])).order_by(items.c.id)
            assert connection.scalars(query).all() == [1, 1, 80]
            connection.rollback()


def test_a_scope_is_never_run_again_by_itself(
    keeping: Engine, open_scoped: Callable[..., Engine]
) -> None:
    """M35: whoever lost is told, and ``run_transaction`` runs all of it again."""
    other = open_scoped(False)
    runs: list[Any] = []

    def change(connection: Connection) -> None:
        runs.append(connection.scalar(select(items.c.n).where(items.c.id == 1)))
        connection.execute(items.update().where(items.c.id == 1), {"n": runs[-1] + 1})
        if len(runs) < 2:
            with other.begin() as first:
                first.execute(items.update().where(items.c.id == 1), {"n": 10})

    with pytest.raises(exc.OperationalError) as caught, keeping.begin() as connection:
        change(connection)
    assert isinstance(caught.value.orig, SerializationFailure)
    runs.clear()
    run_transaction(keeping, change)
    assert runs == [10, 10]
    with keeping.connect() as connection:
        assert connection.scalar(select(items.c.n).where(items.c.id == 1)) == 11


def test_a_key_that_is_there_twice_is_left_to_the_engine(
    keeping: Engine, open_scoped: Callable[..., Engine]
) -> None:
    with open_scoped(False).begin() as connection:
        connection.execute(text("INSERT INTO items VALUES (1, 10, 'twice'), (4, 4, NULL)"))
    with keeping.connect() as connection:
        changed = items.update().where(items.c.id == 1).values(s="both")
        assert connection.execute(changed).rowcount == 2
        assert connection.execute(items.delete().where(items.c.id == 1)).rowcount == 2
        assert connection.execute(items.delete().where(items.c.id == 4)).rowcount == 1
        connection.commit()
        assert connection.scalars(select(items.c.id).order_by("id")).all() == [2, 3]


@pytest.mark.parametrize("row", [{"n": 4}, {"id": 9, "n": 4}])
def test_no_key_is_proved_without_a_look_at_the_rows(
    keeping: Engine, open_scoped: Callable[..., Engine], row: dict[str, int]
) -> None:
    with open_scoped(False).begin() as connection:
        connection.execute(text("INSERT INTO items VALUES (1, 10, 'twice')"))
    with keeping.connect() as connection, pytest.raises(exc.IntegrityError):
        connection.execute(insert(items), row)


def test_rows_of_one_table_by_two_descriptions(keeping: Engine) -> None:
    unkeyed = Table("items", MetaData(), Column("id", Integer), Column("n", Integer))
    with keeping.connect() as connection:
        connection.execute(insert(items), {"id": 5, "n": 50})
        connection.execute(insert(unkeyed), {"id": 6, "n": 60})
        with pytest.raises(exc.IntegrityError):
            connection.execute(insert(items), {"id": 6, "n": 61})
        assert connection.execute(items.delete().where(items.c.id == 6)).rowcount == 1
        connection.commit()
        assert connection.scalars(select(items.c.id).order_by("id")).all() == [1, 2, 3, 5]


@pytest.mark.parametrize("keyed_first", [True, False])
def test_rows_of_a_table_without_a_tag_by_two_descriptions(
    keeping: Engine, keyed_first: bool
) -> None:
    columns = [Column("id", Integer, primary_key=True), Column("n", Integer)]
    keyed = Table("untagged", MetaData(), *columns)
    bare = Table("untagged", MetaData(), Column("id", Integer), Column("n", Integer))
    with keeping.connect() as connection:
        connection.execute(text("CREATE TABLE untagged (id INTEGER, n INTEGER)"))
        connection.execute(text("INSERT INTO untagged VALUES (1, 1), (2, 2)"))
        connection.commit()
        if not keyed_first:
            connection.execute(insert(bare), {"id": 5, "n": 5})
        connection.execute(keyed.update().where(keyed.c.id == 1), {"n": 9})
        connection.execute(insert(bare), {"id": 3, "n": 3})
        connection.execute(keyed.update().where(keyed.c.id == 3), {"n": 9})
        connection.execute(keyed.delete().where(keyed.c.id == 2))
        connection.execute(insert(bare), {"id": 4, "n": 3})
        connection.commit()
        found = set(connection.execute(select(bare)))
    assert found == {(1, 9), (3, 9), (4, 3)} | (set() if keyed_first else {(5, 5)})


def test_all_that_is_enforced_is_looked_at(scoped: Engine) -> None:
    with scoped.connect() as connection:
        connection.execute(insert(owners), {"id": 3, "name": "c"})
        with pytest.raises(exc.IntegrityError):
            connection.execute(insert(accounts), {"id": 3, "owner": 4, "balance": 0})
        with pytest.raises(exc.IntegrityError):
            connection.execute(insert(accounts), {"id": 3, "owner": 3, "balance": -1})
        connection.execute(insert(accounts), {"id": 3, "owner": 3, "balance": 1})
        connection.execute(insert(events), {"what": "x", "n": 1})
        assert waits(connection, events)
        with pytest.raises(exc.IntegrityError):
            connection.execute(owners.delete().where(owners.c.id == 3))
        connection.commit()
        assert connection.scalar(select(func.count()).select_from(accounts)) == 3


def test_a_session_flushes_without_a_statement_to_the_engine(keeping: Engine) -> None:
    mapping = registry()

    class Item:
        id: int
        n: int

    mapping.map_imperatively(Item, items)
    with Session(keeping) as session:
        for number in range(3):
            item = Item()
            item.n = number
            session.add(item)
            session.flush()
            item.n += 10
            session.flush()
            if number == 1:
                session.delete(item)
                session.flush()
        assert waits(session.connection(), items)
        session.commit()
        assert session.execute(select(items.c.id, items.c.n).order_by("id")).all()[3:] == [
            (4, 10),
            (5, 12),
        ]
    mapping.dispose()
