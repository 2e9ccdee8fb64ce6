"""What a write scope refuses, and how it can fail."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import duckdb

from sqlalchemy_ducklake.errors.commits import SerializationFailure
from sqlalchemy_ducklake.errors.shown import tuples


class NoSavepoint(duckdb.ProgrammingError):
    """There is no open savepoint of this ``name``."""

    sqlstate = "3B001"

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name

    def __str__(self) -> str:
        return (
            f"there is no savepoint {self.name!r}: none was set by this name in the "
            "transaction, or it was released, or one outside of it was rolled back to"
        )


class SavepointLost(duckdb.OperationalError):
    """A savepoint ``name`` that cannot be rolled back to any more; ``because`` says why.

    What came after it was written into the lake, where DuckLake can undo only whole
    transactions.  The transaction itself is as it was.
    """

    sqlstate = "3B001"

    def __init__(self, name: str, because: str) -> None:
        super().__init__(name, because)
        self.name = name
        self.because = because

    def __str__(self) -> str:
        return (
            f"savepoint {self.name!r} cannot be rolled back to: {self.because}, and DuckLake "
            "undoes only whole transactions. Roll the transaction back, or commit it"
        )


class SchemaChanged(SerializationFailure):
    """Another writer altered, replaced, renamed or dropped a ``table`` that was written.

    ``base`` is the snapshot that this transaction read, ``head`` the newest one now.
    Nothing was written; the whole transaction can be run again.
    """

    def __init__(self, table: str, base: int | None, head: int | None, reason: str) -> None:
        super().__init__(base, head, reason, (table,))
        self.args = (table, base, head, reason)
        self.table = table

    def __str__(self) -> str:
        return (
            f"the definition of table {self.table!r} changed between snapshots {self.base} "
            f"and {self.head} ({self.reason}) while this transaction, which writes it, was "
            "open; nothing was written: roll back and run it again"
        )


class NullValue(duckdb.IntegrityError):
    """NULL was given for a ``column`` of a ``table`` that is NOT NULL.

    ``examples`` are up to three such rows, in the table's ``columns``.  Found by a SELECT
    before anything was written, so the transaction stays usable.
    """

    sqlstate = "23502"

    def __init__(
        self,
        table: str,
        column: str,
        columns: Sequence[str],
        examples: Sequence[tuple[Any, ...]],
    ) -> None:
        super().__init__(table, column, columns, examples)
        self.table = table
        self.column = column
        self.columns = tuple(columns)
        self.examples = tuple(examples)

    def __str__(self) -> str:
        return (
            f"column {self.column!r} of table {self.table!r} is NOT NULL, and rows with "
            f"({', '.join(self.columns)}) = {tuples(self.examples)} have no value in it; "
            "nothing was written. Give one, or a server_default to the column"
        )


class StagedRowsLost(duckdb.InternalError):
    """The lake does not hold the rows that a scope is about to change in a ``table``.

    ``expected`` is how many it kept, ``found`` how many are there.  Nothing of the
    transaction can be published.
    """

    def __init__(self, table: str, expected: int, found: int) -> None:
        super().__init__(table, expected, found)
        self.table = table
        self.expected = expected
        self.found = found

    def __str__(self) -> str:
        return (
            f"of {self.expected} rows of table {self.table!r} that this transaction changed, "
            f"the lake holds {self.found}; nothing was written: roll back and run it again, "
            "and report this with what else writes to the table"
        )
