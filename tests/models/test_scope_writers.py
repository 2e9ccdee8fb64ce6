"""Processes with a write scope each: other tables are no conflict, and on one nobody starves.

Each process reads, thinks and writes in explicit transactions; whoever is overtaken on its
own table runs again with the lock of the lake held, and so wins at the second try.
"""

from __future__ import annotations

import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor
from typing import NamedTuple

from sqlalchemy import (
    URL,
    Column,
    Connection,
    Engine,
    Integer,
    MetaData,
    Table,
    create_engine,
    func,
    select,
)

from sqlalchemy_ducklake import insert, run_transaction

PROCESSES, TURNS, THOUGHT = 8, 1, 0.05

metadata = MetaData()
tables = [
    Table(
        f"t{number}",
        metadata,
        Column("id", Integer, primary_key=True, autoincrement=False),
        Column("n", Integer),
    )
    for number in range(PROCESSES)
]


class Turn(NamedTuple):
    """A transaction that went through, and how often it was tried."""

    key: int
    tries: int


def counted(connection: Connection, table: Table, key: int) -> None:
    """Read how many rows there are, think, count up a shared row and add one of one's own."""
    found = connection.scalar(select(func.coalesce(func.max(table.c.n), 0)))
    time.sleep(THOUGHT)
    shared = insert(table).values(id=0, n=(found or 0) + 1)
    connection.execute(shared.on_conflict_do_update(set_={"n": shared.excluded.n}))
    connection.execute(table.insert().values(id=key, n=0))


def write(url: URL, number: int, table: int) -> list[Turn]:
    """Run transactions on one table."""
    engine = create_engine(url, ducklake_write_scope=True)
    done = []
    for turn in range(TURNS):
        tries, key = 0, 1 + number * TURNS + turn

        def work(connection: Connection, key: int = key) -> None:
            nonlocal tries
            tries += 1
            counted(connection, tables[table], key)

        run_transaction(engine, work)
        done.append(Turn(key, tries))
    engine.dispose()
    return done


def run(url: URL, own_tables: bool) -> list[list[Turn]]:
    """Let the processes write, each on a table of its own or all on the first."""
    engine = create_engine(url)
    metadata.create_all(engine)
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(PROCESSES, mp_context=spawn) as pool:
        futures = [
            pool.submit(write, url, number, number if own_tables else 0)
            for number in range(PROCESSES)
        ]
        results = [future.result() for future in futures]
    check(engine, results, own_tables=own_tables)
    engine.dispose()
    return results


def check(engine: Engine, results: list[list[Turn]], *, own_tables: bool) -> None:
    """Every transaction is there once, and none was lost."""
    with engine.connect() as connection:
        for number in range(PROCESSES if own_tables else 1):
            mine = [results[number]] if own_tables else results
            table, wanted = tables[number], {turn.key for each in mine for turn in each}
            found = connection.execute(select(table)).all()
            assert sorted(row.id for row in found) == sorted({0, *wanted})
            assert next(row.n for row in found if row.id == 0) == len(wanted)


def test_writers_of_eight_tables_never_fail(shared_url: URL) -> None:
    results = run(shared_url, own_tables=True)
    assert {turn.tries for each in results for turn in each} == {1}


def test_writers_of_one_table_win_at_the_second_try(shared_url: URL) -> None:
    results = run(shared_url, own_tables=False)
    assert max(turn.tries for each in results for turn in each) <= 2
