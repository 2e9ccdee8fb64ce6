"""Upkeep: each step alone, all of them by a policy, and what a dry run promises.

D51, D52 and S79 of the behaviours.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from sqlalchemy import (
    Column,
    Engine,
    Integer,
    MetaData,
    String,
    Table,
    create_engine,
    delete,
    func,
    insert,
    select,
    text,
    update,
)

from sqlalchemy_ducklake import at_snapshot, driver, errors, write_table
from sqlalchemy_ducklake import snapshots as told
from sqlalchemy_ducklake.lake.config import LakeConfig
from sqlalchemy_ducklake.maintenance import (
    Policy,
    Progress,
    Upkeep,
    cleanup_files,
    delete_orphans,
    expire_snapshots,
    flush_inlined,
    maintain,
    merge_small_files,
    rewrite_deleted,
)

Snapshots = Callable[[], int]
NOW = timedelta()
metadata = MetaData()
heap = Table("heap", metadata, Column("n", Integer), Column("s", String))
parted = Table(
    "parted", metadata, Column("n", Integer), Column("k", Integer), ducklake_partition_by=["k"]
)


@pytest.fixture
def lake(engine: Engine) -> Engine:
    metadata.create_all(engine)
    return engine


def fill(lake: Engine, table: Table = heap, *, files: int = 4, rows: int = 100) -> None:
    """Append as many files."""
    for place in range(files):
        numbers = pa.array(range(place * rows, (place + 1) * rows), pa.int32())
        other = {"s": ["x"] * rows} if table is heap else {"k": [n % 2 for n in range(rows)]}
        with lake.begin() as connection:
            write_table(connection, table, pa.table({"n": numbers, **other}))


def content(lake: Engine, table: Table = heap) -> list[Any]:
    with lake.connect() as connection:
        return sorted(map(tuple, connection.execute(select(table))))


def stored(tmp_path: Path) -> set[str]:
    return {str(path) for path in tmp_path.rglob("*.parquet")}


def test_d51_small_files_become_one_and_the_past_stays(
    lake: Engine, snapshots: Snapshots
) -> None:
    fill(lake)
    before, rows = snapshots(), content(lake)
    assert merge_small_files(lake, dry_run=True) == [
        Upkeep("merge_small_files", "main.heap", 1)
    ]
    assert snapshots() == before
    (done,) = merge_small_files(lake)
    assert (done.table, done.count, done.merged) == ("main.heap", 1, 4)
    with lake.connect() as connection:
        assert next(told(connection)).message == "merge_small_files main.heap"
    assert (content(lake), snapshots()) == (rows, before + 1)
    with lake.connect() as connection:
        past = select(func.count()).select_from(at_snapshot(heap, before - 1))
        assert connection.scalar(past) == 300
    assert merge_small_files(lake) == []


def test_d51_files_are_merged_inside_their_partition_only(lake: Engine) -> None:
    fill(lake, parted, files=3)
    (planned,) = merge_small_files(lake, parted, dry_run=True)
    (done,) = merge_small_files(lake, parted)
    assert planned == done
    assert (done.count, done.merged) == (2, 6)
    assert len(content(lake, parted)) == 300


def test_the_number_of_files_at_once_can_be_limited(lake: Engine) -> None:
    fill(lake, parted, files=3)
    (planned,) = merge_small_files(lake, parted, max_files=1, dry_run=True)
    (done,) = merge_small_files(lake, parted, max_files=1)
    assert planned == done


def test_d51_deleted_rows_leave_their_file_above_a_share(lake: Engine) -> None:
    fill(lake, files=1)
    with lake.begin() as connection:
        connection.execute(delete(heap).where(heap.c.n < 60))
    assert rewrite_deleted(lake) == []
    planned = rewrite_deleted(lake, "heap", threshold=0.5, dry_run=True)
    done = rewrite_deleted(lake, ["heap"], threshold=0.5)
    assert planned == done == [Upkeep("rewrite_deleted", "main.heap", 1)]
    assert len(content(lake)) == 40


def test_rows_in_the_catalog_move_into_files(lake: Engine, tmp_path: Path) -> None:
    with lake.begin() as connection:
        connection.execute(insert(heap), [{"n": n} for n in range(3)])
    files = stored(tmp_path)
    planned = flush_inlined(lake, dry_run=True)
    assert stored(tmp_path) == files
    done = flush_inlined(lake)
    assert planned == done == [Upkeep("flush_inlined", "main.heap", 3)]
    assert len(stored(tmp_path)) == len(files) + 1
    assert len(content(lake)) == 3


def test_d52_old_snapshots_go_and_the_newest_stays(lake: Engine, snapshots: Snapshots) -> None:
    fill(lake, files=3)
    head = snapshots()
    assert expire_snapshots(lake).items == ()
    planned = expire_snapshots(lake, older_than=NOW, dry_run=True)
    done = expire_snapshots(lake, older_than=NOW)
    assert planned == done
    assert done.items == tuple(range(head))
    assert snapshots() == head
    assert len(content(lake)) == 300
    assert expire_snapshots(lake, older_than=NOW).count == 0


def test_snapshots_may_be_named(lake: Engine, snapshots: Snapshots) -> None:
    fill(lake, files=3)
    head = snapshots()
    for wrong in (head, 999):
        with pytest.raises(errors.UnknownSnapshot):
            expire_snapshots(lake, versions=[wrong])
    assert expire_snapshots(lake, versions=[head - 1, head - 2]).items == (head - 2, head - 1)


def test_d52_files_wait_for_their_age_and_dry_runs_tell_all(
    lake: Engine, tmp_path: Path
) -> None:
    fill(lake)
    merge_small_files(lake)
    expire_snapshots(lake, older_than=NOW)
    before = stored(tmp_path)
    assert cleanup_files(lake).count == 0
    assert cleanup_files(lake, older_than=timedelta(hours=1)).count == 0
    planned = cleanup_files(lake, older_than=NOW, dry_run=True)
    assert stored(tmp_path) == before
    done = cleanup_files(lake, older_than=NOW)
    assert planned == done
    assert set(done.items) == before - stored(tmp_path)
    assert done.count == 4
    assert len(content(lake)) == 400
    assert cleanup_files(lake, older_than=NOW).count == 0


def test_d52_orphans_are_what_the_catalog_does_not_know(lake: Engine, tmp_path: Path) -> None:
    fill(lake)
    merge_small_files(lake)  # the small files are not needed, but the catalog knows them
    known = stored(tmp_path)
    place = Path(next(iter(known))).parent
    (place / "o'ne 100%.parquet").write_text("x", encoding="utf-8")
    assert delete_orphans(lake).count == 0
    time.sleep(0.01)
    planned = delete_orphans(lake, older_than=NOW, dry_run=True)
    done = delete_orphans(lake, older_than=NOW)
    assert planned == done
    assert done.items == (str(place / "o'ne 100%.parquet"),)
    assert stored(tmp_path) == known


@pytest.mark.parametrize(
    "wrong",
    [
        lambda lake: expire_snapshots(lake, older_than=datetime.now(UTC) + timedelta(days=1)),
        lambda lake: cleanup_files(lake, older_than=timedelta(days=-1)),
        lambda lake: delete_orphans(lake, older_than=7),  # type: ignore[arg-type]
        lambda lake: rewrite_deleted(lake, threshold=1.5),
        lambda lake: merge_small_files(lake, max_files=0),
        lambda lake: Policy(expire_older_than=timedelta(days=-1)),
        lambda lake: Policy(delete_older_than=5),  # type: ignore[arg-type]
    ],
)
def test_ages_and_shares_out_of_range_are_refused(
    lake: Engine, wrong: Callable[[Engine], Any]
) -> None:
    with pytest.raises(errors.OptionError):
        wrong(lake)


def test_a_table_that_is_not_there_is_named(lake: Engine) -> None:
    with pytest.raises(errors.TableNotThen, match=r"main\.nope"):
        merge_small_files(lake, "nope")
    with pytest.raises(errors.TableNotThen):
        maintain(lake, Policy(tables=["other.heap"]))


def test_s79_a_lake_that_is_opened_read_only_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    writer = create_engine(f"ducklake+sqlite:///{path}")
    metadata.create_all(writer)
    fill(writer)
    writer.dispose()
    reader = create_engine(f"ducklake+sqlite:///{path}?read_only=true")
    steps: list[Callable[..., Any]] = [
        merge_small_files,
        rewrite_deleted,
        flush_inlined,
        expire_snapshots,
        cleanup_files,
        delete_orphans,
        maintain,
    ]
    for step in steps:
        for dry_run in (False, True):
            with pytest.raises(errors.ReadOnlyLake) as caught:
                step(reader, dry_run=dry_run)
    assert caught.value.operation == "maintain"
    reader.dispose()


@pytest.mark.parametrize("seed", range(3))
def test_a_dry_run_is_the_real_run_whatever_happened(
    lake: Engine, tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    changes: list[Callable[[], None]] = [
        lambda: fill(lake, files=chance.randrange(1, 3), rows=chance.choice([3, 50])),
        lambda: fill(lake, parted, files=1, rows=chance.choice([4, 60])),
        lambda: run(lake, delete(heap).where(heap.c.n < chance.randrange(60))),
        lambda: run(lake, update(parted).where(parted.c.n == chance.randrange(50)).values(n=0)),
        lambda: run(lake, text("INSERT INTO heap VALUES (1, 'inlined')")),
    ]
    for _ in range(3):
        for _ in range(5):
            chance.choice(changes)()
        policy = Policy(
            expire_older_than=NOW, rewrite_threshold=chance.choice([0.1, 0.9, None])
        )
        rows = content(lake), content(lake, parted)
        files = stored(tmp_path)
        planned = maintain(lake, policy, dry_run=True)
        assert stored(tmp_path) == files
        assert maintain(lake, policy) == planned
        assert (content(lake), content(lake, parted)) == rows


def run(lake: Engine, statement: Any) -> None:
    with lake.begin() as connection:
        connection.execute(statement)


def test_again_and_again_leaves_one_file_and_nothing_to_do(
    lake: Engine, tmp_path: Path
) -> None:
    fill(lake, files=5)
    policy = Policy(expire_older_than=NOW, tables=[heap])
    for _ in range(4):
        maintain(lake, policy)
    assert len(stored(tmp_path)) == 1
    assert maintain(lake, policy) == []


def test_progress_is_told_step_by_step_and_may_end_the_run(lake: Engine) -> None:
    fill(lake)
    seen: list[Progress] = []
    maintain(lake, Policy(tables=["heap"]), progress=seen.append)
    assert [each.done for each in seen] == list(range(len(seen)))
    assert {each.total for each in seen} == {len(seen) - 1}
    assert [each.step for each in seen][-3:] == ["rewrite_deleted", "flush_inlined", "done"]

    def stop(now: Progress) -> None:
        if now.step == "merge_small_files":
            raise KeyboardInterrupt

    fill(lake)
    with pytest.raises(KeyboardInterrupt):
        maintain(lake, progress=stop)
    assert len(content(lake)) == 800


def test_upkeep_works_in_every_kind_of_catalog(any_lake: LakeConfig) -> None:
    lake = create_engine("ducklake://", creator=lambda: driver.connect(any_lake))
    metadata.create_all(lake)
    fill(lake)
    fill(lake, parted, files=2)
    run(lake, delete(heap).where(heap.c.n < 98))
    policy = Policy(expire_older_than=NOW, rewrite_threshold=0.5)
    planned = maintain(lake, policy, dry_run=True)
    done = maintain(lake, policy)
    assert planned == done
    assert {each.step for each in done} >= {
        "expire_snapshots",
        "merge_small_files",
        "rewrite_deleted",
    }
    for _ in range(2):
        maintain(lake, policy)
    assert (len(content(lake)), len(content(lake, parted))) == (302, 200)
    with lake.connect() as connection:
        assert len(list(told(connection))) == 1
    lake.dispose()
