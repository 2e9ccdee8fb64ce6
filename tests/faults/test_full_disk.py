"""A disk that is full: nothing is written, and with room again the same batch goes through.

What may be written to one file is limited in a process of its own; past that the system
refuses, as it does when the disk is full.
"""

from __future__ import annotations

import multiprocessing
import random
import resource
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import (
    URL,
    Column,
    Engine,
    Integer,
    MetaData,
    String,
    Table,
    create_engine,
    insert,
    select,
    text,
)
from sqlalchemy.exc import DBAPIError

from sqlalchemy_ducklake import MergeResult, errors, merge_result, upsert
from sqlalchemy_ducklake.dialect.url import url_from_config

metadata = MetaData()
t = Table(
    "t",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("s", String),
)
STORED = 1000
_TEMPORARY = text("SELECT count(*) FROM duckdb_tables() WHERE temporary")
_NEWEST = text("SELECT max(snapshot_id) FROM lake.snapshots()")


def limit_files(size: int) -> None:
    """Let no file of this process grow past a size in bytes; -1 is no limit."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


def state(engine: Engine) -> tuple[Any, ...]:
    """Give the rows, the newest snapshot and the number of temporary tables."""
    with engine.connect() as connection:
        rows = tuple(map(tuple, connection.execute(select(t).order_by(t.c.id))))
        return rows, connection.scalar(_NEWEST), connection.scalar(_TEMPORARY)


def fill_the_disk(url: URL, size: int, rows: int, answer: Pipe) -> None:
    """Upsert on a full disk, then again; tell what happened and what was left."""
    engine = create_engine(url)
    metadata.create_all(engine)
    with engine.begin() as connection:
        connection.execute(insert(t), [{"id": n, "s": "old"} for n in range(STORED)])
    letters = random.Random(0)
    batch = [{"id": n, "s": letters.randbytes(300).hex()} for n in range(rows)]
    before = state(engine)
    if size < 0:  # so much more than the log of the catalog holds
        size = Path(f"{url.database}.wal").stat().st_size
    limit_files(size)
    caught: Any = None
    try:
        with engine.begin() as connection:
            connection.execute(upsert(t, batch))
    except DBAPIError as error:
        caught = error
    limit_files(-1)
    meaning = errors.classify(caught)
    unchanged = state(engine) == before
    with engine.begin() as connection:
        again = merge_result(connection.execute(upsert(t, batch)))
    answer.send((str(caught), meaning, unchanged, again, state(engine)[1:]))
    engine.dispose()


@pytest.mark.parametrize(
    ("kind", "size", "rows"),
    [
        pytest.param("duckdb", 1_000_000, 5000, id="duckdb-no-room-for-the-rows"),
        pytest.param("sqlite", 1_000_000, 5000, id="sqlite-no-room-for-the-rows"),
        pytest.param("postgres", 1_000_000, 5000, id="postgres-no-room-for-the-rows"),
        pytest.param("duckdb", -10, 1, id="duckdb-no-room-in-the-catalog"),
    ],
)
def test_a_full_disk_changes_nothing(
    request: pytest.FixtureRequest, kind: str, size: int, rows: int
) -> None:
    url = url_from_config(request.getfixturevalue(f"{kind}_lake"))
    spawn = multiprocessing.get_context("spawn")
    receive, send = spawn.Pipe(duplex=False)
    process = spawn.Process(target=fill_the_disk, args=(url, size, rows, send))
    process.start()
    send.close()
    message, meaning, unchanged, again, (snapshot, temporary) = receive.recv()
    process.join()
    assert process.exitcode == 0
    assert not meaning.may_have_published
    assert meaning.connection_usable
    assert unchanged, message
    updated = min(rows, STORED)
    assert again == MergeResult(inserted=rows - updated, updated=updated)
    assert (snapshot, temporary) == (3, 0)
