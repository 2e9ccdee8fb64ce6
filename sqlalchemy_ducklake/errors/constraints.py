"""Rows that a constraint of their table does not allow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import duckdb

from sqlalchemy_ducklake.errors.shown import named, tuples


class AmbiguousKeys(duckdb.IntegrityError):
    """A key that should name one row names several, already in the table.

    ``table``, ``columns`` and ``examples`` (up to three key values, each a tuple) say
    which.  Another tool wrote them: nothing of this package stores a key twice unless it
    is told to with ``enforce_constraints="none"``.
    """

    sqlstate = "23505"

    def __init__(
        self, table: str, columns: Sequence[str], examples: Sequence[tuple[Any, ...]]
    ) -> None:
        super().__init__(table, columns, examples)
        self.table = table
        self.columns = tuple(columns)
        self.examples = tuple(examples)

    def __str__(self) -> str:
        return (
            f"table {self.table!r} holds several rows for one key "
            f"({', '.join(self.columns)}), for example {tuples(self.examples)}; nothing was "
            "written. Remove the duplicates first, by their rowid"
        )


class KeyNotDeclared(duckdb.ProgrammingError):
    """An INSERT through a table without a key goes into one that has the key ``columns``.

    ``table`` is the table of the lake.  Usually the key is just checked; not where the
    statement lacks some of its columns, or returns rows.
    """

    sqlstate = "42P10"

    def __init__(self, table: str, columns: Sequence[str]) -> None:
        super().__init__(table, columns)
        self.table = table
        self.columns = tuple(columns)

    def __str__(self) -> str:
        return (
            f"table {self.table!r} has the primary key ({', '.join(self.columns)}), which the "
            "table of this INSERT does not declare: it lacks some of these columns or their "
            "types, or rows are to be returned. Nothing was written. Declare the key, or "
            "reflect the table (Table(…, autoload_with=engine))"
        )


class ForeignKeyViolation(duckdb.IntegrityError):
    """Rows would refer to rows that are not there.

    ``table``, ``constraint`` (its name, or None) and ``columns`` refer to ``parent`` and
    its ``parent_columns``; ``examples`` are up to three values that are not there.  Found
    by a SELECT before anything was written, so the transaction stays usable.
    """

    sqlstate = "23503"

    def __init__(
        self,
        table: str,
        constraint: str | None,
        columns: Sequence[str],
        parent: tuple[str, Sequence[str]],
        examples: Sequence[tuple[Any, ...]],
    ) -> None:
        super().__init__(table, constraint, columns, parent, examples)
        self.table = table
        self.constraint = constraint
        self.columns = tuple(columns)
        self.parent = parent[0]
        self.parent_columns = tuple(parent[1])
        self.examples = tuple(examples)

    def __str__(self) -> str:
        return (
            f"foreign key{named(self.constraint)} of table {self.table!r}: "
            f"({', '.join(self.columns)}) = {tuples(self.examples)} is not in {self.parent!r} "
            f"({', '.join(self.parent_columns)}); nothing was written. Insert the referred "
            "rows first, or NULL"
        )


class CascadeTooDeep(duckdb.IntegrityError):
    """ON DELETE CASCADE would reach ``table`` after ``levels`` other tables or rows.

    A circle of rows that refer to each other ends like this too.
    """

    sqlstate = "54001"

    def __init__(self, table: str, levels: int) -> None:
        super().__init__(table, levels)
        self.table = table
        self.levels = levels

    def __str__(self) -> str:
        return (
            f"ON DELETE CASCADE would reach table {self.table!r} behind {self.levels} others. "
            "Delete the rows at the far end first, or break a circle with an UPDATE"
        )


class RowReferenced(ForeignKeyViolation):
    """Rows that others refer to would be deleted, or lose the key they are referred by.

    The attributes are those of the foreign key, ``examples`` up to three values that are
    still referred to.
    """

    def __str__(self) -> str:
        return (
            f"rows of {self.parent!r} are still referred to: foreign key"
            f"{named(self.constraint)} of table {self.table!r} ({', '.join(self.columns)}) "
            f"holds {tuples(self.examples)} of ({', '.join(self.parent_columns)}); nothing "
            "was written. Delete or change the referring rows first (ON DELETE and ON UPDATE "
            "actions are not executed)"
        )


class CheckViolation(duckdb.IntegrityError):
    """Rows would not satisfy a CHECK constraint.

    ``table``, ``constraint`` (its name, or None) and ``condition`` say which, ``examples``
    are the values of ``columns`` in up to three such rows.
    """

    sqlstate = "23514"

    def __init__(
        self,
        table: str,
        constraint: str | None,
        condition: str,
        columns: Sequence[str],
        examples: Sequence[tuple[Any, ...]],
    ) -> None:
        super().__init__(table, constraint, condition, columns, examples)
        self.table = table
        self.constraint = constraint
        self.condition = condition
        self.columns = tuple(columns)
        self.examples = tuple(examples)

    def __str__(self) -> str:
        return (
            f"check{named(self.constraint)} of table {self.table!r} demands "
            f"{self.condition}; rows with ({', '.join(self.columns)}) = "
            f"{tuples(self.examples)} do not satisfy it; nothing was written. Correct the "
            "values"
        )


class NumbersExhausted(duckdb.DataError):
    """A key that counts up by itself has no number left.

    ``table`` and ``column`` say which, ``found`` is the number that would have come next,
    ``expected`` the type, or the last number that its Identity allows.  Found before anything
    was written, so the transaction stays usable.
    """

    sqlstate = "2200H"

    def __init__(self, table: str, column: str, expected: str, found: Any) -> None:
        super().__init__(table, column, expected, found)
        self.table = table
        self.column = column
        self.expected = expected
        self.found = found

    def __str__(self) -> str:
        return (
            f"column {self.column!r} of table {self.table!r} counts up by itself and has no "
            f"number left: {self.found} does not fit {self.expected}; nothing was written. "
            "Give the rows keys of your own, or widen the column (to BIGINT, say)"
        )
