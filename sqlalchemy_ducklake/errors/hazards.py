"""Statements that DuckLake takes and that would ruin what they are about."""

from __future__ import annotations

import duckdb


class _Ruinous(duckdb.NotSupportedError):
    """A statement that would ruin ``table``; ``statement`` is what was refused."""

    def __init__(self, table: str, statement: str) -> None:
        super().__init__(table, statement)
        self.table = table
        self.statement = statement


class RowsWouldHide(_Ruinous):
    """A table with rows was to be partitioned by buckets, which would hide them.

    DuckLake 1.5.5 finds no row that was there before by the column of a bucket.  ``table``
    is its name, ``statement`` what was refused.
    """

    def __str__(self) -> str:
        return (
            f"table {self.table!r} has rows, and by the column of a bucket DuckLake would find "
            "none of them any more; let Alembic's op.set_ducklake_partitioning(…) do it, which "
            f"writes them anew, or partition a new table and fill it: {self.statement}"
        )


class WriteAfterReset(_Ruinous):
    """A table was to be written in the transaction that reset its partitions.

    DuckLake 1.5.5 ends the whole instance over that.  ``table`` is its name, ``statement``
    what was refused.
    """

    def __str__(self) -> str:
        return (
            f"the partitions of {self.table!r} were reset in this transaction, and to write it "
            "now would end the whole DuckDB instance; commit first, or write first: "
            f"{self.statement}"
        )


class TypeSpoiled(duckdb.NotSupportedError):
    """A column was to get a type whose values a lake would spoil.

    ``table`` is its name, ``type_name`` the type and ``instead`` one that holds such values
    exactly, ``statement`` what was refused.
    """

    def __init__(self, table: str, type_name: str, instead: str, statement: str) -> None:
        super().__init__(table, type_name, instead, statement)
        self.table = table
        self.type_name = type_name
        self.instead = instead
        self.statement = statement

    def __str__(self) -> str:
        return (
            f"table {self.table!r} would get a column of type {self.type_name.upper()}, which "
            "files cannot hold: DuckLake writes whole numbers of that size as DOUBLE, and a "
            f"TIME_NS ends the instance. Use {self.instead}: {self.statement}"
        )
