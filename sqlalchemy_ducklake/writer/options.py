"""How a writer lays out its files, as one frozen value that is right once it is made."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy_ducklake.constructs.merge import ANY_BASE
from sqlalchemy_ducklake.driver.commit import CommitInfo
from sqlalchemy_ducklake.errors import OptionError

#: No file is asked to be smaller; a Parquet file has as much around its rows.
SMALLEST_FILE = 4096
#: Rows that the engine writes at once, so no row group has fewer (but the last one).
SMALLEST_GROUP = 2048

CODECS = ("uncompressed", "snappy", "gzip", "zstd", "brotli", "lz4", "lz4_raw")


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """How :func:`table_writer` and :func:`write_table` write.

    ``target_file_size`` (bytes, 512 MiB, at least 4 KiB): a file ends with the batch that
    makes it larger, as far as a sample of the rows can tell; None for what the table says.
    ``single_file`` lets it grow.  ``row_group_rows`` and ``row_group_bytes``
    (uncompressed) bound a row group, at least 2048 rows; ``compression`` is a codec of
    Parquet (its level is an option of the table: the engine refuses a level with any other
    codec, and cannot forget one).  At most ``max_open_partitions``
    files are open at once.  Rows are sorted by the columns ``sort`` over all files.

    ``commit`` is what the snapshot says.  With ``expected_base`` (a snapshot, None for
    "never written") writing fails if the table changed since.  ``evolve`` adds columns
    that the data has and the table has not; they are nullable.

    Raises OptionError for a value that is out of range.
    """

    target_file_size: int | None = 512 << 20
    single_file: bool = False
    row_group_rows: int | None = None
    row_group_bytes: int | None = None
    compression: str | None = None
    max_open_partitions: int = 100
    sort: Sequence[str] = ()
    commit: CommitInfo | None = None
    expected_base: int | None = ANY_BASE
    evolve: bool = False

    def __post_init__(self) -> None:
        for option, problem in self._problems():
            raise OptionError(option, problem)
        if self.target_file_size is not None:
            self._set("target_file_size", max(self.target_file_size, SMALLEST_FILE))
        if self.row_group_rows is not None:
            self._set("row_group_rows", max(self.row_group_rows, SMALLEST_GROUP))
        self._set("sort", tuple(self.sort))

    def changed(self, **changes: Any) -> WriteOptions:
        """Give these options with some of them changed."""
        unknown = changes.keys() - {each.name for each in dataclasses.fields(self)}
        for option in sorted(unknown):
            known = ", ".join(each.name for each in dataclasses.fields(self))
            raise OptionError(option, f"there is no such option of a writer; there are {known}")
        return dataclasses.replace(self, **changes)

    def table_options(self, rows_per_group: int | None) -> dict[str, Any]:
        """Give the options of the lake that these are, by the lake's name for them."""
        wanted = {
            "parquet_compression": self.compression,
            "parquet_row_group_size": rows_per_group,
        }
        return {name: value for name, value in wanted.items() if value is not None}

    def rows_per_group(self, bytes_per_row: float) -> int | None:
        """Give the most rows of a row group, for rows that are this large in memory."""
        bounds = [] if self.row_group_rows is None else [self.row_group_rows]
        if self.row_group_bytes is not None and bytes_per_row:
            bounds.append(max(int(self.row_group_bytes / bytes_per_row), SMALLEST_GROUP))
        return min(bounds, default=None)

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    def _problems(self) -> Iterator[tuple[str, str]]:
        for option in ("target_file_size", "row_group_rows", "row_group_bytes"):
            value = getattr(self, option)
            if value is not None and not _positive(value):
                yield option, f"is a whole number above 0, not {value!r}"
        if not _positive(self.max_open_partitions):
            yield "max_open_partitions", f"is 1 or more, not {self.max_open_partitions!r}"
        if self.compression is not None and self.compression not in CODECS:
            yield "compression", f"is one of {', '.join(CODECS)}, not {self.compression!r}"
        if isinstance(self.sort, str):
            yield "sort", f"is a list of columns; write sort=[{self.sort!r}]"
        commit: object = self.commit
        if commit is not None and not isinstance(commit, CommitInfo):
            yield "commit", f"is a Commit(author=…, message=…), not {commit!r}"


def _positive(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0
