"""Many writers at once: every acknowledged write is there exactly once, and nobody starves.

Each writer counts on shared keys, inserts keys that others insert too, and inserts and
deletes keys of its own, while another one compacts with DuckLake's own retry.  The control
races the same inserts without this package's guard, and finds a key twice.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import pytest
from sqlalchemy import (
    URL,
    Column,
    Connection,
    Engine,
    Integer,
    MetaData,
    Table,
    create_engine,
    delete,
    func,
    select,
)
from sqlalchemy.exc import IntegrityError

from sqlalchemy_ducklake import driver, insert, run_transaction
from sqlalchemy_ducklake.dialect.url import config_from_url, url_from_config
from sqlalchemy_ducklake.lake.config import LakeConfig
from sqlalchemy_ducklake.lake.instances import keep, open_session

metadata = MetaData()
rows = Table(
    "rows",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("n", Integer),
    Column("writer", Integer),
)

SHARED = 4
RACED = 1000
OWN = 1_000_000
SECONDS = 4.0


@dataclass
class Acknowledged:
    """What one writer was told that it did."""

    added: Counter[int] = field(default_factory=Counter)
    won: list[int] = field(default_factory=list)
    kept: list[int] = field(default_factory=list)
    turns: int = 0


class Writer:
    """One writer, with a connection of its own that commits each statement."""

    def __init__(self, engine: Engine, number: int, seed: int) -> None:
        self.chance = random.Random(f"{seed}/{number}")
        self.engine = engine
        self.number = number
        self.raced = 0
        self.done = Acknowledged()

    def work(self, start: float) -> Acknowledged:
        autocommit = self.engine.execution_options(isolation_level="AUTOCOMMIT")
        with autocommit.connect() as connection:
            while time.time() < start + SECONDS:
                self.chance.choice([self.add, self.add, self.race, self.own])(connection)
                if self.chance.random() < 0.1:
                    self.add_in_a_transaction()
                self.done.turns += 1
        return self.done

    def add(self, connection: Connection) -> None:
        key = self.chance.randrange(SHARED)
        connection.execute(one_more(), {"id": key, "n": 1, "writer": self.number})
        self.done.added[key] += 1

    def add_in_a_transaction(self) -> None:
        keys = [self.chance.randrange(SHARED), SHARED]
        run_transaction(
            self.engine,
            lambda connection: [
                connection.execute(one_more(), {"id": key, "n": 1, "writer": self.number})
                for key in keys
            ],
        )
        self.done.added.update(keys)

    def race(self, connection: Connection) -> None:
        self.raced += 1
        key = RACED + self.raced
        with contextlib.suppress(IntegrityError):
            connection.execute(insert(rows), {"id": key, "n": 1, "writer": self.number})
            self.done.won.append(key)

    def own(self, connection: Connection) -> None:
        if self.done.kept and self.chance.random() < 0.5:
            key = self.done.kept.pop()
            result = connection.execute(delete(rows).where(rows.c.id == key))
            assert result.rowcount == 1
            return
        key = OWN * (self.number + 1) + self.done.turns
        connection.execute(insert(rows), {"id": key, "n": 1, "writer": self.number})
        self.done.kept.append(key)


def one_more() -> Any:
    statement = insert(rows)
    return statement.on_conflict_do_update(["id"], set_={"n": rows.c.n + statement.excluded.n})


def write(url: URL, number: int, seed: int, folder: str, others: int) -> Acknowledged:
    engine = create_engine(url)
    try:
        return Writer(engine, number, seed).work(gather(folder, number, others))
    finally:
        engine.dispose()


def compact(url: URL, folder: str, number: int, others: int) -> int:
    """Compact as a foreign program does: straight on DuckDB, with DuckLake's own retry.

    Not on SQLite, where that is a fatal error of DuckLake for whoever deletes meanwhile.
    """
    connection = driver.connect(config_from_url(url), autocommit=True)
    foreign = url.get_driver_name() != "sqlite"
    compacted, end = 0, gather(folder, number, others) + SECONDS
    while time.time() < end:
        time.sleep(0.2)
        with contextlib.suppress(duckdb.TransactionException):
            run = connection.duck.execute if foreign else connection.cursor().execute
            run("CALL ducklake_merge_adjacent_files('lake')")
            compacted += 1
    connection.close()
    return compacted


def gather(folder: str, number: int, others: int) -> float:
    """Wait until all have come, and give the time."""
    Path(folder, str(number)).touch()
    while len(list(Path(folder).iterdir())) < others:
        time.sleep(0.02)
    return time.time()


@contextlib.contextmanager
def noted(seed: int) -> Iterator[None]:
    """Let an error tell the seed with which it can be had again."""
    try:
        yield
    except BaseException as error:
        error.add_note(f"seed {seed}")
        raise


def run_and_check(executor: Executor, url: URL, writers: int, folder: Path) -> None:
    seed, place, all_of_them = random.randrange(1 << 30), str(folder), writers + 1
    folder.mkdir()
    with noted(seed), executor:
        compaction = executor.submit(compact, url, place, writers, all_of_them)
        futures = [
            executor.submit(write, url, number, seed, place, all_of_them)
            for number in range(writers)
        ]
        results = [future.result() for future in futures]
        assert compaction.result() > 0
        check(url, results)


def check(url: URL, results: list[Acknowledged]) -> None:
    engine = create_engine(url)
    with engine.connect() as connection:
        stored = connection.execute(select(rows.c.id, rows.c.n, rows.c.writer)).all()
    engine.dispose()
    by_key = {row.id: row for row in stored}
    assert len(by_key) == len(stored), "a key is there twice"

    added = sum((each.added for each in results), Counter[int]())
    assert {key: by_key[key].n for key in added} == dict(added)
    raced = {key: number for number, each in enumerate(results) for key in each.won}
    assert sum(len(each.won) for each in results) == len(raced)
    kept = {key: number for number, each in enumerate(results) for key in each.kept}
    found = {row.id: row.writer for row in stored if row.id > SHARED}
    assert found == raced | kept

    # Without the locks one gets nearly all turns, and the others one each.
    turns = [each.turns for each in results]
    assert min(turns) * 8 + 4 >= max(turns), f"somebody starved: {turns}"


def prepared(lake: LakeConfig) -> URL:
    url = url_from_config(lake)
    engine = create_engine(url)
    metadata.create_all(engine)
    # Enough for the first compaction to find files, and for a file to have deletions.
    for number in range(3):
        with engine.begin() as connection:
            keys = range(-100 * number - 100, -100 * number)
            connection.execute(insert(rows), [{"id": key, "n": 0} for key in keys])
    with engine.begin() as connection:
        connection.execute(delete(rows).where(rows.c.id < 0))
    engine.dispose()
    return url


@pytest.mark.parametrize("kind", ["postgres", "sqlite"])
def test_four_processes_and_a_compaction(
    request: pytest.FixtureRequest, kind: str, tmp_path: Path
) -> None:
    url = prepared(request.getfixturevalue(f"{kind}_lake"))
    spawn = multiprocessing.get_context("spawn")
    run_and_check(ProcessPoolExecutor(5, mp_context=spawn), url, 4, tmp_path / "come")


def test_eight_threads_and_a_foreign_compaction(
    duckdb_lake: LakeConfig, tmp_path: Path
) -> None:
    url = prepared(duckdb_lake)
    hold = keep(config_from_url(url))
    run_and_check(ThreadPoolExecutor(9), url, 8, tmp_path / "come")
    hold.release()


def test_control_without_the_guard_a_key_is_there_twice(duckdb_lake: LakeConfig) -> None:
    url = prepared(duckdb_lake)
    barrier = threading.Barrier(4)

    def race(number: int) -> None:
        session = open_session(config_from_url(url))
        for key in range(RACED, RACED + 10):
            barrier.wait(30)
            session.duck.begin()
            query = "SELECT count(*) FROM rows WHERE id = ?"
            (found,) = session.duck.execute(query, [key]).fetchone() or (0,)
            if not found:
                statement = "INSERT INTO rows VALUES (?, 1, ?)"
                session.duck.execute(statement, [key, number])
            session.duck.commit()
        session.close()

    with ThreadPoolExecutor(4) as executor:
        list(executor.map(race, range(4)))
    engine = create_engine(url)
    with engine.connect() as connection:
        twice = connection.scalars(
            select(rows.c.id).group_by(rows.c.id).having(func.count() > 1)
        ).all()
    engine.dispose()
    assert twice
