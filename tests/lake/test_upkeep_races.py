"""Upkeep while others write: no change of theirs is lost or done twice."""

from __future__ import annotations

import threading
from datetime import timedelta

import pyarrow as pa
import pytest
from sqlalchemy import (
    Column,
    Connection,
    Engine,
    Executable,
    Integer,
    MetaData,
    Table,
    create_engine,
    delete,
    func,
    insert,
    select,
    text,
    update,
)

from sqlalchemy_ducklake import driver, errors, run_transaction, table_writer, write_table
from sqlalchemy_ducklake.lake.config import LakeConfig
from sqlalchemy_ducklake.maintenance import Policy, maintain, merge_small_files

metadata = MetaData()
t = Table(
    "t",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("n", Integer),
)
heap = Table("heap", metadata, Column("n", Integer))
ROWS, WRITERS, CHANGES = 400, 2, 5


@pytest.fixture
def lake(any_lake: LakeConfig) -> Engine:
    engine = create_engine("ducklake://", creator=lambda: driver.connect(any_lake))
    metadata.create_all(engine)
    for first in range(0, ROWS, 100):
        ids = pa.array(range(first, first + 100), pa.int32())
        with engine.begin() as connection:
            write_table(connection, t, pa.table({"id": ids, "n": ids}))
    return engine


def change(lake: Engine, number: int, failed: list[BaseException]) -> None:
    """Delete, update and insert rows of one's own."""
    try:
        for step in range(CHANGES):
            gone, other = number * 50 + step, number * 50 + 25 + step
            write(lake, delete(t).where(t.c.id == gone))
            write(lake, update(t).where(t.c.id == other).values(n=-1))
            write(lake, insert(t).values(id=1000 + gone, n=0))
    except BaseException as error:  # noqa: BLE001 - the test tells it
        failed.append(error)


def append(lake: Engine, failed: list[BaseException]) -> None:
    """Append to a table without a key, which takes no lock of the lake."""

    def load(connection: Connection) -> None:
        with table_writer(connection, heap) as writer:
            writer.write(pa.table({"n": pa.array(range(50), pa.int32())}))

    try:
        for _ in range(CHANGES):
            run_transaction(lake, load)
    except BaseException as error:  # noqa: BLE001 - the test tells it
        failed.append(error)


def write(lake: Engine, statement: Executable) -> None:
    run_transaction(lake, lambda connection: connection.execute(statement))


def test_upkeep_loses_no_change_of_others(lake: Engine) -> None:
    failed: list[BaseException] = []
    writers = [
        threading.Thread(target=change, args=(lake, number, failed))
        for number in range(WRITERS)
    ]
    writers.append(threading.Thread(target=append, args=(lake, failed)))
    for each in writers:
        each.start()
    policy = Policy(
        rewrite_threshold=0.01, expire_older_than=timedelta(seconds=2), orphans=False
    )
    while any(each.is_alive() for each in writers):
        maintain(lake, policy)
    for each in writers:
        each.join()
    maintain(lake, policy)
    assert failed == []
    with lake.connect() as connection:
        count, distinct, changed = connection.execute(
            select(
                func.count(),
                func.count(func.distinct(t.c.id)),
                func.count().filter(t.c.n == -1),
            )
        ).one()
        appended = connection.scalar(select(func.count()).select_from(heap))
    assert (count, distinct, appended) == (ROWS, ROWS, 50 * CHANGES)
    assert changed == WRITERS * CHANGES
    lake.dispose()


def test_a_compaction_that_was_overtaken_does_nothing(engine: Engine) -> None:
    metadata.create_all(engine)
    for first in range(3):
        with engine.begin() as connection:
            connection.execute(insert(t), [{"id": first * 50 + n, "n": n} for n in range(50)])
    with engine.connect() as late, engine.connect() as first_one:
        late.execute(text("CALL ducklake_merge_adjacent_files('lake', 't')")).all()
        first_one.execute(delete(t).where(t.c.id == 7))
        first_one.commit()
        with pytest.raises(Exception, match="moved from snapshot") as caught:
            late.commit()
    assert isinstance(getattr(caught.value, "orig", None), errors.SerializationFailure)
    with engine.connect() as connection:
        assert connection.scalar(select(func.count()).select_from(t)) == 149
    assert [each.count for each in merge_small_files(engine)] == [1]
    with engine.connect() as connection:
        assert connection.scalar(select(func.count()).select_from(t)) == 149
