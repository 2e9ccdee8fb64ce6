"""Keys that lie far apart: the merge reads only the files that can hold them."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Date,
    DateTime,
    Engine,
    Integer,
    MetaData,
    String,
    Table,
    insert,
    select,
    text,
)

from sqlalchemy_ducklake import (
    delete_keys,
    merge,
    merge_result,
    run_transaction,
    upsert,
)
from sqlalchemy_ducklake import insert as lake_insert
from sqlalchemy_ducklake.merge.staging import FILES

FILES_OF_TABLE, ROWS_OF_FILE = 6, 200
KINDS: dict[str, tuple[Any, Callable[[int], Any]]] = {
    "integer": (BigInteger(), lambda n: n - 500),
    "date": (Date(), lambda n: date(2000, 1, 1) + timedelta(days=n)),
    "time": (
        DateTime(timezone=True),
        lambda n: datetime(2024, 1, 1, tzinfo=UTC) + timedelta(seconds=n, microseconds=n),
    ),
}


@pytest.fixture(params=sorted(KINDS))
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def table(engine: Engine, kind: str) -> Table:
    """A table of several files in key order, and some rows that are kept in the catalog."""
    key_type, key = KINDS[kind]
    table = Table(
        "it's",
        MetaData(),
        Column("region", String, primary_key=True),
        Column("key", key_type, primary_key=True, autoincrement=False),
        Column("n", Integer),
    )
    table.create(engine)
    for file in range(FILES_OF_TABLE):
        first = file * ROWS_OF_FILE
        rows = [
            {"region": "north", "key": key(n), "n": n}
            for n in range(first, first + ROWS_OF_FILE)
        ]
        with engine.begin() as connection:
            connection.execute(insert(table), rows)
    return table


def contents(connection: Connection, table: Table) -> dict[Any, int | None]:
    return {(row.region, row.key): row.n for row in connection.execute(select(table))}


def files_read(connection: Connection) -> int | None:
    found = connection.exec_driver_sql(f"SELECT len(getvariable('{FILES}'))").scalar()
    return None if found is None else int(found)


@pytest.mark.parametrize("statement", ["upsert", "blind upsert", "on conflict", "changes"])
def test_recent_keys_with_a_few_from_far_back(
    engine: Engine, table: Table, kind: str, statement: str
) -> None:
    key = KINDS[kind][1]
    last = FILES_OF_TABLE * ROWS_OF_FILE
    numbers = [3, 205, *range(last - 20, last + 20)]
    rows = [{"region": "north", "key": key(n), "n": -n} for n in numbers]
    with engine.execution_options(ducklake_write_scope=False).begin() as connection:
        expected = contents(connection, table)
        expected |= {("north", row["key"]): row["n"] for row in rows}
        if statement == "upsert":
            result = connection.execute(upsert(table, rows))
        elif statement == "blind upsert":
            options: dict[str, Any] = {"unconditional": True, "preserve_row_ids": False}
            result = connection.execute(upsert(table, rows, **options))
        elif statement == "on conflict":
            result = connection.execute(lake_insert(table).on_conflict_do_update(), rows)
        else:
            gone = [{**row, "kind": "delete" if row["n"] % 2 else "upsert"} for row in rows]
            for row in gone:
                if row["kind"] == "delete":
                    del expected["north", row["key"]]
            result = connection.execute(merge(table).changes(gone, kind="kind"))
        counts = merge_result(result)
        assert counts.inserted + counts.updated + counts.deleted + counts.skipped in (42, 32)
        assert files_read(connection) == 3
        assert contents(connection, table) == expected


def test_keys_that_are_spread_evenly_are_joined_at_once(
    engine: Engine, table: Table, kind: str
) -> None:
    key = KINDS[kind][1]
    numbers = range(0, FILES_OF_TABLE * ROWS_OF_FILE, 9)
    rows = [{"region": "north", "key": key(n), "n": -1} for n in numbers]
    with engine.begin() as connection:
        result = merge_result(connection.execute(upsert(table, rows)))
        assert result.updated == len(numbers)
        assert files_read(connection) is None


def test_deleting_keys_from_far_apart(engine: Engine, table: Table, kind: str) -> None:
    key = KINDS[kind][1]
    gone = [("north", key(n)) for n in (0, 1, 2, 1199)]
    with engine.begin() as connection:
        expected = contents(connection, table)
        keys = [{"region": region, "key": value} for region, value in gone]
        assert merge_result(connection.execute(delete_keys(table, keys))).deleted == 4
        assert files_read(connection) == 2
        for each in gone:
            del expected[each]
        assert contents(connection, table) == expected


@pytest.mark.parametrize("seed", range(4))
def test_any_batch_against_a_dictionary(
    engine: Engine, table: Table, kind: str, seed: int
) -> None:
    """Clusters of keys anywhere, also beyond the table, in batches one after another."""
    key, chance = KINDS[kind][1], random.Random(seed)

    def batch(connection: Connection) -> None:
        expected = contents(connection, table)
        numbers = {
            number + chance.randrange(chance.choice((1, 3, 30)))
            for number in (chance.randrange(-3000, 6000) for _ in range(chance.randrange(1, 9)))
            for _ in range(20)
        }
        rows = [
            {"region": region, "key": key(n), "n": chance.randrange(3)}
            for n in numbers
            for region in chance.sample(["north", "south"], k=chance.randrange(1, 3))
        ]
        old = {one: expected.get(one, "none") for one in map(place, rows)}
        changes = {place(row): row["n"] for row in rows}
        result = merge_result(connection.execute(upsert(table, rows)))
        assert result.inserted == sum(value == "none" for value in old.values())
        assert result.unchanged == sum(old[one] == changes[one] for one in old)
        assert contents(connection, table) == expected | changes

    def place(row: dict[str, Any]) -> tuple[str, Any]:
        return row["region"], row["key"]

    for _ in range(3):
        run_transaction(engine, batch)


def test_what_an_earlier_merge_remembered_does_not_matter(
    engine: Engine, table: Table, kind: str
) -> None:
    key = KINDS[kind][1]
    with engine.connect() as connection:
        for wanted in ([0, 1199], [205, 1199], [601], [3000, 1], [*range(0, 1200, 7)]):
            rows = [{"region": "north", "key": key(n), "n": -7} for n in wanted]
            connection.execute(upsert(table, rows))
            found = contents(connection, table)
            assert all(found["north", key(n)] == -7 for n in wanted)
            connection.rollback()


def test_a_column_called_filename(engine: Engine) -> None:
    """It hides the engine's own, so nothing is pruned by it."""
    table = Table(
        "t",
        MetaData(),
        Column("id", Integer, primary_key=True, autoincrement=False),
        Column("Filename", String),
    )
    table.create(engine)
    with engine.begin() as connection:
        connection.execute(text("INSERT INTO t SELECT range, 'x' FROM range(1000)"))
        rows = [{"id": n, "Filename": "y"} for n in (1, 2, 998)]
        assert merge_result(connection.execute(upsert(table, rows))).updated == 3
