"""Writers that are killed at random moments: what was acknowledged is there, and only once.

Each operation lets its snapshot name it, so the lake's own history tells which ones came to
pass.  They are done again on a dictionary, in that order.  ``pytest -m nightly`` kills 200
writers, and ``DUCKLAKE_TEST_ROUNDS`` says how many otherwise.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

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
    select,
)
from sqlalchemy.exc import DBAPIError

from fixtures.catalogs import PostgresServer, url_of
from models.replay import Operation, Rows, applied
from models.test_writers import noted
from sqlalchemy_ducklake import (
    Commit,
    delete_keys,
    errors,
    insert,
    maintain,
    run_transaction,
    snapshots,
    upsert,
)
from sqlalchemy_ducklake.maintenance import Policy, delete_orphans

FEW = int(os.environ.get("DUCKLAKE_TEST_ROUNDS", "15"))
ROUNDS = [FEW, pytest.param(200, marks=pytest.mark.nightly)]
WRITERS, KEYS, LONGEST = 3, 40, 1.2
CATALOGS = ("ducklake", "ducklake+sqlite", "ducklake+postgresql")
table = Table(
    "t",
    MetaData(),
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("n", Integer),
)

# A new interpreter for each writer would take longer than what is tested.
start = multiprocessing.get_context("forkserver")
start.set_forkserver_preload(["faults.test_killed_at_random"])


@dataclass(frozen=True)
class Log:
    """What a writer says, in a file that its death leaves behind: begun, done or failed."""

    path: Path

    def say(self, word: str, name: str) -> None:
        with self.path.open("a") as file:
            file.write(f"{word} {name}\n")

    def said(self, word: str) -> set[str]:
        lines = self.path.read_text().splitlines() if self.path.exists() else []
        return {line.split()[1] for line in lines if line.split()[0] == word}


def steps_of(name: str) -> list[Operation]:
    """Give what the operation of this name does, always the same."""
    chance = random.Random(name)
    kinds = chance.choice([["add"], ["set"], ["delete"], ["add", "delete"], ["set", "add"]])
    most = chance.choice([2, KEYS])
    steps = [
        Operation(kind, {chance.randrange(KEYS): chance.randrange(9) for _ in range(most)})
        for kind in kinds
    ]
    # So that none is without an effect, which would leave no trace.
    turn, writer, number = map(int, name.split("/")[1:])
    return [
        *steps,
        Operation("insert", {KEYS + (turn * WRITERS + writer) * 10_000 + number: 0}),
    ]


def execute(connection: Connection, step: Operation) -> None:
    given = [{"id": key, "n": number} for key, number in step.rows.items()]
    add = insert(table)
    if step.kind == "insert":
        connection.execute(add, given)
    elif step.kind == "add":
        summed = {"n": table.c.n + add.excluded.n}
        connection.execute(add.on_conflict_do_update(["id"], set_=summed), given)
    elif step.kind == "set":
        connection.execute(upsert(table, given))
    else:
        connection.execute(delete_keys(table, [{"id": key} for key in step.rows]))


def write(url: URL, prefix: str, log: Log) -> None:
    """Do one operation after the other, and say so before and after."""
    # Every second one keeps aside what a transaction writes, and so does the one that dies.
    engine = create_engine(url, ducklake_write_scope=sum(map(int, prefix.split("/"))) % 2 == 1)
    number, end = 0, time.time() + LONGEST
    while time.time() < end:
        name, number = f"{prefix}/{number}", number + 1
        log.say("begun", name)
        try:
            run_transaction(engine, Work(name))
        except DBAPIError as error:
            meaning = errors.classify(error)
            log.say("unknown" if meaning.may_have_published else "failed", name)
        else:
            log.say("done", name)
    engine.dispose()


@dataclass(frozen=True)
class Work:
    """The operation of a name, as one transaction whose snapshot carries that name."""

    name: str

    def __call__(self, connection: Connection) -> None:
        connection.execution_options(ducklake_commit=Commit(extra={"name": self.name}))
        for step in steps_of(self.name):
            execute(connection, step)


def kill(process: Any) -> None:
    os.kill(process.pid, signal.SIGKILL)
    process.join()


def strike(
    url: URL, turn: str, folder: Path, chance: random.Random, fault: Callable[[Any], object]
) -> list[Log]:
    """Let writers work, let a fault befall the first of them, and wait for all."""
    # A DuckDB file is one process's.
    writers = 1 if url.drivername == "ducklake" else WRITERS
    logs = [Log(folder / f"{turn.replace('/', '-')}-{each}") for each in range(writers)]
    processes = [
        start.Process(target=write, args=(url, f"{turn}/{each}", log))
        for each, log in enumerate(logs)
    ]
    for process in processes:
        process.start()
    while not logs[0].said("begun"):
        assert processes[0].is_alive()
        time.sleep(0.01)
    time.sleep(chance.uniform(0, LONGEST / 2))
    fault(processes[0])
    for process in processes:
        process.join()
    assert {process.exitcode for process in processes} <= {0, -signal.SIGKILL}
    assert not any(process.exitcode for process in processes[1:])
    return logs


class History:
    """What the lake must hold, as its own history and the writers' words have it."""

    def __init__(self) -> None:
        self.rows: Rows = {}
        self.seen = 0

    def check(self, engine: Engine, logs: list[Log]) -> None:
        with engine.connect() as connection:
            newer = [each for each in snapshots(connection) if each.id > self.seen]
            found = {row.id: row.n for row in connection.execute(select(table))}
        names = [str(each.extra["name"]) for each in newer[::-1] if "name" in each.extra]
        assert len(set(names)) == len(names)
        for name in names:
            for step in steps_of(name):
                self.rows, _ = applied(self.rows, step)
        assert found == self.rows
        for log in logs:
            assert log.said("done") <= set(names)
            assert not log.said("failed") & set(names)
        self.seen = max([self.seen, *(each.id for each in newer)])


@contextlib.contextmanager
def opened(url: URL) -> Iterator[Engine]:
    engine = create_engine(url)
    yield engine
    engine.dispose()


@pytest.mark.parametrize("rounds", ROUNDS)
@pytest.mark.parametrize("catalog", CATALOGS)
def test_no_acknowledged_write_is_lost_and_no_lake_is_broken(
    request: pytest.FixtureRequest, tmp_path: Path, catalog: str, rounds: int
) -> None:
    url, seed = url_of(catalog, request, tmp_path), random.randrange(1 << 30)
    chance, history = random.Random(seed), History()
    with opened(url) as engine:
        table.create(engine)
    with noted(seed):
        for number in range(-(-rounds // len(CATALOGS))):
            logs = strike(url, f"{seed}/{number}", tmp_path, chance, kill)
            with opened(url) as engine:
                history.check(engine, logs)
                if number % 3 == 2:
                    maintain(engine, Policy(orphans=False))
                    delete_orphans(engine, older_than=timedelta())
                    history.check(engine, [])


@pytest.mark.parametrize("rounds", ROUNDS)
def test_nor_when_the_server_ends_all_connections(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    postgres_server: PostgresServer,
    rounds: int,
) -> None:
    url, seed = url_of(CATALOGS[-1], request, tmp_path), random.randrange(1 << 30)
    chance, history = random.Random(seed), History()

    def end_connections(_: Any) -> None:
        for _ in range(3):
            postgres_server.end_connections()
            time.sleep(chance.uniform(0, 0.2))

    with opened(url) as engine:
        table.create(engine)
    with noted(seed):
        for number in range(-(-rounds // len(CATALOGS))):
            logs = strike(url, f"{seed}/{number}", tmp_path, chance, end_connections)
            with opened(url) as engine:
                history.check(engine, logs)
