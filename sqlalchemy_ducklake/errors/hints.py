"""Texts of the engine that tell a kind of error where its class does not.

DuckDB 1.5 raises its bare ``Error`` for some failures of a catalog.  What is decided by
these texts is how an error is called, never whether something was written: a test
provokes each one from the real engine.
"""

from __future__ import annotations

CATALOG_BUSY = ("database is locked",)
CATALOG_LOST = (
    "server closed the connection",
    "no connection to the server",
    "Unable to connect to Postgres",
)
CATALOG_MOVED = (
    "Failed to read inlined data from DuckLake",
    "could not serialize access",
    "deadlock detected",
)


def is_busy(error: BaseException) -> bool:
    """Tell whether another process holds the catalog just now."""
    return any(text in str(error) for text in CATALOG_BUSY)


def is_lost(error: BaseException) -> bool:
    """Tell whether the catalog's server went away."""
    return any(text in str(error) for text in CATALOG_LOST)


def has_moved(error: BaseException) -> bool:
    """Tell whether what a transaction had read of the catalog is there no more.

    A transaction on a SQLite catalog sees what others do to the catalog meanwhile: rows that
    it knows to be kept in the catalog may be in a file by now.  PostgreSQL says so itself.
    """
    return any(text in str(error) for text in CATALOG_MOVED)
