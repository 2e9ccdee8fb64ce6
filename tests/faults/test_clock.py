"""A clock that jumps, back too: commits keep their order, and nobody waits for days.

The processes of these tests read a clock that a file sets (libfaketime); the clock that only
counts, by which everything waits, goes on as it does.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sqlalchemy_ducklake.dialect.url import url_from_config
from sqlalchemy_ducklake.lake.config import LakeConfig

BEGINNING = """
import os, sys, threading, time
from datetime import UTC, datetime, timedelta
import pytest
from sqlalchemy import Column, Integer, MetaData, Table, create_engine, func, select
from sqlalchemy_ducklake import at_timestamp, errors, maintain, snapshots, upsert, versions
from sqlalchemy_ducklake.maintenance import Policy

def jump(days):
    with open(os.environ["FAKETIME_TIMESTAMP_FILE"], "w") as file:
        file.write(f"{days:+d}d")

jump(0)
true = datetime.now(UTC)
engine = create_engine(sys.argv[1])
table = Table("t", MetaData(), Column("id", Integer, primary_key=True), Column("n", Integer))
table.create(engine)
"""
ORDER = """
def write(number):
    with engine.begin() as connection:
        connection.execute(upsert(table, [{"id": key, "n": number} for key in range(number)]))

for number, days in enumerate((0, -2, 3, 1), 1):
    jump(days)
    assert abs(datetime.now(UTC) - true - timedelta(days=days)) < timedelta(hours=1)
    write(number)
    # By age old snapshots go, and what is there now stays.
    if days == 3:
        maintain(engine, Policy(expire_older_than=timedelta(days=4), orphans=False))
    with engine.connect() as connection:
        found = connection.execute(select(table).order_by("id")).all()
    assert found == [(key, number) for key in range(number)]

with engine.connect() as connection:
    known = [each.id for each in snapshots(connection)]
    assert known == sorted(known, reverse=True)
    written = [each.snapshot.id for each in versions(connection, table)]
    assert written == sorted(written, reverse=True)
    # The newest of those that say they were made by then, whatever came between.
    counted = [
        connection.scalar(select(func.count()).select_from(at_timestamp(table, true + at)))
        for at in (timedelta(hours=1), timedelta(days=2), timedelta(days=4))
    ]
# A PostgreSQL server dates them by its own clock.
served = "postgresql" in sys.argv[1]
assert counted == ([4, 4, 4] if served else [1, 4, 4]), counted
engine.dispose()
"""
WAITING = """
def later(days):
    thread = threading.Timer(0.2, jump, [days])
    thread.start()
    return thread

kept = [engine.raw_connection() for _ in range(2)]
first, second = (each.dbapi_connection for each in kept)
second.lock_timeout = 1.0
second.statement_timeout = 1.0
for days in (-30, 30):
    with first.exclusive():
        changing = later(days)
        with pytest.raises(errors.LockTimeout), second.exclusive():
            pass
        changing.join()
    changing = later(0)
    with pytest.raises(errors.StatementTimeout):
        second.cursor().execute("SELECT count(*) FROM range(1000000000) a, range(1000000000) b")
    changing.join()
    second.rollback()
    with second.exclusive():
        pass
for each in kept:
    each.close()
engine.dispose()
"""


@pytest.mark.parametrize("program", [ORDER, WAITING], ids=["order", "waiting"])
def test_a_clock_that_jumps(any_lake: LakeConfig, tmp_path: Path, program: str) -> None:
    package = importlib.util.find_spec("libfaketime")
    assert package is not None
    assert package.origin is not None
    (library,) = Path(package.origin).parent.rglob("libfaketime.so.1")
    (tmp_path / "clock").write_text("+0")
    environment = os.environ | {
        "LD_PRELOAD": str(library),
        "FAKETIME_TIMESTAMP_FILE": str(tmp_path / "clock"),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }
    url = url_from_config(any_lake).render_as_string(hide_password=False)
    done = subprocess.run(
        [sys.executable, "-c", BEGINNING + program, url],
        env=environment,
        check=False,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
