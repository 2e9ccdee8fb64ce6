"""Transactions of one Session that change one row each, with a write scope and without."""

from __future__ import annotations

from functools import partial
from itertools import count
from pathlib import Path

from sqlalchemy import URL, Engine, Table, create_engine
from sqlalchemy.orm import Session, registry

from benchmarks.bench_scope import Item, items
from benchmarks.measure import Report, Timing, medians, timed

TRANSACTIONS = 20


def run(directory: Path, size: int = 1000, runs: int = 5) -> Report:
    """Measure transactions on a table that has ``size`` rows at first."""
    table, mapping = items(), registry()
    mapping.map_imperatively(Item, table)
    engines = {name: _lake(directory, name, table, size) for name in ("with", "without")}
    works = {
        f"{what} {name} a scope": partial(_transactions, engine, what)
        for what in ("insert", "update")
        for name, engine in engines.items()
    }
    try:
        times = medians(works, runs)
    finally:
        mapping.dispose()
        for engine in engines.values():
            engine.dispose()
    title = f"{TRANSACTIONS} transactions of a Session that add, or read and change, one row"
    return Report(title, times, times["insert without a scope"], {})


def _lake(directory: Path, name: str, table: Table, size: int) -> Engine:
    url = URL.create("ducklake", database=str(directory / f"{name}.ducklake"))
    engine = create_engine(url, ducklake_write_scope=name == "with")
    table.create(engine)
    with engine.begin() as connection:
        connection.execute(table.insert(), [{"id": n, "n": n} for n in range(size)])
    return engine


def _transactions(engine: Engine, what: str) -> Timing:
    def work() -> None:
        for number in range(TRANSACTIONS):
            with Session(engine) as session:
                if what == "insert":
                    session.add(Item(next(_numbers)))
                else:
                    session.get_one(Item, number).n += 1
                session.commit()

    return timed(work)


_numbers = count(1 << 20)
