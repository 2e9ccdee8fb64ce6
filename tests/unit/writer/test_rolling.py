"""Where a file ends: D7, D8, D9 and D46, with sizes that the test decides."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqlalchemy_ducklake.writer.rolling import rolled, shrinking
from sqlalchemy_ducklake.writer.spool import Spool


def batch(rows: int, first: int = 0) -> pa.RecordBatch:
    return pa.record_batch({"n": pa.array(range(first, first + rows), pa.int64())})


def files(sizes: Sequence[int], target: int) -> list[list[int]]:
    """The numbers of rows of each batch of each file; a row is one byte."""
    batches = [batch(size) for size in sizes]
    size_of = lambda each: each.num_rows  # noqa: E731
    return [[b.num_rows for b in one] for one in rolled(batches, size_of, target)]


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ([], []),
        ([4, 6], [[4, 6]]),
        ([4, 6, 1], [[4, 6, 1]]),
        ([4, 6, 1, 1], [[4, 6, 1], [1]]),
        ([10, 10, 10], [[10, 10], [10]]),
        ([25], [[10, 10], [5]]),
        ([9, 25], [[9, 10], [10, 5]]),
    ],
)
def test_d7_a_file_ends_with_the_batch_that_makes_it_larger_than_its_target(
    sizes: list[int], expected: list[list[int]]
) -> None:
    assert files(sizes, 10) == expected


@given(st.lists(st.integers(1, 50), max_size=20), st.integers(1, 60))
def test_d8_no_row_is_lost_and_their_order_stays(sizes: list[int], target: int) -> None:
    firsts = [sum(sizes[:place]) for place in range(len(sizes))]
    batches = [batch(size, first) for size, first in zip(sizes, firsts, strict=True)]
    parts = [list(one) for one in rolled(batches, lambda each: each.num_rows, target)]
    seen = [n for one in parts for each in one for n in each.column(0).to_pylist()]
    assert seen == list(range(sum(sizes)))
    assert all(sum(b.num_rows for b in one[:-1]) <= target for one in parts)


def test_rows_that_compress_well_shrink() -> None:
    same = pa.record_batch({"s": ["the same text"] * 5000})
    assert shrinking(same) < 0.1
    assert shrinking(same, "lz4_raw") < 0.2
    assert shrinking(None) == shrinking(batch(0)) == 1


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 40)), max_size=12), st.integers(0, 900))
def test_d3_a_spool_gives_back_what_it_took_wherever_it_kept_it(
    parts: list[tuple[bool, int]], in_memory: int
) -> None:
    spool = Spool(in_memory)
    taken: list[tuple[str, int]] = []
    for wide, rows in parts:
        name = "wide" if wide else "n"
        spool.add(pa.record_batch({name: pa.array(range(rows), pa.int64())}))
        taken += [(name, n) for n in range(rows)]
    for _ in range(2):
        found = [
            (each.schema.names[0], n)
            for segment in spool.segments
            for each in spool.read(segment)
            for n in each.column(0).to_pylist()
        ]
        assert found == taken
    assert spool.rows == len(taken)
    spool.close()
    spool.close()
    assert spool.rows == 0
