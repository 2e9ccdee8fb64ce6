"""Small upserts from several processes at once, on a catalog in PostgreSQL.

Each process does the same number of turns, on keys of its own or on those of all: an upsert
that commits by itself, and a transaction that adds to what is there.  All must finish; how
many turns each had done when the first one finished tells whether they take turns, and tries
for each commit tell how much work was in vain.
"""

from __future__ import annotations

import itertools
import multiprocessing
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
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
    func,
    select,
)

from benchmarks.measure import Report, Timing
from fixtures.catalogs import own_server
from sqlalchemy_ducklake import insert, run_transaction
from sqlalchemy_ducklake.dialect import transactions
from sqlalchemy_ducklake.dialect.url import url_from_config
from sqlalchemy_ducklake.driver import commit
from sqlalchemy_ducklake.lake.config import LakeConfig

KEYS = 10
metadata = MetaData()
table = Table(
    "counters",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("n", Integer),
)
# A new interpreter for each process would take longer than its work.
_start = multiprocessing.get_context("forkserver")
_start.set_forkserver_preload(["benchmarks.bench_contention"])


@dataclass(frozen=True, slots=True)
class Turns:
    """What one process did: when each commit was done, its CPU seconds, tries in vain."""

    done: list[float]
    waits: list[float]
    cpu: float
    again: int


@dataclass(slots=True)
class _Counting:
    """Counts the pauses before a piece of work is tried again."""

    pause: Callable[[int], None]
    number: int = 0

    def __call__(self, number: int) -> None:
        self.number += 1
        self.pause(number)


@dataclass(frozen=True, slots=True)
class _Process:
    """One process: where the lake is, what its first key is, and how much it does."""

    url: URL
    first_key: int
    turns: int

    def run(self, together: Any, answers: Any) -> None:
        again = _Counting(commit.pause)
        with pytest.MonkeyPatch.context() as patch:
            for module in (commit, transactions):
                patch.setattr(module, "pause", again)
            answers.put(self.work(together, again))

    def work(self, together: Any, again: _Counting) -> Turns:
        engine = create_engine(self.url)
        self.turn(engine, 0)  # the first one of a process attaches the lake
        together.wait()
        cpu, began = time.process_time(), time.monotonic()
        done = [began]
        for number in range(self.turns):
            self.turn(engine, number)
            done.append(time.monotonic())
        waits = [after - before for before, after in itertools.pairwise(done)]
        cpu = time.process_time() - cpu
        engine.dispose()
        return Turns(done[1:], waits, cpu, again.number)

    def turn(self, engine: Engine, number: int) -> None:
        row = {"id": self.first_key + number % KEYS, "n": 1}
        if number % 2:
            run_transaction(engine, lambda connection: _add(connection, row))
            return
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            _add(connection, row)


def _add(connection: Connection, row: dict[str, int]) -> None:
    add = insert(table)
    summed = {"n": table.c.n + add.excluded.n}
    connection.execute(add.on_conflict_do_update(["id"], set_=summed), row)


@dataclass(slots=True)
class _Contest:
    """What several processes did together on a new lake."""

    processes: list[Turns]
    began: float
    total: int
    seconds: float = field(init=False)

    def __post_init__(self) -> None:
        self.seconds = max(each.done[-1] for each in self.processes) - self.began

    @property
    def commits(self) -> int:
        return sum(len(each.done) for each in self.processes)

    @property
    def timing(self) -> Timing:
        cpu = sum(each.cpu for each in self.processes)
        return Timing(self.seconds / self.commits, cpu / self.commits)

    def told(self) -> str:
        first = min(each.done[-1] for each in self.processes)
        shares = sorted(sum(at <= first for at in each.done) for each in self.processes)
        tries = 1 + sum(each.again for each in self.processes) / self.commits
        longest = max(max(each.waits) for each in self.processes)
        return (
            f"{self.commits / self.seconds:.0f} commits/s, {tries:.2f} tries each, "
            f"{shares[0]} to {shares[-1]} turns of each when the first was done, "
            f"longest wait {longest:.2f} s"
        )


def contest(url: URL, processes: int, turns: int, *, own_keys: bool) -> _Contest:
    """Let processes work against each other on the new lake at ``url``."""
    engine = create_engine(url)
    metadata.create_all(engine)
    engine.dispose()
    together, answers = _start.Barrier(processes + 1), _start.Queue()
    works = [_Process(url, number * KEYS * own_keys, turns) for number in range(processes)]
    workers = [_start.Process(target=work.run, args=(together, answers)) for work in works]
    for worker in workers:
        worker.start()
    together.wait()
    began = time.monotonic()
    done = [answers.get() for _ in workers]
    for worker in workers:
        worker.join()
    with engine.connect() as connection:
        total = connection.scalar(select(func.sum(table.c.n)))
    engine.dispose()
    return _Contest(done, began, int(total or 0))


def run(
    directory: Path, processes: Sequence[int] = (1, 2, 4, 8), turns: int = 30, runs: int = 1
) -> Report:
    """Measure seconds for each commit, against one process alone."""
    del runs  # each contest has many turns
    times, facts, right = {}, {}, True
    with own_server() as server:
        for own_keys, number in itertools.product((True, False), processes):
            name = f"{number} on {'own' if own_keys else 'the same'} keys"
            config = LakeConfig(server.new_catalog(), data_path=str(directory / name))
            found = contest(url_from_config(config), number, turns, own_keys=own_keys)
            times[name], facts[name] = found.timing, found.told()
            right = right and found.total == number * (turns + 1)
    title = f"{turns} small upserts in each of several processes: seconds for each commit"
    floor = times[f"{processes[0]} on own keys"]
    return Report(title, times, floor, {**facts, "every upsert is there once": right})
