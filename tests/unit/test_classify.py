"""What an error means for a program that must decide what to do next."""

from __future__ import annotations

import pickle

import duckdb
import pytest
import sqlalchemy.exc

from sqlalchemy_ducklake import errors
from sqlalchemy_ducklake.errors import Classification, Kind, classify


@pytest.mark.parametrize(
    ("error", "kind", "retry", "usable"),
    [
        (errors.SerializationFailure(1, 2, "", ["main.t"]), Kind.CONFLICT, True, True),
        (errors.StagedRowsLost("main.t", 1, 2), Kind.CONFLICT, True, True),
        (errors.StaleBase("main.t", 1, 2), Kind.STALE, False, True),
        (errors.CommitFailed(1, "why"), Kind.ABORTED, True, True),
        (errors.TransactionAborted(), Kind.ABORTED, False, True),
        (errors.LockTimeout(["main.t"], 3), Kind.LOCKED, True, True),
        (errors.LakeLocked("a.ducklake", 7), Kind.LOCKED, True, True),
        (errors.LakeNotFound("a.ducklake", "why"), Kind.UNAVAILABLE, False, True),
        (errors.KeyViolation("t", None, ["a"], [(1,)]), Kind.INTEGRITY, False, True),
        (errors.ValueRefused("c", "DATE", 5, 2, "why"), Kind.DATA, False, True),
        (errors.StatementRefused("x", "why"), Kind.NOT_SUPPORTED, False, True),
        (errors.ParameterError(["1"], []), Kind.PROGRAMMING, False, True),
        (errors.ClosedError("cursor"), Kind.LOST, False, False),
        (duckdb.FatalException("x"), Kind.LOST, False, False),
        (duckdb.InterruptException("x"), Kind.INTERRUPTED, False, True),
        (duckdb.OutOfMemoryException("x"), Kind.RESOURCES, False, True),
        (duckdb.IOException("x"), Kind.UNAVAILABLE, False, True),
        (duckdb.Error("x"), Kind.UNKNOWN, False, True),
    ],
)
def test_the_class_decides(error: Exception, kind: Kind, retry: bool, usable: bool) -> None:
    expected = Classification(kind, retry=retry, connection_usable=usable)
    assert classify(error) == expected
    assert classify(sqlalchemy.exc.DBAPIError("x", None, error)) == expected


@pytest.mark.parametrize("cause", [None, duckdb.IOException("x"), duckdb.FatalException("x")])
def test_an_unknown_outcome_may_be_published_and_its_cause_tells_of_the_connection(
    cause: Exception | None,
) -> None:
    error = errors.OutcomeUnknown(3, "id", "why")
    error.__cause__ = cause
    usable = not isinstance(cause, duckdb.FatalException)
    assert classify(error) == Classification(Kind.UNKNOWN, True, False, usable)


def test_of_a_foreign_error_the_worst_is_said() -> None:
    assert classify(ValueError()).may_have_published


@pytest.mark.parametrize(
    "error",
    [
        errors.SerializationFailure(1, 2, "reason", ["main.t"]),
        errors.StaleBase("main.t", None, 2),
        errors.CommitFailed(1, "reason"),
        errors.OutcomeUnknown(1, "id", "reason"),
        errors.LockTimeout([], 0.5),
    ],
)
def test_errors_of_commits_survive_pickling_with_their_data(error: Exception) -> None:
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy), vars(copy)) == (type(error), str(error), vars(error))
