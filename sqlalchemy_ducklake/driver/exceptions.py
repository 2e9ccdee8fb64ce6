"""The exceptions of PEP 249 as attributes, which it asks for of a connection too."""

from __future__ import annotations

import duckdb

from sqlalchemy_ducklake.errors import InterfaceError as _InterfaceError


class Exceptions:
    """What a connection may raise, by the names that PEP 249 gives it."""

    Warning = duckdb.Warning
    Error = duckdb.Error
    InterfaceError = _InterfaceError
    DatabaseError = duckdb.DatabaseError
    DataError = duckdb.DataError
    OperationalError = duckdb.OperationalError
    IntegrityError = duckdb.IntegrityError
    InternalError = duckdb.InternalError
    ProgrammingError = duckdb.ProgrammingError
    NotSupportedError = duckdb.NotSupportedError
