"""Run a transaction again when another writer came first."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TypeVar, cast

import duckdb
from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError

from sqlalchemy_ducklake import driver
from sqlalchemy_ducklake.dialect.wrapping import wrapped
from sqlalchemy_ducklake.driver.commit import pause
from sqlalchemy_ducklake.errors import Kind, LockTimeout, classify

_Result = TypeVar("_Result")

_AGAIN = frozenset({Kind.CONFLICT, Kind.ABORTED, Kind.LOCKED, Kind.UNAVAILABLE})


def run_transaction(
    engine: Engine,
    function: Callable[[Connection], _Result],
    *,
    retries: int = 8,
    alone: bool = False,
) -> _Result:
    """Run ``function(connection)`` in a transaction, and again after a conflict.

    From the second try on (with ``alone`` from the first) the lock of the lake is held from
    the beginning, so that the writers of this package let it through.  The function may run
    several times, so it must do nothing but use the connection; its result is given back.
    What it raises ends the transaction and is raised; and so is, around a LockTimeout, that
    others did not let go of the lock in time.
    """
    for number in range(retries):
        try:
            return _run(engine, function, alone=alone or number > 0)
        except DBAPIError as error:
            if not _may_go_well(error):
                raise
        pause(number)
    return _run(engine, function, alone=True)


def _may_go_well(error: DBAPIError) -> bool:
    """Tell whether another try is of use; who waited for a lock in vain waited enough."""
    meaning = classify(error)
    return meaning.retry and meaning.kind in _AGAIN and not isinstance(error.orig, LockTimeout)


def _run(engine: Engine, function: Callable[[Connection], _Result], *, alone: bool) -> _Result:
    with (
        engine.connect().execution_options(isolation_level="SNAPSHOT") as connection,
        _turn(connection) if alone else contextlib.nullcontext(),
        connection.begin(),
    ):
        return function(connection)


@contextlib.contextmanager
def _turn(connection: Connection) -> Iterator[None]:
    """Hold the lock of the lake; waiting in vain is an error of SQLAlchemy, as all are."""
    own = cast("driver.Connection", connection.connection.dbapi_connection)
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(own.exclusive())
        except duckdb.Error as error:
            raise wrapped(error, connection.dialect) from error
        yield
