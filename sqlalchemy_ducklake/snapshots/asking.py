"""What every question about history begins with: a connection and a table."""

from __future__ import annotations

from typing import Any, cast

from sqlalchemy import Connection, Table, exc, inspect
from sqlalchemy.orm import Session

from sqlalchemy_ducklake.driver import Connection as DriverConnection
from sqlalchemy_ducklake.lake.changes import TableName


def core_connection(connection: Connection | Session) -> Connection:
    """Give the connection of a session, or the connection itself."""
    return connection.connection() if isinstance(connection, Session) else connection


def driver_connection(connection: Connection | Session) -> DriverConnection:
    """Give the driver's connection below."""
    raw = core_connection(connection).connection.dbapi_connection
    return cast("DriverConnection", raw)


def target_of(table: Any) -> Table:
    """Give the table of a mapped class, or the table itself; raises ArgumentError."""
    target = inspect(table).local_table if hasattr(table, "__mapper__") else table
    if not isinstance(target, Table):
        raise exc.ArgumentError(f"{table!r} is neither a Table nor a mapped class")
    return target


def name_of(connection: Connection | Session, table: Table) -> TableName:
    """Give schema and name of a table, as the connection's options translate them."""
    core = core_connection(connection)
    names = core.get_execution_options().get("schema_translate_map") or {}
    schema = names.get(table.schema, table.schema)
    return (schema or core.dialect.default_schema_name or "", table.name)
