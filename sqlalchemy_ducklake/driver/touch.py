"""A touch: make writers that leave collisions to DuckLake's retry see ours.

DuckLake's retry lets a foreign writer insert a key that we inserted meanwhile, or delete
what we deleted (all measured on 1.5.5).  It refuses to retry if a row that is in the lake
was updated.  So where ``defend_foreign`` is asked for, a script that only inserted or only
deleted sets a column of one row to itself.  That costs 10 to 25 ms, a data file with one
row, and a pair of images in the change feed that changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from sqlalchemy_ducklake.lake.attach import identifier

if TYPE_CHECKING:
    from sqlalchemy_ducklake.driver.connection import Connection

# DuckLake numbers rows of the open transaction from here on (measured).
_OWN_ROWS = 1_000_000_000_000_000_000


def touch(connection: Connection, table: tuple[str, str], counts: Mapping[str, int]) -> None:
    """Touch a row of a table (schema and name) if a script wrote, but updated nothing.

    A table that holds no row besides those of this transaction has none to touch.
    """
    written = counts.get("inserted") or counts.get("deleted")
    if not written or counts.get("updated"):
        return
    duck, name = connection.duck, ".".join(identifier(each) for each in table if each)
    # Chosen only now: the script may have deleted any row that was there before.
    search = f"SELECT rowid, * FROM {name} WHERE rowid < {_OWN_ROWS} LIMIT 1"
    (statement,) = duck.extract_statements(search)
    connection.send(statement, [])
    columns, row = duck.description or [], duck.fetchone()
    if row is not None:
        column = identifier(columns[1][0])
        update = f"UPDATE {name} SET {column} = {column} WHERE rowid = $1"
        (statement,) = duck.extract_statements(update)
        connection.send(statement, [row[0]])
