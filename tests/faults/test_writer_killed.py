"""A writer of much data that is killed: every file is the lake's, or an orphan that is found.

Run whole, with two gigabytes and ten kills, by
``python tests/faults/test_writer_killed.py``; the test does the same with less.
"""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path

from sqlalchemy import create_engine, text

from sqlalchemy_ducklake.maintenance import delete_orphans

# Writes batches for ever, and says when it begins to write files and when it committed.
WRITER = """
import sys
import numpy as np
import pyarrow as pa
from sqlalchemy import BigInteger, Column, Double, MetaData, Table, create_engine
from sqlalchemy_ducklake import table_writer

url, rows, target = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
engine = create_engine(url)
table = Table("t", MetaData(), Column("n", BigInteger), Column("x", Double))
table.create(engine, checkfirst=True)
while True:
    with engine.begin() as connection, table_writer(
        connection, table, target_file_size=target
    ) as writer:
        for first in range(0, rows, 100_000):
            numbers = np.arange(first, min(first + 100_000, rows))
            writer.write(pa.table({"n": numbers, "x": np.random.random(len(numbers))}))
        print("files", flush=True)
    print("committed", flush=True)
"""


def kill_and_look(
    folder: Path, *, rows: int, target: int, kills: int, longest: float, seed: int
) -> list[int]:
    """Kill writers at random moments and check the lake; give how many orphans each left."""
    chance, orphans = random.Random(seed), []
    url = f"ducklake+sqlite:///{folder / 'lake.sqlite'}"
    for _ in range(kills):
        command = [sys.executable, "-c", WRITER, url, str(rows), str(target)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, encoding="utf-8") as writer:
            assert writer.stdout is not None
            assert writer.stdout.readline() == "files\n"
            time.sleep(chance.uniform(0, longest))
            writer.kill()
        orphans.append(look(folder, url, rows))
    return orphans


def look(folder: Path, url: str, rows: int) -> int:
    """Check that rows came all or not at all, and that every file is accounted for."""
    engine = create_engine(url)
    with engine.connect() as connection:
        count = connection.execute(text("SELECT count(*), count(x) FROM t")).one()
        listed = text("SELECT data_file FROM ducklake_list_files('lake', 't')")
        live = set(connection.scalars(listed))
    assert count[0] % rows == 0
    assert count[0] == count[1]
    there = {str(path) for path in folder.rglob("*.parquet")}
    assert live <= there
    found = delete_orphans(engine, older_than=timedelta())
    assert set(found.items) == there - live
    assert {str(path) for path in folder.rglob("*.parquet")} == live
    engine.dispose()
    return found.count


def test_a_killed_writer_leaves_no_file_that_is_not_found(tmp_path: Path) -> None:
    orphans = kill_and_look(
        tmp_path, rows=400_000, target=400_000, kills=3, longest=0.4, seed=5
    )
    assert any(orphans)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        # 16 bytes a row: two gigabytes.
        print(
            kill_and_look(
                Path(directory),
                rows=125_000_000,
                target=64 << 20,
                kills=10,
                longest=20.0,
                seed=int(time.time()),
            )
        )
