"""Waiting for a catalog that somebody else is writing just now."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import duckdb
from sqlalchemy.exc import DBAPIError

from sqlalchemy_ducklake.driver.commit import TRIES, pause
from sqlalchemy_ducklake.errors import Kind, LockTimeout, classify

_Result = TypeVar("_Result")


def patiently(work: Callable[[], _Result]) -> _Result:
    """Do some work, and again a little later if the catalog was busy.

    In SQLite anybody's commit, also a plain append's, turns others away at once.
    """
    for number in range(TRIES - 1):
        try:
            return work()
        except (DBAPIError, duckdb.Error) as error:
            cause = getattr(error, "orig", None) or error
            if classify(error).kind is not Kind.LOCKED or isinstance(cause, LockTimeout):
                raise
        pause(number)
    return work()
