"""Say what an error means for a program that must decide what to do next."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

import duckdb

from sqlalchemy_ducklake.errors.commits import (
    CommitFailed,
    FilesLost,
    LockTimeout,
    OutcomeUnknown,
    SerializationFailure,
    StaleBase,
    TransactionAborted,
)
from sqlalchemy_ducklake.errors.hints import has_moved, is_busy, is_lost
from sqlalchemy_ducklake.errors.lake import LakeLocked, LakeUnavailable
from sqlalchemy_ducklake.errors.scope import StagedRowsLost
from sqlalchemy_ducklake.errors.tree import ClosedError, InterfaceError, StatementTimeout


class Kind(StrEnum):
    """What happened, in one word."""

    CONFLICT = "conflict"
    STALE = "stale"
    INTEGRITY = "integrity"
    DATA = "data"
    ABORTED = "aborted"
    LOST = "lost"
    UNAVAILABLE = "unavailable"
    LOCKED = "locked"
    INTERRUPTED = "interrupted"
    RESOURCES = "resources"
    NOT_SUPPORTED = "not supported"
    PROGRAMMING = "programming"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Classification:
    """What an error means for what comes next.

    ``may_have_published``: the work may be in the lake, so look before writing it again.
    ``retry``: the same work, run again from its beginning, may succeed.
    ``connection_usable``: after a rollback the connection is as good as new.
    """

    kind: Kind
    may_have_published: bool = False
    retry: bool = False
    connection_usable: bool = True


def classify(error: BaseException) -> Classification:
    """Classify an error of the driver, or of SQLAlchemy around one.

    The error's class decides.  Only where DuckDB raises its bare ``Error`` or one of its
    classes for everything is the text asked, and then for the kind alone.
    """
    inner = getattr(error, "orig", None) or error
    if isinstance(inner, OutcomeUnknown):
        return _with_cause(_UNKNOWN_OUTCOME, inner)
    if has_moved(inner):
        return Classification(Kind.CONFLICT, retry=True)
    for kind, meaning in _MEANINGS:
        if isinstance(inner, kind):
            return meaning
    return _by_text(inner)


def _with_cause(meaning: Classification, error: BaseException) -> Classification:
    """Ask the cause whether the connection survived."""
    cause = error.__cause__
    if cause is None:
        return meaning
    return replace(meaning, connection_usable=classify(cause).connection_usable)


def _by_text(error: BaseException) -> Classification:
    if is_busy(error):
        return Classification(Kind.LOCKED, retry=True)
    if is_lost(error):
        return Classification(Kind.UNAVAILABLE, retry=True)
    if isinstance(error, duckdb.IOException):
        return Classification(Kind.UNAVAILABLE)
    # Nobody knows, so the worst is said of what was written.
    return Classification(Kind.UNKNOWN, may_have_published=not isinstance(error, duckdb.Error))


_UNKNOWN_OUTCOME = Classification(Kind.UNKNOWN, may_have_published=True)
_LOST = Classification(Kind.LOST, connection_usable=False)

# The first class that fits counts, so a case stands above what it is a case of.
_Classes = type[BaseException] | tuple[type[BaseException], ...]
_MEANINGS: tuple[tuple[_Classes, Classification], ...] = (
    (StaleBase, Classification(Kind.STALE)),
    (SerializationFailure, Classification(Kind.CONFLICT, retry=True)),
    # A SQLite catalog may show parts of two snapshots; then its commit would fail anyway.
    (StagedRowsLost, Classification(Kind.CONFLICT, retry=True)),
    (LockTimeout, Classification(Kind.LOCKED, retry=True)),
    (LakeLocked, Classification(Kind.LOCKED, retry=True)),
    (FilesLost, Classification(Kind.DATA, may_have_published=True)),
    (CommitFailed, Classification(Kind.ABORTED, retry=True)),
    (TransactionAborted, Classification(Kind.ABORTED)),
    (LakeUnavailable, Classification(Kind.UNAVAILABLE)),
    (ClosedError, _LOST),
    (InterfaceError, Classification(Kind.PROGRAMMING)),
    ((duckdb.FatalException, duckdb.InternalException, duckdb.ConnectionException), _LOST),
    ((duckdb.InterruptException, StatementTimeout), Classification(Kind.INTERRUPTED)),
    (duckdb.OutOfMemoryException, Classification(Kind.RESOURCES)),
    (duckdb.TransactionException, Classification(Kind.ABORTED)),
    (duckdb.IntegrityError, Classification(Kind.INTEGRITY)),
    (duckdb.DataError, Classification(Kind.DATA)),
    (duckdb.NotSupportedError, Classification(Kind.NOT_SUPPORTED)),
    (duckdb.ProgrammingError, Classification(Kind.PROGRAMMING)),
)
