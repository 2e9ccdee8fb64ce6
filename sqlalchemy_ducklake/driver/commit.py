"""How a transaction ends: safely, or with the truth about what happened.

DuckLake retries a commit that another one overtook, ten times by default.  That is right
for appends to tables without keys.  It lets two writers insert one key, lets overlapping
deletes duplicate rows and lets a compaction undo a delete (all measured on 1.5.5).  So a
transaction that checked a key, changed rows or ran DDL commits by *compare-and-swap*:
with no retry, its commit fails if any snapshot was published since its own was pinned.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import duckdb

from sqlalchemy_ducklake.errors import SerializationFailure


@contextlib.contextmanager
def compare_and_swap(duck: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """Let a COMMIT inside fail rather than retry on top of other people's commits."""
    duck.execute("SET SESSION ducklake_max_retry_count = 0")
    try:
        yield
    finally:
        duck.execute("RESET SESSION ducklake_max_retry_count")


def commit(duck: duckdb.DuckDBPyConnection, *, guarded: bool) -> None:
    """Commit, by compare-and-swap if ``guarded``.

    Raises SerializationFailure where another writer came first.  The transaction is over
    in any case.
    """
    try:
        if not guarded:
            duck.commit()
            return
        with compare_and_swap(duck):
            duck.commit()
    except duckdb.TransactionException as error:
        # DuckDB has rolled back; which road it was that failed, only a later look at the
        # lake's history can tell for sure.
        raise SerializationFailure(None, head_of(duck), str(error)) from error


def head_of(duck: duckdb.DuckDBPyConnection) -> int | None:
    """Give the newest snapshot of the lake that the connection uses, None if unknown."""
    try:
        row = duck.execute("FROM current_snapshot()").fetchone()
    except duckdb.Error:
        return None
    return None if row is None else int(row[0])
