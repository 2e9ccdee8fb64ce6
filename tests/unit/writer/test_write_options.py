"""Options of a writer: clamped and refused wherever they are given (D5, D6)."""

from __future__ import annotations

from typing import Any

import pytest

from sqlalchemy_ducklake import WriteOptions, errors


def test_d6_sizes_have_a_floor_on_every_way_in() -> None:
    assert WriteOptions().target_file_size == 512 << 20
    for options in (
        WriteOptions(target_file_size=1, row_group_rows=5),
        WriteOptions().changed(target_file_size=1, row_group_rows=5),
    ):
        assert (options.target_file_size, options.row_group_rows) == (4096, 2048)
    assert WriteOptions(target_file_size=4097).target_file_size == 4097


def test_d5_only_what_is_set_is_changed() -> None:
    options = WriteOptions(compression="zstd", sort=["a"]).changed(row_group_rows=5000)
    assert options == WriteOptions(compression="zstd", sort=("a",), row_group_rows=5000)
    assert WriteOptions().table_options(None) == {}
    assert options.table_options(5000) == {
        "parquet_compression": "zstd",
        "parquet_row_group_size": 5000,
    }


def test_the_bytes_of_a_row_group_bound_its_rows() -> None:
    assert WriteOptions().rows_per_group(100) is None
    assert WriteOptions(row_group_bytes=1_000_000).rows_per_group(100) == 10_000
    assert WriteOptions(row_group_bytes=1).rows_per_group(100) == 2048
    both = WriteOptions(row_group_bytes=1_000_000, row_group_rows=5000)
    assert both.rows_per_group(100) == 5000


@pytest.mark.parametrize(
    "wrong",
    [
        {"target_file_size": 0},
        {"target_file_size": "10MB"},
        {"row_group_rows": -1},
        {"row_group_bytes": 1.5},
        {"max_open_partitions": 0},
        {"max_open_partitions": True},
        {"compression": "lzma"},
        {"compression_level": 99},
        {"sort": "a"},
        {"commit": "a message"},
        {"nonsense": 1},
    ],
)
def test_what_is_out_of_range_is_refused_by_name(wrong: dict[str, Any]) -> None:
    with pytest.raises(errors.OptionError) as caught:
        WriteOptions().changed(**wrong)
    assert caught.value.option == list(wrong)[-1]
