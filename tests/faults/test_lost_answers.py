"""A server whose answer to COMMIT is lost: what was asked is done once, or not at all.

A proxy stands between the lake and its PostgreSQL catalog.  It is told what to do with the
next COMMIT of a transaction that wrote.
"""

from __future__ import annotations

import contextlib
import dataclasses
import select
import socket
import threading
import time
from collections.abc import Iterator
from enum import Enum
from pathlib import Path

import pytest
import sqlalchemy
from sqlalchemy import Column, Engine, Integer, MetaData, Table, create_engine

from sqlalchemy_ducklake import driver, errors, insert
from sqlalchemy_ducklake.dialect.url import url_from_config
from sqlalchemy_ducklake.driver import commit
from sqlalchemy_ducklake.lake.catalogs import PostgresCatalog
from sqlalchemy_ducklake.lake.config import LakeConfig

metadata = MetaData()
counters = Table(
    "counters",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("n", Integer),
)


class Plan(Enum):
    PASS = "let it through"
    LOSE_ANSWER = "deliver the COMMIT, then cut the line without its answer"
    LOSE_COMMIT = "cut the line without delivering it"
    DELIVER_LATE = "cut the client's line, and deliver the COMMIT a second later"
    NEVER_CLOSE = "cut the client's line, and leave the server waiting"


def socket_in(folder: Path, catalog: PostgresCatalog) -> str:
    return str(folder / f".s.PGSQL.{catalog.port or 5432}")


def line_to(catalog: PostgresCatalog) -> socket.socket:
    host = str(catalog.host)
    if not host.startswith("/"):
        return socket.create_connection((host, catalog.port or 5432))
    line = socket.socket(socket.AF_UNIX)
    line.connect(socket_in(Path(host), catalog))
    return line


class Proxy:
    """Passes bytes between a client's socket and a server's, one thread per connection."""

    def __init__(self, folder: Path, target: PostgresCatalog) -> None:
        self.folder, self.target = folder, target
        self.plan = Plan.PASS
        self.kept: list[socket.socket] = []
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(socket_in(folder, target))
        self.listener.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self.listener.close()
        for each in self.kept:
            each.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        server = line_to(self.target)
        with contextlib.suppress(OSError), client, contextlib.ExitStack() as stack:
            stack.callback(self._hang_up, server)
            wrote = False
            while True:
                for source in select.select([client, server], [], [])[0]:
                    data = source.recv(1 << 16)
                    if not data:
                        return
                    if source is server:
                        client.sendall(data)
                        continue
                    wrote = wrote or b"INSERT INTO" in data
                    if wrote and b"COMMIT" in data and self.plan is not Plan.PASS:
                        self._spoil(client, server, data)
                        return
                    server.sendall(data)

    def _hang_up(self, server: socket.socket) -> None:
        if server not in self.kept:
            server.close()

    def _spoil(self, client: socket.socket, server: socket.socket, data: bytes) -> None:
        plan, self.plan = self.plan, Plan.PASS
        if plan is Plan.LOSE_ANSWER:
            server.sendall(data)
            server.recv(1 << 16)
        elif plan is Plan.DELIVER_LATE:
            client.shutdown(socket.SHUT_RDWR)
            time.sleep(1)
            server.sendall(data)
            server.recv(1 << 16)
        elif plan is Plan.NEVER_CLOSE:
            self.kept.append(server)


@pytest.fixture
def proxy(
    postgres_catalog: PostgresCatalog, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Proxy]:
    proxy = Proxy(tmp_path_factory.mktemp("p"), postgres_catalog)
    yield proxy
    proxy.close()


@pytest.fixture
def lake(proxy: Proxy, postgres_catalog: PostgresCatalog, tmp_path: Path) -> LakeConfig:
    catalog = dataclasses.replace(postgres_catalog, host=str(proxy.folder))
    return LakeConfig(catalog, data_path=str(tmp_path / "files"))


@pytest.fixture
def engine(lake: LakeConfig) -> Iterator[Engine]:
    engine = create_engine(url_from_config(lake))
    metadata.create_all(engine)
    with engine.begin() as connection:
        connection.execute(insert(counters), [{"id": 1, "n": 0}])
    yield engine
    engine.dispose()


@pytest.fixture
def connection(engine: Engine, lake: LakeConfig) -> Iterator[driver.Connection]:
    with driver.connect(lake) as connection:
        yield connection


def number(connection: driver.Connection) -> int:
    connection.rollback()
    row = connection.cursor().execute("SELECT sum(n) FROM counters").fetchone()
    assert row is not None
    return int(row[0])


def newest(connection: driver.Connection) -> int:
    row = (
        connection.cursor().execute("SELECT max(snapshot_id) FROM lake.snapshots()").fetchone()
    )
    connection.rollback()
    assert row is not None
    return int(row[0])


UPDATE = "UPDATE counters SET n = n + 1 WHERE id = 1"


def update_and_commit(connection: driver.Connection) -> None:
    connection.cursor().execute(UPDATE)
    connection.commit()


INSERT = "INSERT INTO counters VALUES (2, 1)"
PUBLISHED = [Plan.LOSE_ANSWER, Plan.DELIVER_LATE]


@pytest.mark.parametrize("plan", PUBLISHED)
@pytest.mark.parametrize("guarded", [True, False])
def test_a_commit_that_was_published_is_no_error(
    connection: driver.Connection, proxy: Proxy, plan: Plan, guarded: bool
) -> None:
    connection.cursor().execute(INSERT)
    connection.work.guarded = guarded
    proxy.plan = plan
    connection.commit()
    assert proxy.plan is Plan.PASS
    assert number(connection) == 1
    assert connection.last_snapshot == newest(connection)


@pytest.mark.parametrize("plan", PUBLISHED)
@pytest.mark.parametrize("autocommit", [True, False])
def test_a_commit_whose_files_the_engine_removed_is_told_and_not_run_again(
    connection: driver.Connection, proxy: Proxy, plan: Plan, autocommit: bool
) -> None:
    """Should this fail because nothing is lost, DuckLake keeps the files now: rejoice."""
    connection.autocommit = autocommit
    before = newest(connection)
    proxy.plan = plan
    with pytest.raises(errors.FilesLost) as caught:
        update_and_commit(connection)
    error = caught.value
    assert (error.snapshot, newest(connection)) == (before + 1, before + 1)
    assert error.files
    assert not any(Path(each).exists() for each in error.files)
    assert errors.classify(error).may_have_published
    cursor = connection.cursor()
    cursor.execute(f"SELECT n FROM counters AT (VERSION => {before})")
    assert cursor.fetchall() == [(0,)]


def test_a_commit_that_never_arrived_is_told_and_can_be_run_again(
    connection: driver.Connection, proxy: Proxy
) -> None:
    connection.cursor().execute(UPDATE)
    proxy.plan = Plan.LOSE_COMMIT
    with pytest.raises(errors.CommitFailed) as caught:
        connection.commit()
    assert errors.classify(caught.value).retry
    connection.cursor().execute(UPDATE)
    connection.commit()
    assert number(connection) == 1


@pytest.mark.parametrize(
    ("plan", "key"),
    [(Plan.LOSE_COMMIT, 1), (Plan.LOSE_COMMIT, 2), *((plan, 2) for plan in PUBLISHED)],
)
def test_an_upsert_of_its_own_is_applied_once_whatever_is_lost(
    engine: Engine, proxy: Proxy, plan: Plan, key: int
) -> None:
    statement = insert(counters)
    upsert = statement.on_conflict_do_update(
        ["id"], set_={"n": counters.c.n + statement.excluded.n}
    )
    autocommit = engine.execution_options(isolation_level="AUTOCOMMIT")
    with autocommit.connect() as connection:
        proxy.plan = plan
        connection.execute(upsert, {"id": key, "n": 1})
        assert proxy.plan is Plan.PASS
        connection.execute(upsert, {"id": key, "n": 1})
        query = sqlalchemy.select(counters.c.n).where(counters.c.id == key)
        assert connection.scalars(query).all() == [2]


def test_an_outcome_that_cannot_be_found_out_is_called_unknown(
    connection: driver.Connection, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit, "_FENCE_TIMEOUT", 0.5)
    connection.cursor().execute(UPDATE)
    proxy.plan = Plan.NEVER_CLOSE
    with pytest.raises(errors.OutcomeUnknown) as caught:
        connection.commit()
    assert caught.value.commit_id
    assert errors.classify(caught.value).may_have_published
    for each in proxy.kept:
        each.close()
    connection.cursor().execute(UPDATE)
    connection.commit()
    assert number(connection) == 1
