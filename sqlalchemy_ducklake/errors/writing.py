"""What a writer of whole tables refuses."""

from __future__ import annotations

from collections.abc import Sequence

import duckdb


class BatchRefused(duckdb.DataError):
    """A batch does not fit the table; the writer goes on with the next one.

    ``table`` and ``column`` say where (None: the batch as a whole), ``position`` is the
    place of the column in the batch, ``expected`` and ``found`` are types or counts.
    """

    sqlstate = "22000"

    def __init__(
        self,
        table: str,
        column: str | None,
        position: int | None,
        expected: str,
        found: str,
    ) -> None:
        super().__init__(table, column, position, expected, found)
        self.table = table
        self.column = column
        self.position = position
        self.expected = expected
        self.found = found

    def __str__(self) -> str:
        where = "" if self.column is None else f"column {self.column!r} "
        place = "" if self.position is None else f"(at position {self.position}) "
        return (
            f"a batch for table {self.table!r} does not fit: {where}{place}is to be "
            f"{self.expected}, not {self.found}; none of the batch was taken"
        )


class FileRefused(duckdb.DataError):
    """A Parquet file cannot become part of a table.

    ``table``, ``path`` and ``reason`` say which and why; nothing was added.
    """

    sqlstate = "22000"

    def __init__(self, table: str, path: str, reason: str) -> None:
        super().__init__(table, path, reason)
        self.table = table
        self.path = path
        self.reason = reason

    def __str__(self) -> str:
        return (
            f"the file {self.path!r} cannot be added to table {self.table!r}: {self.reason}; "
            "nothing was added"
        )


class NullsRefused(duckdb.IntegrityError):
    """Rows to be added have NULL in columns that take none.

    ``table`` and ``columns`` say where.
    """

    sqlstate = "23502"

    def __init__(self, table: str, columns: Sequence[str]) -> None:
        super().__init__(table, columns)
        self.table = table
        self.columns = tuple(columns)

    def __str__(self) -> str:
        return (
            f"NULL in {', '.join(map(repr, self.columns))} of table {self.table!r}, which "
            "must have a value in every row; none of these rows was taken"
        )


class ChangesLost(duckdb.OperationalError):
    """Changes that a merge had collected are not there any more when it is to commit.

    A rollback of the connection takes them away; ``expected`` and ``found`` count them.
    """

    sqlstate = "25000"

    def __init__(self, table: str, expected: int, found: int) -> None:
        super().__init__(table, expected, found)
        self.table = table
        self.expected = expected
        self.found = found

    def __str__(self) -> str:
        return (
            f"{self.expected} changes of {self.table!r} were collected, but {self.found} are "
            "there: the transaction in which they were staged was rolled back. Nothing was "
            "written; begin the merge again"
        )
