"""A merge reads the files that can hold its keys, and no others: those may be missing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Column, Engine, Integer, MetaData, String, Table, select, text
from sqlalchemy.exc import DBAPIError

from sqlalchemy_ducklake import MergeResult, delete_keys, insert, merge, merge_result, upsert

ROWS = 300


def table_of(engine: Engine, **layout: Any) -> Table:
    table = Table(
        "t",
        MetaData(),
        Column("region", String, primary_key=True),
        Column("id", Integer, primary_key=True, autoincrement=False),
        Column("n", Integer),
        **layout,
    )
    table.create(engine)
    return table


def rows(region: str, first: int = 0, n: int = 0) -> list[dict[str, Any]]:
    return [{"region": region, "id": first + number, "n": n} for number in range(ROWS)]


def hide_files(engine: Engine, keep: str) -> list[Path]:
    """Rename the files of the table, but those whose path has a part in it."""
    listed = text("SELECT data_file FROM ducklake_list_files('lake', 't')")
    with engine.connect() as connection:
        files = [Path(each) for each in connection.scalars(listed)]
    hidden = [each for each in files if keep not in str(each)]
    assert 0 < len(hidden) < len(files)
    for each in hidden:
        each.rename(each.with_suffix(".hidden"))
    return hidden


def unhide(files: list[Path]) -> None:
    for each in files:
        each.with_suffix(".hidden").rename(each)


@pytest.mark.parametrize("way", ["upsert", "on conflict", "merge", "delete", "insert"])
def test_only_the_partitions_of_the_staged_keys_are_read(engine: Engine, way: str) -> None:
    table = table_of(engine, ducklake_partition_by=["region"])
    with engine.begin() as connection:
        everywhere = [row for region in ("east", "north", "west") for row in rows(region)]
        connection.execute(insert(table), everywhere)
    new = [{**row, "n": 7} for row in rows("north", first=ROWS // 2)]
    combined = merge(table).using(new).when_matched_update().when_not_matched_insert()
    fresh = rows("north", first=ROWS)
    works: dict[str, tuple[Any, Any, MergeResult]] = {
        "upsert": (upsert(table, new), None, MergeResult(150, 150)),
        "on conflict": (insert(table).on_conflict_do_update(), new, MergeResult(150, 150)),
        "merge": (combined, None, MergeResult(150, 150)),
        "delete": (
            delete_keys(table, [{"region": "north", "id": 5}]),
            None,
            MergeResult(deleted=1),
        ),
        "insert": (insert(table), fresh, MergeResult(ROWS)),
    }
    statement, given, expected = works[way]
    hidden = hide_files(engine, keep="region=north")
    with engine.begin() as connection:
        assert merge_result(connection.execute(statement, given)) == expected
    unhide(hidden)
    with engine.connect() as connection:
        found = connection.execute(select(table)).all()
    assert len(found) == 3 * ROWS + expected.inserted - expected.deleted


def test_recent_keys_are_looked_for_in_the_last_file(engine: Engine) -> None:
    table = table_of(engine)
    for first in range(0, 3 * ROWS, ROWS):
        with engine.begin() as connection:
            connection.execute(insert(table), rows("all", first))
    with engine.connect() as connection:
        newest = text(
            "SELECT data_file FROM ducklake_list_files('lake', 't') "
            "ORDER BY regexp_extract(data_file, 'ducklake-(.*)\\.parquet', 1) DESC LIMIT 1"
        )
        last = Path(connection.scalars(newest).one()).name
    hidden = hide_files(engine, keep=last)
    recent = [{**row, "n": 1} for row in rows("all", first=3 * ROWS - 10)]
    with engine.begin() as connection:
        result = merge_result(connection.execute(upsert(table, recent)))
    assert result == MergeResult(inserted=ROWS - 10, updated=10)
    unhide(hidden)


def test_keys_between_all_files_need_them_all(engine: Engine) -> None:
    """So the tests above can fail: a file that is needed and missing is an error."""
    table = table_of(engine, ducklake_partition_by=["region"])
    with engine.begin() as connection:
        connection.execute(insert(table), [*rows("east"), *rows("north"), *rows("west")])
    hide_files(engine, keep="region=north")
    with engine.connect() as connection, pytest.raises(DBAPIError, match="No such file"):
        connection.execute(upsert(table, [*rows("east")[:3], *rows("west")[:3]]))
