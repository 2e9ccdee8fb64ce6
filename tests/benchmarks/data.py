"""The table of all benchmarks: a key and seven columns of the usual types."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
from sqlalchemy import (
    BigInteger,
    Column,
    DateTime,
    Double,
    Engine,
    Integer,
    MetaData,
    Numeric,
    String,
    Table,
    text,
)

Rows = list[dict[str, Any]]

_COLUMNS: dict[str, pa.DataType] = {
    "id": pa.int64(),
    "name": pa.string(),
    "city": pa.string(),
    "amount": pa.int32(),
    "price": pa.decimal128(18, 2),
    "weight": pa.float64(),
    "seen": pa.timestamp("us"),
    "stored": pa.timestamp("us", "UTC"),
}
SCHEMA = pa.schema(_COLUMNS)

_START = datetime(2024, 1, 1, tzinfo=UTC)
ROWS_IN_FILE = 1_000_000


def described(name: str, *, keyed: bool = True) -> Table:
    """Describe the table, with its key or without one."""
    return Table(
        name,
        MetaData(),
        Column("id", BigInteger, primary_key=keyed, autoincrement=False),
        Column("name", String(40)),
        Column("city", String(20)),
        Column("amount", Integer),
        Column("price", Numeric(18, 2)),
        Column("weight", Double),
        Column("seen", DateTime),
        Column("stored", DateTime(timezone=True)),
    )


def new_table(engine: Engine, name: str, *, keyed: bool = True) -> Table:
    """Make the table, anew if it exists."""
    table = described(name, keyed=keyed)
    table.drop(engine, checkfirst=True)
    table.create(engine)
    return table


def rows(keys: Iterable[int], version: int = 0) -> Rows:
    """Make a row for each key; another version has other values."""
    return [_row(key, version) for key in keys]


def _row(key: int, version: int) -> dict[str, Any]:
    number = key + version
    stored = _START + timedelta(seconds=number % 10_000_000)
    return {
        "id": key,
        "name": f"customer {number}",
        "city": f"city {number % 500}",
        "amount": None if key % 10 == 0 else number % 100_000,
        "price": Decimal(number % 1_000_000).scaleb(-2),
        "weight": number / 7,
        "seen": stored.replace(tzinfo=None),
        "stored": stored,
    }


def filled_table(engine: Engine, name: str, size: int) -> Table:
    """Make the table with the keys from 0, in files of up to a million, in key order."""
    table = new_table(engine, name)
    for first in range(0, size, ROWS_IN_FILE):
        with engine.begin() as connection:
            connection.execute(
                text(
                    f"INSERT INTO {name} "
                    "SELECT i, 'customer ' || i, 'city ' || i % 500, "
                    "CASE WHEN i % 10 > 0 THEN i % 100000 END, "
                    "(i % 1000000)::DECIMAL(18, 2) / 100, i / 7, "
                    "TIMESTAMP '2024-01-01' + to_seconds(i % 10000000), "
                    "TIMESTAMPTZ '2024-01-01 00:00:00Z' + to_seconds(i % 10000000) "
                    "FROM range(:first, :last) AS keys(i)"
                ),
                {"first": first, "last": min(first + ROWS_IN_FILE, size)},
            )
    return table


def count(engine: Engine, table: str) -> int:
    """Count the rows of a table."""
    return _number(engine, f"SELECT count(*) FROM {table}")


def data_files(engine: Engine, table: str) -> int:
    """Count the Parquet files with rows of a table."""
    return _number(engine, f"SELECT count(*) FROM ducklake_list_files('lake', '{table}')")


def newest_snapshot(engine: Engine) -> int:
    """Tell the number of the newest snapshot."""
    return _number(engine, "SELECT max(snapshot_id) FROM lake.snapshots()")


def _number(engine: Engine, query: str) -> int:
    with engine.connect() as connection:
        return int(connection.scalars(text(query)).one())
