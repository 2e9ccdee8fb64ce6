"""The same small life of a lake on every catalog and every store."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import alembic.migration
import alembic.operations
import pytest
from sqlalchemy import (
    URL,
    BigInteger,
    Column,
    DateTime,
    Engine,
    ForeignKey,
    Integer,
    MetaData,
    Numeric,
    String,
    Table,
    UniqueConstraint,
    create_engine,
    delete,
    func,
    insert,
    inspect,
    select,
    update,
)
from sqlalchemy.exc import DBAPIError, IntegrityError

import sqlalchemy_ducklake as lake
from sqlalchemy_ducklake import MergeResult, errors, merge_result

START = datetime.fromisoformat("2024-01-01")
metadata = MetaData()
customers = Table(
    "customers",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", String, nullable=False, comment="who it is"),
    UniqueConstraint("name", name="one_name"),
)
orders = Table(
    "orders",
    metadata,
    Column("id", BigInteger, primary_key=True, autoincrement=False),
    Column("customer", ForeignKey(customers.c.id)),
    Column("price", Numeric(12, 2)),
    Column("placed", DateTime),
    comment="what was bought",
)
ROWS = 2000


@pytest.fixture
def engine(backend: URL) -> Iterator[Engine]:
    engine = create_engine(backend)
    metadata.create_all(engine)
    with engine.begin() as connection:
        connection.execute(insert(customers), [{"name": name} for name in ("Ann", "Bob")])
        connection.execute(insert(orders), [order(number) for number in range(ROWS)])
    yield engine
    engine.dispose()


def order(number: int, price: int = 1) -> dict[str, Any]:
    placed = START + timedelta(hours=number)
    return {"id": number, "customer": 1, "price": Decimal(price), "placed": placed}


def total(engine: Engine) -> tuple[Any, ...]:
    with engine.connect() as connection:
        return tuple(connection.execute(select(func.count(), func.sum(orders.c.price))).one())


def test_load_and_change(engine: Engine) -> None:
    batch = [order(number, price=3) for number in range(ROWS - 500, ROWS + 500)]
    with engine.begin() as connection:
        result = connection.execute(lake.insert(orders).on_conflict_do_update(), batch)
        assert merge_result(result) == MergeResult(inserted=500, updated=500)
    assert total(engine) == (ROWS + 500, ROWS - 500 + 3000)
    with engine.begin() as connection:
        cheap = [{"id": number, "price": 0} for number in range(10)]
        source = lake.merge(orders).using(cheap)
        statement = source.when_matched_delete().when_not_matched_do_nothing()
        assert merge_result(connection.execute(statement)).deleted == 10
        many = update(orders).where(orders.c.id == 10).values(price=5)
        returned = connection.execute(many.returning(orders.c.id, orders.c.price)).all()
        assert returned == [(10, Decimal(5))]
        assert connection.execute(delete(orders).where(orders.c.id > ROWS)).rowcount == 499
    assert total(engine) == (ROWS - 9, ROWS - 500 - 10 + 1500 + 4 + 3)


def test_keys_hold(engine: Engine) -> None:
    with engine.begin() as connection:
        for table, row in ((orders, order(5)), (customers, {"name": "Ann"})):
            with pytest.raises(IntegrityError) as caught:
                connection.execute(insert(table), [row])
            assert isinstance(caught.value.orig, errors.KeyViolation)
    assert total(engine) == (ROWS, ROWS)


def test_reflection(engine: Engine) -> None:
    found = MetaData()
    found.reflect(engine)
    assert set(found.tables) == {"customers", "orders"}
    assert [each.name for each in found.tables["orders"].primary_key] == ["id"]
    (key,) = found.tables["orders"].foreign_keys
    assert key.target_fullname == "customers.id"
    assert found.tables["customers"].c.name.comment == "who it is"
    unique = inspect(engine).get_unique_constraints("customers")
    assert [(each["name"], each["column_names"]) for each in unique] == [("one_name", ["name"])]


def test_migration(engine: Engine) -> None:
    with engine.begin() as connection:
        context = alembic.migration.MigrationContext.configure(connection)
        op = alembic.operations.Operations(context)
        op.add_column("orders", Column("note", String))
        op.alter_column("orders", "id", comment="the number")
    with engine.begin() as connection:
        op = alembic.operations.Operations(
            alembic.migration.MigrationContext.configure(connection)
        )
        op.rename_table("orders", "sales")
    (note, number) = (inspect(engine).get_columns("sales")[place] for place in (-1, 0))
    assert note["name"] == "note"
    assert number["comment"] == "the number"
    assert inspect(engine).get_pk_constraint("sales")["constrained_columns"] == ["id"]


def test_time_travel(engine: Engine) -> None:
    with engine.connect() as connection:
        before = next(lake.snapshots(connection)).id
    with engine.begin() as connection:
        connection.execute(delete(orders).where(orders.c.id >= 10))
    assert total(engine) == (10, 10)
    with engine.connect() as connection:
        old = lake.at_snapshot(orders, before)
        assert connection.scalar(select(func.count()).select_from(old)) == ROWS
    with engine.begin() as connection:
        lake.restore(connection, orders, before)
    assert total(engine) == (ROWS, ROWS)


def test_upkeep(engine: Engine) -> None:
    for number in range(5):
        with engine.begin() as connection:
            rows = [order(ROWS + 100 * number + each) for each in range(100)]
            connection.execute(insert(orders), rows)
    before = total(engine)
    with engine.connect() as connection:
        files = lake.describe(connection, orders)
    lake.maintain(engine)
    with engine.connect() as connection:
        assert lake.describe(connection, orders) != files
    assert total(engine) == before


def test_nothing_is_left_of_what_was_rolled_back(engine: Engine) -> None:
    with engine.connect() as connection:
        connection.execute(insert(orders), [order(ROWS + number) for number in range(500)])
        connection.rollback()
    assert total(engine) == (ROWS, ROWS)


def test_a_read_only_lake(engine: Engine, backend: URL) -> None:
    engine.dispose()
    reader = create_engine(backend.update_query_dict({"read_only": "true"}))
    with reader.connect() as connection:
        assert connection.scalar(select(func.count()).select_from(orders)) == ROWS
        for statement in (insert(orders).values(order(ROWS)), delete(orders)):
            with pytest.raises(DBAPIError):
                connection.execute(statement)
            connection.rollback()
    reader.dispose()
