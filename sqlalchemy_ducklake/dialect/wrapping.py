"""Errors of the driver that come outside of SQLAlchemy's own calls of a cursor."""

from __future__ import annotations

from typing import Any

import duckdb
from sqlalchemy.exc import DBAPIError


def wrapped(error: duckdb.Error, dialect: Any, statement: str | None = None) -> BaseException:
    """Give the error of SQLAlchemy that stands for one of the driver, as all of its do."""
    return DBAPIError.instance(statement, None, error, duckdb.Error, dialect=dialect)
