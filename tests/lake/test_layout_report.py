"""describe: what a table looks like in its files, and what upkeep would do about it."""

from __future__ import annotations

import random
import re
from contextlib import closing
from datetime import date, timedelta
from pathlib import Path
from typing import cast
from xml.etree import ElementTree as ET

import pyarrow as pa
import pytest
from sqlalchemy import (
    Column,
    Date,
    Engine,
    Integer,
    MetaData,
    String,
    Table,
    delete,
    func,
    insert,
    select,
    text,
    update,
)

from sqlalchemy_ducklake import describe, driver, errors, table_writer, write_table
from sqlalchemy_ducklake.maintenance import maintain, merge_small_files

metadata = MetaData()
t = Table(
    't <"&>',
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("day", Date),
    Column("s", String),
)
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def lake(engine: Engine) -> Engine:
    metadata.create_all(engine)
    return engine


def append(lake: Engine, ids: list[int]) -> None:
    days = [date(2024, 1, 1) + timedelta(days=n % 300) for n in ids]
    rows = pa.table({"id": pa.array(ids, pa.int32()), "day": days, "s": ["x"] * len(ids)})
    with lake.begin() as connection:
        write_table(connection, t, rows)


def test_an_empty_table_has_nothing_to_tell(lake: Engine, tmp_path: Path) -> None:
    with lake.connect() as connection:
        report = describe(connection, t)
    assert (report.files, report.rows, report.size, report.small_ratio) == ((), 0, 0, 0)
    assert (report.keys[0].depth, report.advice()) == (0, [])
    ET.parse(report.plot(tmp_path / "empty.svg"))


def test_it_counts_files_rows_deletes_and_what_is_in_the_catalog(lake: Engine) -> None:
    for first in range(4):
        append(lake, list(range(first * 100, first * 100 + 100)))
    with lake.begin() as connection:
        connection.execute(delete(t).where(t.c.id < 97))
        connection.execute(insert(t), [{"id": 1000, "s": None}])
    with lake.connect() as connection:
        report = describe(connection, t, keys=["id", "day"])
    assert (len(report.files), report.rows, report.deleted) == (4, 303, 97)
    assert (report.small_files, report.small_ratio, report.partitions) == (4, 1.0, 1)
    assert (report.mergeable, report.rewritable, report.inlined) == (3, 1, 1)
    assert set(report.row_groups.values()) == {1}
    by_id, by_day = report.keys
    assert by_id.depth == 1
    assert by_day.depth > 1
    assert report.advice()[:3] == [
        "merge_small_files would merge 3 files",
        "rewrite_deleted would write 1 files anew",
        "flush_inlined would move 1 rows into files",
    ]
    steps = {each.step for each in maintain(lake)}
    assert steps == {"merge_small_files", "rewrite_deleted", "flush_inlined"}


def test_it_knows_the_order_of_the_table(lake: Engine) -> None:
    with lake.begin() as connection:
        connection.execute(text('ALTER TABLE "t <""&>" SET SORTED BY (day, upper(s))'))
    append(lake, list(range(50)))
    with lake.connect() as connection:
        assert [key.column for key in describe(connection, t).keys] == ["day"]
        with pytest.raises(errors.OptionError, match="zzz"):
            describe(connection, t, keys=["zzz"])
        with pytest.raises(errors.TableNotThen):
            describe(connection, Table("nope", MetaData(), Column("a", Integer)))


def test_a_picture_shows_each_file_and_piles_up_overlaps(lake: Engine, tmp_path: Path) -> None:
    append(lake, list(range(100)))
    append(lake, list(range(100, 200)))
    append(lake, [*range(200, 250), *range(-50, 0)])
    with lake.connect() as connection:
        report = describe(connection, t, keys=["id", "day"])
    for column, lanes in (("id", 2), ("day", 1)):
        root = ET.parse(report.plot(tmp_path / "o.svg", column)).getroot()
        bars = [
            each for each in root.iter(f"{SVG}rect") if each.find(f"{SVG}title") is not None
        ]
        assert len(bars) == 3
        assert len({each.get("y") for each in bars}) == lanes
        titles = [each.text or "" for each in root.iter(f"{SVG}text")]
        assert titles[0].startswith('main."t <""&>" by ' + column)
    with pytest.raises(errors.OptionError, match="zzz"):
        report.plot(tmp_path / "o.svg", "zzz")


def scanned(lake: Engine) -> int:
    """The files that the join of a merge of recent keys reads, by the engine's profile."""
    query = (
        'EXPLAIN ANALYZE SELECT count(t.s) FROM "t <""&>" AS t '
        "JOIN (SELECT range + 5000 AS id FROM range(20)) AS s ON t.id = s.id"
    )
    with lake.connect() as connection:
        plan = " ".join(str(row[1]) for row in connection.execute(text(query)))
    return int(re.findall(r"Total Files Read:\s*(\d+)", plan)[0])


def test_after_upkeep_and_sorting_a_merge_reads_few_files(lake: Engine) -> None:
    numbers = list(range(20_000))
    random.Random(7).shuffle(numbers)
    for place in range(0, 20_000, 2000):
        append(lake, numbers[place : place + 2000])
    with lake.connect() as connection:
        before = describe(connection, t)
    assert before.keys[0].depth > 5
    assert any("sort by it" in each for each in before.advice())
    unsorted = scanned(lake)
    merge_small_files(lake)
    with lake.begin() as connection:
        rows = connection.execute(t.select()).mappings().all()
        connection.execute(delete(t))
        with table_writer(
            connection, t, sort=["id"], target_file_size=10_000, row_group_rows=2048
        ) as w:
            w.write(dict(each) for each in rows)
    with lake.connect() as connection:
        after = describe(connection, t)
    assert len(after.files) > 3
    assert after.keys[0].depth < 2
    assert unsorted == 10
    assert scanned(lake) == 1


def test_files_that_are_older_than_buckets_are_told(lake: Engine) -> None:
    heap = Table("heap", MetaData(), Column("k", String), Column("n", Integer))
    heap.create(lake)
    rows = pa.table({"k": ["a", "b"] * 20, "n": pa.array(range(40), pa.int32())})
    with lake.begin() as connection, table_writer(connection, heap) as w:
        w.write(rows)
    with closing(lake.raw_connection()) as raw:
        # As another tool does it; this driver refuses.
        duck = cast("driver.Connection", raw.driver_connection).duck
        duck.execute("ALTER TABLE heap SET PARTITIONED BY (bucket(2, k))")
    found = select(func.count()).where(heap.c.k == "a")
    with lake.begin() as connection:
        # If the engine finds them, the advice has had its day.
        assert connection.scalar(found) == 0
        report = describe(connection, heap)
        assert report.hidden == {"k": 1}
        assert report.advice()[0].startswith("a search by 'k' misses the rows of 1 files")
        connection.execute(update(heap).values(n=heap.c.n + 1))
    with lake.connect() as connection:
        assert connection.scalar(found) == 20
        assert describe(connection, heap).hidden == {}
