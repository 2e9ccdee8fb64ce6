"""A fatal error of the engine in an open transaction: the process and other lakes live on."""

from __future__ import annotations

import multiprocessing

import duckdb
import pytest

from sqlalchemy_ducklake import driver, errors
from sqlalchemy_ducklake.lake.config import LakeConfig


def die_and_go_on(lake: LakeConfig) -> None:
    first, second = driver.connect(lake), driver.connect(lake)
    first.cursor().execute("CREATE TABLE t (id BIGINT)")
    first.commit()
    for connection in (first, second):
        connection.cursor().execute("INSERT INTO t VALUES (1)")
    with pytest.raises(duckdb.InternalException) as caught:
        first.duck.execute("COMMENT ON COLUMN t.missing IS 'x'")
    assert not errors.classify(caught.value).connection_usable
    second.rollback()
    first.close()
    second.close()
    with driver.connect(lake) as connection:
        cursor = connection.cursor().execute("SELECT count(*) FROM t")
        assert cursor.fetchone() == (0,)


def test_closing_after_a_fatal_error_does_not_abort_the_process(
    sqlite_lake: LakeConfig,
) -> None:
    spawn = multiprocessing.get_context("spawn")
    process = spawn.Process(target=die_and_go_on, args=(sqlite_lake,))
    process.start()
    process.join()
    assert process.exitcode == 0
