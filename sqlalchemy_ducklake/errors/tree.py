"""How the driver was used, and what was found in rows and comments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import duckdb

from sqlalchemy_ducklake.errors.shown import named, tuples


class InterfaceError(duckdb.Error):
    """The driver was used in a way that PEP 249 does not allow."""


class ClosedError(InterfaceError):
    """A connection or cursor was used after it had been closed."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what

    def __str__(self) -> str:
        return f"this {self.what} is closed; open a new one"


class ForkedError(ClosedError):
    """A connection was used in a process that was forked from the one that opened it."""

    def __str__(self) -> str:
        return (
            f"this {self.what} was opened before this process was forked, and what is written "
            "through it would be lost; call engine.dispose(close=False) first thing in the "
            "child, or start it by multiprocessing.get_context('spawn')"
        )


class ParameterError(duckdb.ProgrammingError):
    """The parameters do not fit the placeholders of the statement."""

    def __init__(self, expected: Sequence[str], found: Sequence[str]) -> None:
        super().__init__(expected, found)
        self.expected = tuple(expected)
        self.found = tuple(found)

    def __str__(self) -> str:
        return (
            f"the statement has the placeholders ({', '.join(self.expected)}), "
            f"the parameters are for ({', '.join(self.found)})"
        )


class StatementRefused(duckdb.NotSupportedError):
    """A statement that the engine cannot run, or must never get; ``reason`` says why."""

    sqlstate = "0A000"

    def __init__(self, statement: str, reason: str) -> None:
        super().__init__(statement, reason)
        self.statement = statement
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.reason} (statement: {self.statement.strip()[:200]})"


class StatementTimeout(duckdb.OperationalError):
    """A statement took longer than the ``seconds`` it was given, and was stopped.

    In a transaction of several statements only a rollback is left.  A COMMIT is not stopped.
    """

    sqlstate = "57014"

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.seconds = seconds

    def __str__(self) -> str:
        return (
            f"the statement was stopped after {self.seconds:g} s; give it more time with "
            "statement_timeout or the execution option ducklake_timeout, or ask for less"
        )


class KeyViolation(duckdb.IntegrityError):
    """Rows would hold one value of a key twice.

    ``table``, ``constraint`` (its name, or None), ``columns`` and ``examples`` (up to
    three key values, each a tuple) say which.  Found by a SELECT before anything was
    written, so the transaction stays usable.
    """

    sqlstate = "23505"

    def __init__(
        self,
        table: str,
        constraint: str | None,
        columns: Sequence[str],
        examples: Sequence[tuple[Any, ...]],
    ) -> None:
        super().__init__(table, constraint, columns, examples)
        self.table = table
        self.constraint = constraint
        self.columns = tuple(columns)
        self.examples = tuple(examples)

    def __str__(self) -> str:
        shown = tuples(self.examples)
        return (
            f"duplicate key in table {self.table!r}: the key{named(self.constraint)} "
            f"({', '.join(self.columns)}) would hold {shown} more than once; nothing was "
            "written. Use on_conflict_do_update() or on_conflict_do_nothing() where rows "
            "may exist already"
        )


class CardinalityViolation(duckdb.ProgrammingError):
    """A merge would change one row of the target more than once.

    ``table``, ``columns`` and ``examples`` (up to three rows, by their key or row id) say
    which.  The SQL standard (ISO/IEC 9075-2, <merge statement>) demands the error.
    """

    sqlstate = "21000"

    def __init__(
        self, table: str, columns: Sequence[str], examples: Sequence[tuple[Any, ...]]
    ) -> None:
        super().__init__(table, columns, examples)
        self.table = table
        self.columns = tuple(columns)
        self.examples = tuple(examples)

    def __str__(self) -> str:
        shown = tuples(self.examples)
        return (
            f"several source rows match one row of {self.table!r}: ({', '.join(self.columns)}) "
            f"= {shown}; nothing was written. Reduce the source to one row per key first"
        )


class UnknownChange(duckdb.DataError):
    """A change says of itself what no change is; ``kinds`` are up to three such words."""

    sqlstate = "22000"

    def __init__(self, table: str, column: str, kinds: Sequence[Any]) -> None:
        super().__init__(table, column, kinds)
        self.table = table
        self.column = column
        self.kinds = tuple(kinds)

    def __str__(self) -> str:
        return (
            f"changes of {self.table!r} have the kinds {list(self.kinds)} in column "
            f"{self.column!r}; a change is an 'upsert', a 'delete' or, where assigned= says of "
            "what, a 'patch'. Nothing was written"
        )


class UnknownColumns(duckdb.DataError):
    """A patch lists columns that it cannot assign; ``names`` are up to three of them."""

    sqlstate = "42703"

    def __init__(self, table: str, column: str, names: Sequence[Any]) -> None:
        super().__init__(table, column, names)
        self.table = table
        self.column = column
        self.names = tuple(names)

    def __str__(self) -> str:
        return (
            f"patches of {self.table!r} list {list(self.names)} in column {self.column!r}; a "
            "patch assigns columns that table and source both have. Nothing was written"
        )


class NullKey(duckdb.IntegrityError):
    """A row has NULL in a column of its key.

    ``table`` and ``columns`` name the key, ``column`` the one that is NULL.
    """

    sqlstate = "23502"

    def __init__(self, table: str, column: str, columns: Sequence[str]) -> None:
        super().__init__(table, column, columns)
        self.table = table
        self.column = column
        self.columns = tuple(columns)

    def __str__(self) -> str:
        return (
            f"NULL in key column {self.column!r} of table {self.table!r}: every row needs a "
            f"value in ({', '.join(self.columns)}); nothing was written"
        )


class GeneratedAlways(duckdb.ProgrammingError):
    """A value was given for a column that always counts up by itself.

    ``table``, ``column`` and ``found`` (the value) say which.
    """

    sqlstate = "428C9"

    def __init__(self, table: str, column: str, found: Any) -> None:
        super().__init__(table, column, found)
        self.table = table
        self.column = column
        self.found = found

    def __str__(self) -> str:
        return (
            f"column {self.column!r} of table {self.table!r} is Identity(always=True) and "
            f"takes no value, not {self.found!r}; nothing was written"
        )


class NameTooLong(duckdb.ProgrammingError):
    """A table or schema would get a folder whose name no file system takes.

    DuckLake names the folder after it, if it is made of letters, digits, ``_`` and ``-`` of
    ASCII; others get a number.  ``kind``, ``name`` and ``expected`` (the most letters) say
    which.
    """

    sqlstate = "42622"

    def __init__(self, kind: str, name: str, expected: int) -> None:
        super().__init__(kind, name, expected)
        self.kind = kind
        self.name = name
        self.expected = expected

    @property
    def found(self) -> int:
        """How many letters the name has."""
        return len(self.name)

    def __str__(self) -> str:
        return (
            f"the {self.kind} {self.name!r} could be made, but never hold a file: its name has "
            f"{self.found} letters, and that of a folder at most {self.expected}; nothing was "
            "made. Choose a shorter name"
        )


class IntervalTooLong(duckdb.DataError):
    """An INTERVAL has more microseconds than Arrow has room for: 292 years of them.

    ``column`` says where.
    """

    sqlstate = "22008"

    def __init__(self, column: str) -> None:
        super().__init__(column)
        self.column = column

    def __str__(self) -> str:
        return (
            f"column {self.column!r} holds an INTERVAL of more than 292 years without months "
            "and days, which Arrow cannot hold; fetch rows instead, or select its parts "
            "(datepart, or to_days of them)"
        )


class ValueRefused(duckdb.DataError):
    """A parameter, or what an expression computes, cannot be stored exactly in its column.

    ``column``, ``expected`` (the type), ``found`` (the value) and ``position`` (its
    parameter set, from 0; None for what was computed) say which.
    """

    sqlstate = "22000"

    def __init__(
        self, column: str, expected: str, found: Any, position: int | None, reason: str
    ) -> None:
        super().__init__(column, expected, found, position, reason)
        self.column = column
        self.expected = expected
        self.found = found
        self.position = position
        self.reason = reason

    def __str__(self) -> str:
        place = "" if self.position is None else f" of parameter set {self.position}"
        return (
            f"column {self.column!r} ({self.expected}) cannot hold {self.found!r}{place}: "
            f"{self.reason}"
        )


class MalformedTag(duckdb.DataError):
    """A comment carries a key or constraint tag that this package cannot read.

    ``table``, ``column`` (None for a tag on the table), ``value`` (the tag) and ``reason``
    say which.  Nothing is guessed from such a tag.
    """

    def __init__(self, table: str, column: str | None, value: str, reason: str) -> None:
        super().__init__(table, column, value, reason)
        self.table = table
        self.column = column
        self.value = value
        self.reason = reason

    def __str__(self) -> str:
        place = f"table {self.table!r}"
        if self.column is not None:
            place = f"column {self.column!r} of {place}"
        return f"malformed tag {self.value!r} in the comment of {place}: {self.reason}"


class ReservedComment(duckdb.ProgrammingError):
    """A user's comment would read as a tag of this package."""

    def __init__(self, comment: str) -> None:
        super().__init__(comment)
        self.comment = comment

    def __str__(self) -> str:
        return (
            f"the comment {self.comment!r} has a line that begins as a key or constraint tag "
            "does; change the beginning of that line"
        )


class StaleConstraint(duckdb.DataError):
    """A constraint in the tag of a table names a column that the table has not (any more).

    ``table``, ``constraint`` (its name, or what it is) and ``column`` say which.  Another
    tool renamed or dropped the column.
    """

    def __init__(self, table: str, constraint: str, column: str) -> None:
        super().__init__(table, constraint, column)
        self.table = table
        self.constraint = constraint
        self.column = column

    def __str__(self) -> str:
        return (
            f"{self.constraint} of table {self.table!r} names the column {self.column!r}, "
            "which is not there: it was renamed or dropped by a tool that does not keep "
            "constraints; correct the tag in the comment of the table"
        )
