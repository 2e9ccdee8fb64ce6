"""A writer that is killed half-way: the lake opens, is right, and lets others write."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from multiprocessing.connection import Connection as Pipe

import pytest
from sqlalchemy import URL, Column, Integer, MetaData, Table, create_engine, func, select

from sqlalchemy_ducklake import insert
from sqlalchemy_ducklake.dialect.url import url_from_config

metadata = MetaData()
pairs = Table(
    "pairs",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("n", Integer),
)
HALVES = (1, 2)


def write_pairs(url: URL, acknowledge: Pipe) -> None:
    """Add one to both halves in one statement, again and again, and tell each time."""
    statement = insert(pairs)
    upsert = statement.on_conflict_do_update(
        ["id"], set_={"n": pairs.c.n + statement.excluded.n}
    )
    engine = create_engine(url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        while True:
            connection.execute(upsert, [{"id": half, "n": 1} for half in HALVES])
            acknowledge.send(1)


@pytest.mark.parametrize("kind", ["sqlite", "postgres", "duckdb"])
def test_a_killed_writer_leaves_whole_statements(
    request: pytest.FixtureRequest, kind: str
) -> None:
    url = url_from_config(request.getfixturevalue(f"{kind}_lake"))
    setup = create_engine(url)
    metadata.create_all(setup)
    setup.dispose()

    spawn = multiprocessing.get_context("spawn")
    receive, send = spawn.Pipe(duplex=False)
    process = spawn.Process(target=write_pairs, args=(url, send))
    process.start()
    send.close()
    acknowledged = sum(receive.recv() for _ in range(5))
    time.sleep(0.03)
    assert process.pid is not None
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    while receive.poll():
        try:
            acknowledged += receive.recv()
        except EOFError:
            break

    engine = create_engine(url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        first, second = connection.scalars(select(pairs.c.n).order_by(pairs.c.id)).all()
        assert first == second
        # The last one may have been published before its writer could say so.
        assert first in {acknowledged, acknowledged + 1}
        began = time.monotonic()
        connection.execute(insert(pairs), {"id": 3, "n": 0})
        assert time.monotonic() - began < 20
        assert connection.scalar(select(func.count()).select_from(pairs)) == 3
    engine.dispose()
