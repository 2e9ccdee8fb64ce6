"""A PEP 249 driver over DuckDB with a DuckLake attached.

:func:`connect` opens a lake.  What it adds to DuckDB's own Python module is what PEP 249
promises and DuckDB does not: a cursor that owns its result, true row counts, transactions
that begin by themselves and never lie about a commit, the missing constructors and
exceptions.  What a lake has no statement for comes as a :class:`script.Script`.

    connection.py   the connection and the state of its transaction
    cursor.py       execute, count, fetch
    result.py       rows that survive the next statement
    script.py       several statements that are one to the user
    batch.py        parameter sets → one Arrow table, exactly
    commit.py       how a transaction ends
    deadline.py     how long a statement may take
"""

from __future__ import annotations

from pathlib import Path

from duckdb import (
    ConnectionException,
    DatabaseError,
    DataError,
    Error,
    FatalException,
    IntegrityError,
    InternalError,
    InternalException,
    NotSupportedError,
    OperationalError,
    ProgrammingError,
    Warning,  # noqa: A004 - PEP 249's name
)

from sqlalchemy_ducklake.driver.connection import Connection
from sqlalchemy_ducklake.driver.cursor import Cursor
from sqlalchemy_ducklake.driver.parameters import Fields
from sqlalchemy_ducklake.driver.types import (
    BINARY,
    DATETIME,
    NUMBER,
    ROWID,
    STRING,
    Binary,
    Date,
    DateFromTicks,
    Time,
    TimeFromTicks,
    Timestamp,
    TimestampFromTicks,
)
from sqlalchemy_ducklake.errors import ClosedError, InterfaceError
from sqlalchemy_ducklake.lake.catalogs import DuckDBCatalog
from sqlalchemy_ducklake.lake.config import LakeConfig
from sqlalchemy_ducklake.lake.instances import open_session
from sqlalchemy_ducklake.lake.locks import DEFAULT_TIMEOUT

__all__ = [
    "BINARY",
    "DATETIME",
    "LOST_CONNECTION",
    "NUMBER",
    "ROWID",
    "STRING",
    "Binary",
    "Connection",
    "Cursor",
    "DataError",
    "DatabaseError",
    "Date",
    "DateFromTicks",
    "Error",
    "Fields",
    "IntegrityError",
    "InterfaceError",
    "InternalError",
    "NotSupportedError",
    "OperationalError",
    "ProgrammingError",
    "Time",
    "TimeFromTicks",
    "Timestamp",
    "TimestampFromTicks",
    "Warning",
    "apilevel",
    "connect",
    "paramstyle",
    "threadsafety",
]

apilevel = "2.0"
#: Threads may share the module, not a connection: each opens its own, on one instance.
threadsafety = 1
#: After one of these a connection is of no more use: it is closed, or its instance died.
LOST_CONNECTION = (FatalException, InternalException, ConnectionException, ClosedError)
#: ``?``; ``$1`` and ``$name`` work as well.
paramstyle = "qmark"


def connect(
    config: LakeConfig | str | Path,
    *,
    autocommit: bool = False,
    statement_timeout: float | None = None,
    lock_timeout: float = DEFAULT_TIMEOUT,
) -> Connection:
    """Open a connection to the lake that ``config`` describes.

    A path is that of a DuckDB catalog file, with every option at its default.
    The lake is created if it does not exist, unless the configuration says otherwise.
    All connections of a process to one lake share one DuckDB instance.  The timeouts are in
    seconds; see :class:`Connection`.
    """
    if not isinstance(config, LakeConfig):
        config = LakeConfig(DuckDBCatalog(str(config)))
    connection = Connection(open_session(config), autocommit=autocommit)
    connection.statement_timeout, connection.lock_timeout = statement_timeout, lock_timeout
    return connection
