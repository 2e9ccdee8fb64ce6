"""Compare what a lake tells with what a model says."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Column, MetaData, Table, inspect
from sqlalchemy.engine import Connection

_AS_TEXT = {"true": "'true'", "false": "'false'"}


def same_default(connection: Connection, found: Any, wanted: Column[Any]) -> bool:
    """Tell whether a column of a lake has the default that a model declares.

    The engine writes defaults in its own way, so a temporary table is given the model's,
    and the two are compared as the engine tells them.
    """
    probe = Table(
        "ducklake_default_probe",
        MetaData(),
        Column("probe", wanted.type, server_default=wanted.server_default),
        prefixes=["TEMPORARY"],
    )
    probe.create(connection)
    try:
        (told,) = inspect(connection).get_columns(probe.name)
    finally:
        probe.drop(connection)
    # A word of BOOLEAN that came with ALTER TABLE is a text to the engine.
    default = str(told["default"])
    return found in {default, _AS_TEXT.get(default)}
