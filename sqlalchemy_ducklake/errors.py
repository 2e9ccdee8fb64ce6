"""One small tree of errors on top of the driver's exceptions.

Every class descends from the PEP 249 exception it is a case of, so ``except
IntegrityError`` keeps working; every instance carries as attributes what its message
says, so no program has to read the message.  The constructor's arguments stay in
``args``, which makes each error picklable.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import duckdb


class InterfaceError(duckdb.Error):
    """The driver was used in a way that PEP 249 does not allow."""


class ClosedError(InterfaceError):
    """A connection or cursor was used after it had been closed."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what

    def __str__(self) -> str:
        return f"this {self.what} is closed; open a new one"


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


class TransactionAborted(duckdb.OperationalError):
    """A statement failed earlier, so nothing of this transaction can be published.

    DuckDB answers a COMMIT of such a transaction with success and publishes nothing
    (measured on 1.5.5); the driver tells.  ``cause`` is the error that did it.
    """

    sqlstate = "25P02"

    def __init__(self, cause: BaseException | None = None) -> None:
        super().__init__(cause)
        self.cause = cause

    def __str__(self) -> str:
        reason = "" if self.cause is None else f" ({type(self.cause).__name__}: {self.cause})"
        return (
            f"the transaction was ended by an earlier error{reason}; nothing of it was "
            "written: roll back and run it again"
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
        name = f" {self.constraint!r}" if self.constraint else ""
        shown = ", ".join(_tuple_text(example) for example in self.examples)
        return (
            f"duplicate key in table {self.table!r}: the key{name} "
            f"({', '.join(self.columns)}) would hold {shown} more than once; nothing was "
            "written. Use on_conflict_do_update() or on_conflict_do_nothing() where rows "
            "may exist already"
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


class ValueRefused(duckdb.DataError):
    """A parameter cannot be stored exactly in its column.

    ``column``, ``expected`` (the type), ``found`` (the value) and ``position`` (its
    parameter set, from 0) say which.
    """

    sqlstate = "22000"

    def __init__(
        self, column: str, expected: str, found: Any, position: int, reason: str
    ) -> None:
        super().__init__(column, expected, found, position, reason)
        self.column = column
        self.expected = expected
        self.found = found
        self.position = position
        self.reason = reason

    def __str__(self) -> str:
        return (
            f"column {self.column!r} ({self.expected}) cannot hold {self.found!r} of "
            f"parameter set {self.position}: {self.reason}"
        )


class SerializationFailure(duckdb.OperationalError):
    """Another writer committed first; the whole transaction can be run again.

    ``base`` is the snapshot this transaction read, ``head`` the newest one now (None
    where it could not be told).
    """

    sqlstate = "40001"

    def __init__(self, base: int | None, head: int | None, reason: str = "") -> None:
        super().__init__(base, head, reason)
        self.base = base
        self.head = head
        self.reason = reason

    def __str__(self) -> str:
        return (
            f"the lake moved from snapshot {self.base} to {self.head} while this transaction, "
            "which checked keys or changed rows, was open; nothing was written: roll back and "
            f"run it again ({self.reason})"
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


class OptionError(duckdb.ProgrammingError):
    """An option is unknown, has a bad value or contradicts another one."""

    def __init__(self, option: str, problem: str) -> None:
        super().__init__(option, problem)
        self.option = option
        self.problem = problem

    def __str__(self) -> str:
        return f"option {self.option}: {self.problem}"


class ExtensionMissing(duckdb.OperationalError):
    """DuckDB has no extension of this name; ``tried`` pairs each place with its reason."""

    def __init__(self, extension: str, tried: Sequence[tuple[str, str]]) -> None:
        super().__init__(extension, tried)
        self.extension = extension
        self.tried = tuple(tried)

    def __str__(self) -> str:
        places = "".join(f"\n  {place}: {reason}" for place, reason in self.tried)
        return (
            f"no DuckDB extension {self.extension!r}; tried{places}\n"
            'Run: pip install "sqlalchemy_ducklake[bundled]"'
        )


class LakeUnavailable(duckdb.OperationalError):
    """A lake could not be opened.

    ``catalog`` names its file or its PostgreSQL database (never a password), ``reason``
    says why.  The subclasses are the reasons a program may want to tell apart.
    """

    sqlstate = "08001"

    def __init__(self, catalog: str, reason: str) -> None:
        super().__init__(catalog, reason)
        self.catalog = catalog
        self.reason = reason

    def __str__(self) -> str:
        return f"cannot open the lake {self.catalog}: {self.reason}"


class LakeNotFound(LakeUnavailable):
    """There is no lake, and none was to be made here."""


class LakeLocked(LakeUnavailable):
    """Another process holds the catalog file.

    ``process`` is its number where the engine told it, a hint for a human.
    """

    def __init__(self, catalog: str, process: int | None = None) -> None:
        who = "another process" if process is None else f"process {process}"
        super().__init__(
            catalog,
            f"{who} holds the file; close it there and try again. (A DuckDB catalog is for "
            "one process at a time; SQLite and PostgreSQL catalogs can be shared.)",
        )
        self.args = (catalog, process)
        self.process = process


class LakeOpenedDifferently(LakeUnavailable):
    """The catalog file is open in this process, with another value of ``option``."""

    def __init__(self, catalog: str, option: str) -> None:
        super().__init__(
            catalog,
            f"this process has it open, and {option} differs; a DuckDB catalog opens one way "
            "at a time: use the same options, close the other engine with dispose(), or use "
            "a SQLite catalog",
        )
        self.args = (catalog, option)
        self.option = option


class DataPathMismatch(LakeUnavailable):
    """The lake keeps its data elsewhere than the option ``data_path`` says."""

    def __init__(self, catalog: str, data_path: str) -> None:
        super().__init__(
            catalog,
            f"its catalog names another place than data_path={data_path}; leave the "
            "option out, or add override_data_path=true if the files were moved there",
        )
        self.args = (catalog, data_path)
        self.data_path = data_path


class CatalogTooOld(LakeUnavailable):
    """The catalog has the format of an older DuckLake."""

    def __init__(self, catalog: str) -> None:
        super().__init__(
            catalog,
            "its catalog has an older format; add automatic_migration=true to rewrite it "
            "(older programs cannot read it after that, so keep a copy)",
        )
        self.args = (catalog,)


class SchemaNotFound(duckdb.ProgrammingError):
    """The lake has no schema of the name that a connection should start in."""

    sqlstate = "3F000"

    def __init__(self, schema: str, catalog: str) -> None:
        super().__init__(schema, catalog)
        self.schema = schema
        self.catalog = catalog

    def __str__(self) -> str:
        return (
            f"the lake {self.catalog} has no schema {self.schema!r}; leave the option schema "
            f'out, and create it first: CREATE SCHEMA "{self.schema}"'
        )


def _tuple_text(values: Sequence[Any]) -> str:
    return "(" + ", ".join(repr(value) for value in values) + ")"
