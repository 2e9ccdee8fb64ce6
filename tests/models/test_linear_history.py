"""Many processes write, read, migrate and compact; the lake's own history explains it all.

The four cases together write for half a minute; ``pytest -m nightly`` lets each of them write
for five, and ``DUCKLAKE_TEST_SECONDS`` for as long as it says.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import random
import time
from concurrent.futures import ProcessPoolExecutor
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
    text,
)
from sqlalchemy.exc import DBAPIError, IntegrityError

from fixtures.catalogs import url_of
from fixtures.stores import Store
from models.replay import Contradiction, Operation, replay
from models.test_writers import gather, noted
from sqlalchemy_ducklake import (
    delete_keys,
    insert,
    maintain,
    merge_result,
    run_transaction,
    upsert,
)
from sqlalchemy_ducklake.errors import Kind, LockTimeout, classify

SECONDS = float(os.environ.get("DUCKLAKE_TEST_SECONDS", "8"))
KEYS, BULK = 12, 40
WRITERS = 7
KINDS = ("insert", "add", "set", "delete", "read", "several")
metadata = MetaData()
table = Table(
    "counters",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("n", Integer),
)
_HEAD = text("SELECT max(snapshot_id) FROM lake.snapshots()")


def head(connection: Connection) -> int:
    return int(connection.scalar(_HEAD) or 0)


def refuse_unless_overtaken(error: Exception) -> None:
    """Let pass that others came first too often; the history must know nothing of it."""
    meaning = classify(error)
    if meaning.kind not in {Kind.CONFLICT, Kind.LOCKED} or meaning.may_have_published:
        raise error


class Writer:
    """One process: operations at random, each of which it records."""

    def __init__(self, engine: Engine, number: int, seed: int) -> None:
        self.chance = random.Random(f"{seed}/{number}")
        self.engine = engine
        self.autocommit = engine.execution_options(isolation_level="AUTOCOMMIT")
        self.record: list[Operation] = []

    def some(self, most: int) -> dict[int, int]:
        keys = self.chance.sample(range(BULK), k=self.chance.randint(1, most))
        return {key if most > 4 else key % KEYS: self.chance.randrange(1, 9) for key in keys}

    def turn(self, kind: str) -> None:
        if kind == "read":
            self.read()
        elif kind == "several":
            self.several()
        else:
            self.one(kind, self.some(self.chance.choice([2, BULK])))

    def one(self, kind: str, rows: dict[int, int]) -> None:
        with self.autocommit.connect() as connection:
            low = head(connection)
            try:
                result = self.execute(connection, kind, rows)
            except IntegrityError:
                between = (low, head(connection))
                self.record.append(Operation(kind, rows, refused=True, between=between))
                return
            except DBAPIError as error:
                refuse_unless_overtaken(error)
                return
            done = merge_result(result)
            self.note(kind, rows, done, (low, head(connection)))

    def several(self) -> None:
        """Two statements in one transaction, which is run again after a conflict."""
        works = [
            (kind, self.some(3)) for kind in ("add", self.chance.choice(["delete", "set"]))
        ]

        def work(connection: Connection) -> list[Any]:
            return [(head(connection), self.execute(connection, *each)) for each in works]

        try:
            done = run_transaction(self.engine, work)
        except (DBAPIError, LockTimeout) as error:
            refuse_unless_overtaken(error)
            return
        with self.autocommit.connect() as connection:
            after = head(connection)
        for (kind, rows), (low, result) in zip(works, done, strict=True):
            self.note(kind, rows, merge_result(result), (low, after))

    def note(
        self, kind: str, rows: dict[int, int], done: Any, between: tuple[int, int]
    ) -> None:
        counts = (done.inserted, done.updated, done.deleted)
        snapshot = done.snapshot_id if any(counts) else None
        assert snapshot is not None or not any(counts)
        self.record.append(Operation(kind, rows, counts, snapshot, between))

    def execute(self, connection: Connection, kind: str, rows: dict[int, int]) -> Any:
        given = [{"id": key, "n": number} for key, number in rows.items()]
        add = insert(table)
        if kind == "insert":
            return connection.execute(add, given)
        if kind == "add":
            summed = {"n": table.c.n + add.excluded.n}
            return connection.execute(add.on_conflict_do_update(["id"], set_=summed), given)
        if kind == "set":
            return connection.execute(upsert(table, given))
        return connection.execute(delete_keys(table, [{"id": key} for key in rows]))

    def read(self) -> None:
        with self.engine.connect() as connection:
            rows = {row.id: row.n for row in connection.execute(select(table.c.id, table.c.n))}
            now = int(connection.scalar(text("SELECT id FROM lake.current_snapshot()")) or 0)
        # In a SQLite catalog each look of the engine at it may be newer than the one before,
        # even within a statement (DuckLake 1.5.5), so such a read need not be of one snapshot.
        if self.engine.url.get_driver_name() != "sqlite":
            self.record.append(Operation("read", rows, between=(now, now)))


def write(
    url: URL, number: int, seed: int, folder: str, others: int, seconds: float
) -> list[Operation]:
    # Every second one keeps aside what a transaction writes.
    engine = create_engine(url, ducklake_write_scope=bool(number % 2))
    writer = Writer(engine, number, seed)
    end = gather(folder, number, others) + seconds
    for kind in KINDS:
        writer.turn(kind)
    while time.time() < end:
        writer.turn(writer.chance.choice(KINDS))
    engine.dispose()
    return writer.record


def disturb(url: URL, number: int, folder: str, others: int, seconds: float) -> int:
    """Compact, and change the table's definition, while others write."""
    engine = create_engine(url)
    end, done = gather(folder, number, others) + seconds, 0
    while time.time() < end or not done:
        time.sleep(0.4)
        with contextlib.suppress(DBAPIError, LockTimeout):
            maintain(engine)
            done += 1
        with contextlib.suppress(DBAPIError), engine.begin() as connection:
            connection.execute(text(f"ALTER TABLE counters ADD COLUMN more{done} INTEGER"))
    engine.dispose()
    return done


@pytest.mark.parametrize("seconds", [SECONDS, pytest.param(300.0, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("place", ["local", "s3"])
@pytest.mark.parametrize("catalog", ["ducklake+postgresql", "ducklake+sqlite"])
def test_the_history_explains_what_everybody_saw(
    request: pytest.FixtureRequest, tmp_path: Path, catalog: str, place: str, seconds: float
) -> None:
    url = url_of(catalog, request, tmp_path)
    if place == "s3":
        store: Store = request.getfixturevalue("store")
        url = url.update_query_dict({**store.options(), "data_path": store.new_path()})
    engine = create_engine(url)
    metadata.create_all(engine)
    first = dict.fromkeys(range(0, BULK, 2), 1)
    with engine.begin() as connection:
        connection.execute(insert(table), [{"id": key, "n": 1} for key in first])
    with engine.connect() as connection:
        start = head(connection)
    # The store is a thread of this process, which has to answer all the others.
    number = WRITERS if place == "local" else 3
    seed, folder, everybody = random.randrange(1 << 30), tmp_path / "come", number + 1
    folder.mkdir()
    spawn = multiprocessing.get_context("spawn")
    with noted(seed), ProcessPoolExecutor(everybody, mp_context=spawn) as executor:
        others = executor.submit(disturb, url, number, str(folder), everybody, seconds)
        writers = [
            executor.submit(write, url, each, seed, str(folder), everybody, seconds)
            for each in range(number)
        ]
        record = [operation for writer in writers for operation in writer.result()]
        assert others.result() > 0
        with engine.connect() as connection:
            found = connection.execute(select(table.c.id, table.c.n)).all()
        assert len({row.id for row in found}) == len(found)
        assert {row.id: row.n for row in found} == replay(first, start, record)
    assert {each.kind for each in record} >= {"insert", "add", "set", "delete"}
    engine.dispose()


def test_control_the_replay_sees_each_kind_of_loss() -> None:
    """Records of things that must not happen, as DuckLake's own retry lets them happen."""
    twice = [
        Operation("insert", {5: 1}, (1, 0, 0), 11),
        Operation("insert", {5: 2}, (1, 0, 0), 12),
    ]
    lost = [
        Operation("add", {1: 1}, (0, 1, 0), 11),
        Operation("read", {1: 1}, between=(11, 11)),
    ]
    undone = [
        Operation("delete", {1: 0}, (0, 0, 1), 11),
        Operation("add", {1: 1}, (0, 1, 0), 12),
    ]
    unseen = [Operation("insert", {7: 1}, refused=True, between=(10, 11))]
    for record in (twice, lost, undone, unseen):
        with pytest.raises(Contradiction):
            replay({1: 1}, 10, record)
    fine = [
        Operation("add", {1: 1, 2: 5}, (1, 1, 0), 11),
        Operation("read", {1: 2, 2: 5}, between=(12, 12)),
        Operation("insert", {2: 1}, refused=True, between=(10, 12)),
        Operation("set", {1: 1}, between=(10, 10)),
    ]
    assert replay({1: 1}, 10, fine) == {1: 2, 2: 5}
