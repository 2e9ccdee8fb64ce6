"""An object store that fails, stalls and hangs up: nothing is lost, nothing is half there.

Between DuckDB and the store stands a server of our own that passes requests on, and spoils
some of them.
"""

from __future__ import annotations

import http.client
import random
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

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
)
from sqlalchemy.exc import DBAPIError

from fixtures.stores import Store
from sqlalchemy_ducklake import errors, merge_result, upsert

table = Table(
    "t",
    MetaData(),
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("s", String),
)
ROWS = 3000


class Spoiler(ThreadingHTTPServer):
    """Passes requests on to a store, and spoils them as ``spoil`` says."""

    daemon_threads = True

    def __init__(self, target: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.target = urlsplit(target).netloc
        self.spoil = "nothing"
        self.share = 1.0
        self.chance = random.Random(0)
        self.spoiled = 0


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Spoiler

    def _pass_on(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length)
        if self.server.chance.random() < self.server.share and self._spoiled():
            return
        headers = {name: value for name, value in self.headers.items() if name != "Host"}
        # The signature is made for the address that DuckDB knows.
        headers["Host"] = self.headers["Host"]
        connection = http.client.HTTPConnection(self.server.target, timeout=30)
        connection.request(self.command, self.path, body, headers)
        answer = connection.getresponse()
        content = answer.read()
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in {"transfer-encoding", "connection", "content-length"}:
                self.send_header(name, value)
        size = answer.getheader("Content-Length") if self.command == "HEAD" else len(content)
        self.send_header("Content-Length", str(size or 0))
        self.end_headers()
        self.wfile.write(content)
        connection.close()

    def _spoiled(self) -> bool:
        spoil = self.server.spoil
        if spoil == "nothing":
            return False
        self.server.spoiled += 1
        if spoil == "slow":
            time.sleep(0.2)
            return False
        if spoil == "hang up":
            self.close_connection = True
            self.connection.close()
            return True
        self.send_response(int(spoil))
        self.send_header("Content-Length", "0")
        self.end_headers()
        return True

    do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = _pass_on  # noqa: N815

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture
def spoiler(store: Store) -> Iterator[Spoiler]:
    server = Spoiler(store.endpoint)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def engine(spoiler: Spoiler, store: Store, tmp_path: Path) -> Iterator[Engine]:
    options = {
        **store.options(),
        "data_path": store.new_path(),
        "s3_endpoint": f"http://127.0.0.1:{spoiler.server_address[1]}",
        "duckdb.http_retries": "2",
        "duckdb.http_retry_wait_ms": "5",
        "duckdb.http_timeout": "5",
    }
    url = URL.create("ducklake+sqlite", database=str(tmp_path / "a.lake"), query=options)
    engine = create_engine(url)
    table.create(engine)
    with engine.begin() as connection:
        connection.execute(insert(table), [{"id": n, "s": "old"} for n in range(ROWS)])
    yield engine
    engine.dispose()


def contents(engine: Engine) -> dict[int, str]:
    with engine.connect() as connection:
        return {row.id: row.s for row in connection.execute(select(table))}


@pytest.mark.parametrize("spoil", ["500", "503", "403", "hang up"])
def test_a_store_that_is_down(engine: Engine, spoiler: Spoiler, spoil: str) -> None:
    before = contents(engine)
    rows = [{"id": n, "s": "new"} for n in range(ROWS // 2, 2 * ROWS)]
    spoiler.spoil = spoil
    with pytest.raises(DBAPIError) as caught, engine.begin() as connection:
        connection.execute(upsert(table, rows))
    assert spoiler.spoiled
    meaning = errors.classify(caught.value)
    assert not meaning.may_have_published
    spoiler.spoil = "nothing"
    assert contents(engine) == before
    with engine.begin() as connection:
        result = merge_result(connection.execute(upsert(table, rows)))
    assert (result.inserted, result.updated) == (ROWS, ROWS // 2)
    assert contents(engine) == before | {row["id"]: row["s"] for row in rows}


def test_a_slow_store_is_waited_for(engine: Engine, spoiler: Spoiler) -> None:
    spoiler.spoil = "slow"
    with engine.begin() as connection:
        connection.execute(upsert(table, [{"id": n, "s": "new"} for n in range(200)]))
    assert spoiler.spoiled
    assert sum(value == "new" for value in contents(engine).values()) == 200


@pytest.mark.parametrize("spoil", ["503", "hang up"])
def test_a_store_that_fails_now_and_then(engine: Engine, spoiler: Spoiler, spoil: str) -> None:
    """What was acknowledged is there, what was refused is not."""
    expected = contents(engine)
    spoiler.spoil, spoiler.share = spoil, 0.2
    refused = 0
    for turn in range(15):
        changed = {n * (turn + 1): f"turn {turn}" for n in range(40)}
        rows = [{"id": key, "s": value} for key, value in changed.items()]
        try:
            with engine.begin() as connection:
                connection.execute(upsert(table, rows))
        except DBAPIError as error:
            assert not errors.classify(error).may_have_published  # noqa: PT017
            refused += 1
        else:
            expected |= changed
    spoiler.spoil = "nothing"
    assert contents(engine) == expected
    assert refused < 15
    assert spoiler.spoiled
