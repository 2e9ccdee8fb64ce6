"""A Session that changes rows one by one and asks in between: with a scope, without, SQLite.

The floor is SQLite, whose every statement is a call into a library in the same process.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import (
    URL,
    BigInteger,
    Column,
    Engine,
    Integer,
    MetaData,
    String,
    Table,
    create_engine,
    func,
    select,
)
from sqlalchemy.orm import Session, registry

from benchmarks.data import data_files, filled_table, newest_snapshot
from benchmarks.measure import Report, Timing, medians, timed
from sqlalchemy_ducklake import insert

EVERY = 100
STAGED = 1000


class Item:
    """A row of the table."""

    def __init__(self, number: int) -> None:
        self.id = number
        self.n = number


def items() -> Table:
    """Describe the table."""
    return Table(
        "items",
        MetaData(),
        Column("id", Integer, primary_key=True, autoincrement=False),
        Column("n", Integer, nullable=False),
        Column("note", String),
    )


def run(directory: Path, size: int = 10_000, runs: int = 5) -> Report:
    """Measure ``size`` changes in one transaction each time, on tables that grow."""
    table, mapping = items(), registry()
    mapping.map_imperatively(Item, table)
    engines = {
        "SQLite": create_engine(URL.create("sqlite", database=str(directory / "items.sqlite"))),
        "lake with a scope": _lake(directory, "with", scope=True),
        "lake without": _lake(directory, "without", scope=False),
    }
    facts: dict[str, object] = {}
    for engine in engines.values():
        table.create(engine)
    try:
        works = {
            name: partial(_changes, engine, table, size) for name, engine in engines.items()
        }
        times = medians(works, runs)
        scoped = engines["lake with a scope"]
        facts["data files of the lake with a scope"] = data_files(scoped, "items")
        before = newest_snapshot(scoped)
        _changes(scoped, table, size)
        facts["its snapshots of the last run, and of emptying it before"] = (
            newest_snapshot(scoped) - before
        )
    finally:
        mapping.dispose()
        for engine in engines.values():
            engine.dispose()
    title = f"{size:,} changes of single rows in a Session with a query every {EVERY}"
    return Report(title, times, times["SQLite"], facts)


def _lake(directory: Path, name: str, *, scope: bool) -> Engine:
    url = URL.create("ducklake", database=str(directory / f"{name}.ducklake"))
    return create_engine(url, ducklake_write_scope=scope)


def _changes(engine: Engine, table: Table, size: int) -> Timing:
    """Empty the table, then add, change and delete rows in one transaction."""
    with engine.begin() as connection:
        connection.execute(table.delete())
    return timed(partial(change, engine, table, size))


def change(engine: Engine, table: Table, size: int) -> None:
    """Add, change and delete rows one by one."""
    chance, known = random.Random(7), dict[int, Item]()
    with Session(engine) as session:
        for number in range(size):
            draw = chance.random()
            if draw < 0.5 or len(known) < EVERY:
                known[number] = Item(number)
                session.add(known[number])
            elif draw < 0.85:
                known[chance.choice([*known][:EVERY])].n += 1
            else:
                item = known.pop(next(iter(known)))
                (session.expunge if item in session.new else session.delete)(item)
            if number % EVERY == EVERY - 1:
                session.scalar(select(func.sum(table.c.n)).where(table.c.id > number // 2))
        session.commit()


def run_point(directory: Path, size: int = 1_000_000, runs: int = 5) -> Report:
    """Measure a read by key, bare and with a thousand rows kept aside."""
    engine = _lake(directory, "point", scope=True)
    table = filled_table(engine, "points", size)
    try:
        with engine.connect() as bare, engine.connect() as kept:
            name = table.c[1].name
            rows = [{"id": size + number} for number in range(STAGED // 2)]
            kept.execute(table.insert(), rows)
            first = table.c.id < STAGED // 2
            kept.execute(table.update().where(first).values({name: None}))
            works = {
                "bare": partial(_read, bare, table, size),
                f"with {STAGED:,} rows kept": partial(_read, kept, table, size),
            }
            times = medians(works, runs)
            kept.rollback()
    finally:
        engine.dispose()
    return Report(f"Read by key in a table of {size:,} rows", times, times["bare"], {})


def _read(connection: Any, table: Table, size: int) -> Timing:
    keys = range(1, size, size // 20)

    def work() -> None:
        for key in keys:
            connection.execute(select(table).where(table.c.id == key)).all()

    return timed(work)


def run_cycles(directory: Path, cycles: int = 1500, runs: int = 1) -> Report:
    """Measure whether reading a row and upserting it stays as fast as it was."""
    del runs
    engine, metadata = _lake(directory, "cycles", scope=True), MetaData()
    columns = [Column(f"c{number}", BigInteger) for number in range(60)]
    table = Table("wide", metadata, Column("id", Integer, primary_key=True), *columns)
    metadata.create_all(engine)
    part = max(cycles // 15, 1)
    times: dict[str, Timing] = {}
    try:
        with engine.begin() as connection:
            work = partial(_cycles, connection, table, part)
            turns = [timed(work) for _ in range(cycles // part)]
        times = {f"the first {part}": turns[0], f"the last {part}": turns[-1]}
        facts: Mapping[str, object] = {"cycles in one transaction": part * len(turns)}
    finally:
        engine.dispose()
    title = "Read, then upsert, one row of 60 columns at a time"
    return Report(title, times, times[f"the first {part}"], facts)


def _cycles(connection: Any, table: Table, cycles: int) -> None:
    statement = insert(table).on_conflict_do_update()
    for number in range(cycles):
        key = number % 50
        row = connection.execute(select(table).where(table.c.id == key)).mappings().first()
        values = {f"c{place}": number + place for place in range(60)}
        connection.execute(statement, {**(row or {}), **values, "id": key})
