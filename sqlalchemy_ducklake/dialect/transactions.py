"""Run a transaction again when another writer came first."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError

from sqlalchemy_ducklake.driver.commit import pause
from sqlalchemy_ducklake.errors import Kind, classify

_Result = TypeVar("_Result")

_AGAIN = frozenset({Kind.CONFLICT, Kind.ABORTED})


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
    What it raises ends the transaction and is raised.
    """
    for number in range(retries):
        try:
            return _run(engine, function, alone=alone or number > 0)
        except DBAPIError as error:
            meaning = classify(error)
            if meaning.kind not in _AGAIN or not meaning.retry:
                raise
        pause(number)
    return _run(engine, function, alone=True)


def _run(engine: Engine, function: Callable[[Connection], _Result], *, alone: bool) -> _Result:
    with engine.connect().execution_options(isolation_level="SNAPSHOT") as connection:
        raw = connection.connection.dbapi_connection
        assert raw is not None
        turn = raw.exclusive() if alone else contextlib.nullcontext()
        with turn, connection.begin():
            return function(connection)
